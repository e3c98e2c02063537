// Store the losses of rows by label in ring buffers, and find the rows whose loss is not above a quantile of those.
#include <algorithm>
#include <cmath>

#include "cpu_threads.h"

namespace {

// The arguments of one call, as those of cpu.py.
template <class T> struct Call {
    int64_t rows;
    const T* losses;
    const int64_t* target;
    int64_t ignored, labels, window;
    T* stored;       // window + 1 for each label; the last is not used here
    int64_t* count;  // losses seen of each label, and of rows without one
    const int64_t* share;
    bool* kept;

    // Whether a row has one of the labels, and a loss that is a number.
    bool is_known(int64_t row) const {
        return target[row] >= 0 && target[row] < labels && target[row] != ignored && losses[row] == losses[row];
    }
};

constexpr int share_bits = 36;  // shares are multiples of 2^-36: see trimmed.py

constexpr int64_t infinite_loss = -1;  // returned if a row that is not kept has an infinite loss

// Index of the quantile among `count` losses in ascending order.
inline int64_t place_of(int64_t count, int64_t share) {
    return std::max<int64_t>(count - (count * share >> share_bits) - 1, 0);
}

// How many losses are below one: vectors of them are compared at once, where sorting would take far longer.
template <class T> inline int64_t count_below(const T* losses, int64_t count, T one) {
    int32_t below = 0;
    for (int64_t i = 0; i < count; ++i) below += losses[i] < one;
    return below;
}

template <class T> void store_losses(const Call<T>& call, const std::vector<int64_t>& fresh) {
    std::vector<int64_t> next(call.labels, 0);
    for (int64_t row = 0; row < call.rows; ++row) {
        if (!call.is_known(row)) continue;
        const int64_t label = call.target[row], all = fresh[label], at = next[label]++, window = call.window;
        int64_t slot = call.count[label] + at;
        if (all > window) {  // so many stay, evenly spaced: the last are neighbours in an image
            if (at * window % all >= window) continue;
            slot = call.count[label] + all + at * window / all;
        }
        call.stored[label * (window + 1) + slot % window] = call.losses[row];
    }
}

// For each label with more rows than the window holds, the quantile of the losses of this call alone.
template <class T> std::vector<T> own_quantiles(const Call<T>& call, const std::vector<int64_t>& fresh) {
    std::vector<T> quantile(call.labels), grouped(call.rows);
    std::vector<int64_t> start(call.labels + 1, 0);
    for (int64_t label = 0; label < call.labels; ++label) start[label + 1] = start[label] + fresh[label];
    std::vector<int64_t> next(start);
    for (int64_t row = 0; row < call.rows; ++row)
        if (call.is_known(row)) grouped[next[call.target[row]]++] = call.losses[row];
    for (int64_t label = 0; label < call.labels; ++label) {
        if (fresh[label] <= call.window) continue;
        T *first = grouped.data() + start[label], *nth = first + place_of(fresh[label], call.share[label]);
        std::nth_element(first, nth, first + fresh[label]);
        quantile[label] = *nth;
    }
    return quantile;
}

// Return the number of rows kept, or 1 if no row is kept but some are not ignored; or `infinite_loss`.
template <class T> int64_t run(const Call<T>& call) {
    std::vector<int64_t> fresh(call.labels, 0);
    for (int64_t row = 0; row < call.rows; ++row) ++(call.is_known(row) ? fresh[call.target[row]] : call.count[call.labels]);
    store_losses(call, fresh);
    for (int64_t label = 0; label < call.labels; ++label) call.count[label] += fresh[label];
    std::vector<T> quantile;
    if (call.rows > call.window) quantile = own_quantiles(call, fresh);
    int64_t number = 0;
    bool any = false, infinite = false;
    for (int64_t row = 0; row < call.rows; ++row) {
        const int64_t label = call.target[row];
        bool kept = label != call.ignored;
        any |= kept;
        if (call.is_known(row)) {
            const int64_t filled = std::min(call.count[label], call.window);
            kept = fresh[label] > call.window
                       ? call.losses[row] <= quantile[label]
                       : count_below(call.stored + label * (call.window + 1), filled, call.losses[row]) <=
                             place_of(filled, call.share[label]);
        }
        call.kept[row] = kept;
        number += kept;
        infinite |= !kept && std::isinf(call.losses[row]);
    }
    return infinite ? infinite_loss : number ? number : any;
}

}  // namespace

#define DEFINE_FOR(T, name)                                                                                     \
    EXPORT int64_t mgce_trim_##name(int64_t rows, const T* losses, const int64_t* target, int64_t ignored,         \
                                    int64_t labels, int64_t window, T* stored, int64_t* count,                     \
                                    const int64_t* share, bool* kept) {                                            \
        return run(Call<T>{rows, losses, target, ignored, labels, window, stored, count, share, kept});            \
    }

DEFINE_FOR(float, float32)
DEFINE_FOR(double, float64)
