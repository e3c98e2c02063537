// Loss and gradient, in one call, of losses that depend on a row of logits f only by p_y, where p = softmax(f):
//
//     a (-log p_y) + b beta (1 - p_y^(1/beta)),    with the gradient (a + b p_y^(1/beta)) (p - e_y).
//
// Cross-entropy is a = 1, b = 0; GCE is a = 0, b = 1; reverse cross-entropy is a = 0, b = A, beta = 1.
//
// A group of rows, one for each lane of a vector, goes through every phase together. So the logarithm and the powers
// that each row needs are vector operations for the group.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

#include "cpu_math.h"
#include "cpu_rows.h"
#include "cpu_threads.h"

namespace {

// What does not change from one call to the next; laid out as in cpu.py.
struct Options {
    int64_t classes;
    int64_t ignore_index;
    int64_t mean;  // 1 if the loss is divided by the number of rows, or by the sum of their weights
    double a, b, beta;
};

// The arguments of one call, laid out as in cpu.py. Pointers are null for what is absent.
template <class T> struct Arguments {
    const Options* options;
    int64_t rows;
    const T* logits;
    const int64_t* labels;
    const T* class_weight;
    T *losses, *total;  // of each row, or their sum or mean
    T* grad;
    int64_t threads;
    Team team;
};

template <class T> struct Call : Arguments<T> {
    double denominator;
    int64_t group_rows;
    std::atomic<int64_t> next_row{0};  // shared by the threads
    explicit Call(const Arguments<T>& arguments) : Arguments<T>(arguments) {}
};

constexpr int64_t few_classes = 32;      // up to here a vector for each class beats a vector for each row
constexpr int64_t group_classes = 4096;  // rows of so many classes together fit in the first-level cache, or nearly

// Of each row of a group one value in a lane.
template <class T> struct Group {
    static constexpr int lanes = Simd<T>::lanes;
    alignas(64) T peak[lanes];   // max f; NaN if the row has no loss
    alignas(64) T own[lanes];    // f_y - max f
    alignas(64) T more[lanes];   // sum exp(f - max f) - 1, with all its digits where it is small
    alignas(64) T share[lanes];  // the row's weight in the loss; 0 if the row is ignored
    alignas(64) T loss[lanes], scale[lanes], at_label[lanes];
};

// Write e^(f - max f) to `to` unless it is null, and return the sum over the classes minus 1. The classes at the maximum
// are counted, and not summed, so that the sum keeps its digits where one class has nearly all of the probability.
template <class T> INLINE T exponentials_of(const T* f, int64_t k, T peak, T* to) {
    constexpr int lanes = Simd<T>::lanes;
    const T infinity = std::numeric_limits<T>::infinity();
    Total total;
    int64_t at_peak = 0;
    for (int64_t start = 0; start < k; start += block * lanes) {
        Vector<T> sum[2] = {};
        for (int64_t i = start; i < k && i < start + block * lanes; i += 2 * lanes)
            for (int chain = 0; chain < 2 && i + chain * lanes < k; ++chain) {
                const int64_t at = i + chain * lanes;
                Vector<T> x = load_row(f, at, k, -infinity) - peak, e = exponential<T>(x);
                if (to) store_row(to, at, k, e);
                Mask<T> below = is_greater(Vector<T>{}, x);
                at_peak += lanes - count_of(below);
                sum[chain] += zero_unless<T>(below, e);
            }
        total.add(lane_sum(sum[0] + sum[1]));
    }
    return T(total.value() + double(at_peak - 1));
}

// The same two phases for a group of rows of few classes: class j is one vector, and its exponentials stay in `e`.
template <class T> INLINE void few_exponentials(const Call<T>& call, Group<T>& group, int64_t first, int rows, T* e) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t k = call.options->classes;
    for (int64_t j = 0; j < k; ++j) store(e + j * lanes, Vector<T>{});
    for (int r = 0; r < rows; ++r)
        for (int64_t j = 0; j < k; ++j) e[j * lanes + r] = call.logits[(first + r) * k + j];
    Vector<T> peak = splat(-std::numeric_limits<T>::infinity());
    Mask<T> bad{};
    for (int64_t j = 0; j < k; ++j) {
        Vector<T> f = load(e + j * lanes);
        bad |= is_nan(f);
        peak = larger(f, peak);
    }
    Vector<T> sum{}, at_peak{};
    for (int64_t j = 0; j < k; ++j) {
        Vector<T> x = load(e + j * lanes) - peak, power = exponential<T>(x);
        store(e + j * lanes, power);
        Mask<T> below = is_greater(Vector<T>{}, x);
        sum += zero_unless<T>(below, power);
        at_peak += choose(below, Vector<T>{}, splat(T(1)));
    }
    store(group.peak, choose(bad, splat(std::numeric_limits<T>::quiet_NaN()), peak));
    store(group.more, sum + (at_peak - T(1)));
}

// e^x - 1 for x <= 0, with the relative accuracy of x near zero.
template <class T> INLINE Vector<T> exponential_minus_1(Vector<T> x) {
    return exp2_minus_1<T>(larger(x * T(1.4426950408889634074), splat(T(lowest_normal<T>))));
}

// From log p_y of each row: its loss, the factor of its exponentials in the gradient, and the gradient at the label.
template <class T> INLINE void finish(const Options& options, Group<T>& group) {
    Vector<T> own = load(group.own), more = load(group.more), share = load(group.share);
    Vector<T> log_p = own - T(0.69314718055994530942) * log2_1p<T>(more);
    Vector<T> root = log_p / T(options.beta);  // of p_y, as a logarithm
    Vector<T> slope = T(options.a) + T(options.b) * exponential<T>(root);
    Vector<T> loss = T(-options.b * options.beta) * exponential_minus_1<T>(root);
    if (options.a != 0) loss -= T(options.a) * log_p;  // a row without its label has an infinite logarithm
    Vector<T> factor = share * slope;
    store(group.loss, share * loss);
    store(group.scale, factor / (more + T(1)));
    store(group.at_label, factor * exponential_minus_1<T>(log_p));
}

template <class T> INLINE void write_row(const Call<T>& call, const Group<T>& group, int r, int64_t row, const T* few) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t k = call.options->classes, label = call.labels[row];
    const bool ignored = label == call.options->ignore_index;
    const bool lost = !std::isfinite(group.peak[r]);
    const T fill = lost && !ignored ? std::numeric_limits<T>::quiet_NaN() : T(0);
    call.losses[row] = lost || ignored ? fill : group.loss[r];
    if (!call.grad) return;
    T* grad = call.grad + row * k;
    if (lost || ignored) {
        std::fill(grad, grad + k, fill);
        return;
    }
    const T scale = group.scale[r];
    if (few)
        for (int64_t j = 0; j < k; ++j) grad[j] = few[j * lanes + r] * scale;
    else
        for (int64_t i = 0; i < k; i += lanes) store_row(grad, i, k, load_row(grad, i, k, T(0)) * scale);
    grad[label] = group.at_label[r];
}

// The work of one thread: groups of rows, until none is left.
template <class T> void work(void* argument) {
    constexpr int lanes = Simd<T>::lanes;
    Call<T>& call = *static_cast<Call<T>*>(argument);
    const Options& options = *call.options;
    const int64_t k = options.classes;
    alignas(64) T few[few_classes * lanes];
    Group<T> group;
    for (;;) {
        const int64_t first = call.next_row.fetch_add(call.group_rows);
        if (first >= call.rows) break;
        const int rows = int(std::min(call.group_rows, call.rows - first));
        if (k <= few_classes) few_exponentials<T>(call, group, first, rows, few);
        for (int r = 0; r < lanes; ++r) {
            const int64_t row = first + r;
            const int64_t label = r < rows ? call.labels[row] : options.ignore_index;
            group.share[r] = group.own[r] = 0;
            if (label == options.ignore_index) {
                group.more[r] = 0;
                continue;
            }
            const T* f = call.logits + row * k;
            if (k > few_classes) {
                group.peak[r] = maxima_of(f, k).peak();
                if (std::isfinite(group.peak[r]))
                    group.more[r] = exponentials_of(f, k, group.peak[r], call.grad ? call.grad + row * k : nullptr);
            }
            if (!std::isfinite(group.peak[r])) {
                group.more[r] = 0;
                continue;
            }
            group.own[r] = f[label] - group.peak[r];
            group.share[r] = T((call.class_weight ? double(call.class_weight[label]) : 1) / call.denominator);
        }
        finish<T>(options, group);
        for (int r = 0; r < rows; ++r) write_row(call, group, r, first + r, k <= few_classes ? few : nullptr);
    }
}

// Return `done`, or the number of a row whose label is no class.
template <class T> int64_t run(const Arguments<T>& arguments) {
    Call<T> call(arguments);
    const Options& options = *call.options;
    const int64_t rows = call.rows;
    double weights;
    const int64_t wrong =
        check_labels(call.labels, rows, options.classes, options.ignore_index, call.class_weight, weights);
    if (wrong != done) return wrong;
    call.denominator = options.mean ? weights : 1;
    call.group_rows = std::min<int64_t>(Simd<T>::lanes, std::max<int64_t>(1, group_classes / options.classes));
    std::vector<T> own(call.total ? rows : 0);
    if (call.total) call.losses = own.data();
    in_threads(work<T>, &call, call.threads, call.team);
    if (call.total) {
        // In an order that does not depend on the threads; the mean over no row is NaN.
        *call.total = call.denominator == 0 ? std::numeric_limits<T>::quiet_NaN() : T(sum_of(own.data(), rows));
    }
    return done;
}

}  // namespace

EXPORT int64_t mgce_softmax_loss_float32(const Arguments<float>* arguments) { return run(*arguments); }
EXPORT int64_t mgce_softmax_loss_float64(const Arguments<double>* arguments) { return run(*arguments); }
