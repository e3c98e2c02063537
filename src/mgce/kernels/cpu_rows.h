// Read and write a row of logits by whole vectors, find its maximum, and check labels.
#pragma once

#include <limits>

#include "cpu_simd.h"
#include "cpu_threads.h"

template <class T> INLINE Vector<T> load_row(const T* row, int64_t i, int64_t k, T fill) {
    return i + Simd<T>::lanes <= k ? load(row + i) : load_first(row + i, k - i, fill);
}

template <class T> INLINE void store_row(T* row, int64_t i, int64_t k, Vector<T> v) {
    if (i + Simd<T>::lanes <= k)
        store(row + i, v);
    else
        store_first(row + i, k - i, v);
}

// The maximum of a row in each lane of two vectors.
template <class T> struct Maxima {
    Vector<T> most[2];
    Mask<T> bad;  // where there is NaN, which a comparison passes over

    // The maximum of the row; NaN if it has one.
    INLINE_MEMBER T peak() const {
        return bits_of(bad) ? std::numeric_limits<T>::quiet_NaN() : lane_maximum(larger(most[0], most[1]));
    }
};

template <class T> INLINE Maxima<T> maxima_of(const T* f, int64_t k) {
    constexpr int lanes = Simd<T>::lanes;
    const T infinity = std::numeric_limits<T>::infinity();
    Maxima<T> found{{splat(-infinity), splat(-infinity)}, {}};
    int64_t i = 0;
    for (; i + 2 * lanes <= k; i += 2 * lanes)
        for (int part = 0; part < 2; ++part) {
            Vector<T> v = load(f + i + part * lanes);
            found.bad |= is_nan(v);
            found.most[part] = larger(v, found.most[part]);
        }
    for (int part = 0; i < k; i += lanes, ++part) {
        Vector<T> v = load_row(f, i, k, -infinity);
        found.bad |= is_nan(v);
        found.most[part] = larger(v, found.most[part]);
    }
    return found;
}

// Set `weights` to the sum of the weights of the rows that are not ignored, 1 each without class weights. Return `done`, or
// the number of a row whose label is no class.
template <class T>
INLINE int64_t check_labels(const int64_t* labels, int64_t rows, int64_t k, int64_t ignore_index, const T* class_weight,
                            double& weights) {
    int64_t count = 0;
    weights = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t label = labels[row];
        if (label == ignore_index) continue;
        if (label < 0 || label >= k) return row;
        ++count;
        if (class_weight) weights += double(class_weight[label]);
    }
    if (!class_weight) weights = double(count);
    return done;
}
