// Loss and gradient of MGCE in one call: find the few classes of a row that matter, solve on them, write the result.
//
// Only a class with f_y > max f - (beta + t) can have p_y > 0, where t = phi + max f <= 0. So a row is read to find its
// maximum and an upper bound of t; the classes above the bound, the candidates, are packed together with their numbers;
// Newton's method runs on those alone; and the gradient is written as zero, and at the numbers of the candidates. A group
// of rows, one for each lane of a vector, goes through every phase together: the scalar part of a Newton step is then
// one vector operation for the group, and its latency is hidden.
//
// Of the working memory only what was written is read: x, w and the numbers of a row are read up to its count of
// candidates, rounded up to whole vectors, and every phase that sets the count has written that much.
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
    double beta;
    double label_smoothing;
    int64_t output;  // 0: the gradient; or, without a target, 1: p, 2: h
};

template <class T> struct Plan {
    Options options;
    Power<T> power;
    T most_fall;  // most that the slope, by which Newton's method divides, can fall in its last step: see `newton_step`
};

// The arguments of one call, laid out as in cpu.py. Pointers are null for what is absent.
template <class T> struct Arguments {
    const Plan<T>* plan;
    int64_t rows;
    const T* logits;
    const int64_t* labels;
    const T* probs;  // the target, instead of labels
    const T* class_weight;
    T *losses, *total;  // of each row, or their sum or mean
    T* grad;
    int64_t threads;
    Team team;
};

template <class T> struct Call : Arguments<T> {
    int64_t group_rows = 1;
    T target_share = 1, uniform_share = 0;  // q = class weight * (target_share * target + uniform_share)
    bool soft = false;                      // whether q is spread over the classes
    std::atomic<int64_t> next_row{0};  // shared by the threads
    std::atomic<bool> out_of_memory{false};
    explicit Call(const Arguments<T>& arguments) : Arguments<T>(arguments) {}
};

constexpr int64_t max_steps = 64;       // proven: log2(k)/beta + log2(1/eps)/2, at most 43 for k = 100,000
constexpr int64_t group_classes = 4096;  // rows of so many classes together fit in the first-level cache, or nearly
constexpr int64_t few_classes = 32;     // up to here a vector for each class beats a vector for each row
// Of rows of few classes so many vectors go through Newton's method in turns: the latency of one hides in the others.
constexpr int few_vectors = 2;
template <class T> constexpr int few_rows = few_vectors * Simd<T>::lanes;
constexpr int64_t short_chain = 8;      // see `block`
constexpr int64_t look = 2;           // vectors in which `pack` looks for a candidate at once
constexpr int64_t worth_packing = 4;  // vectors of candidates up to which a row is too short to be packed again

// The rows of a group. x and w hold the candidates of each row, as `kept_as` has them, and their weights; number says
// which class each is, unless all classes are kept in place; of all others each row has one value.
template <class T> struct Group {
    static constexpr int rows = few_rows<T>;  // of many classes only the first vector of them
    T *x, *w;
    int32_t* number;
    int64_t stride;  // between the candidates of two rows
    alignas(64) T peak[rows], floor[rows], t[rows], size[rows], total[rows], excess[rows], w_sum[rows], error[rows];
    alignas(64) T own_w[rows];  // the sum of the weights in w, which may have a common factor
    int64_t count[rows], support[rows];
    bool all[rows];    // whether candidate i is class i
    bool upper[rows];  // whether every candidate is in the upper half of the support, and so kept as x
};

template <class T> INLINE int64_t round_up(int64_t count) {
    constexpr int64_t lanes = Simd<T>::lanes;
    return (count + lanes - 1) / lanes * lanes;
}

// The maximum of a row, NaN if it has one, and the size and sum of a set of its classes near the maximum.
template <class T> APART void scan(const T* f, int64_t k, T beta, T& peak, T& size, T& total) {
    Maxima<T> found = maxima_of(f, k);
    peak = found.peak();
    Vector<T> sum{};
    size = 0;
    for (int part = 0; part < 2; ++part) {
        Vector<T> x = found.most[part] - peak;
        Mask<T> near = is_greater(x, splat(-beta));
        size += T(count_of(near));
        sum += zero_unless<T>(near, x);
    }
    total = lane_sum(sum);
}

// An upper bound of t from a set of classes of each row (Jensen): exact if they are equal and the others off.
template <class T> INLINE Vector<T> jensen_bound(Vector<T> size, Vector<T> total, T beta) {
    return beta * exp2_minus_1<T>(log2_1p<T>(size - T(1)) * (T(-1) / beta)) - total / size;
}

// Set t to an upper bound, and the floor below which no class can have weight.
template <class T> INLINE void bound_candidates(Group<T>& group, T beta) {
    Vector<T> bound = jensen_bound<T>(load(group.size), load(group.total), beta);
    // The bound is the difference of two numbers, each with a few rounding errors of its size.
    bound += 16 * Simd<T>::eps * (larger(bound, -bound) + T(1));
    bound = not_above(bound, Vector<T>{});
    store(group.t, bound);
    store(group.floor, -bound - beta);
}

// Pack the candidates of a row together, and give their number and sum to the group. Where most classes are candidates,
// as they are among the first of them, all are kept in place: that costs less than to find their places later.
template <class T, bool upper> APART void pack(const T* f, int64_t k, Group<T>& group, int r, T beta) {
    constexpr int lanes = Simd<T>::lanes;
    const T infinity = std::numeric_limits<T>::infinity(), peak = group.peak[r], floor = group.floor[r];
    const Vector<T> absent = splat(T(-2) * beta);
    T* x = group.x + r * group.stride;
    int32_t* number = group.number + r * group.stride;
    auto look_at = [&](int64_t i, Vector<T>& v) INLINE_LAMBDA {
        v = load_row(f, i, k, -infinity) - peak;
        return is_greater(v, splat(floor));
    };
    auto kept = [&](Vector<T> v, Mask<T> candidate) INLINE_LAMBDA {
        return upper ? choose(candidate, v, absent) : kept_as<T>(v, candidate, beta);
    };
    // Below this the difference to the maximum is below the floor, rounded or not.
    const Vector<T> low = splat(peak + floor - 4 * Simd<T>::eps * (std::abs(peak) - floor));
    int64_t count = 0, i = 0;
    bool all = false;
    VectorTotal<T> total;
    while (i < k && !all) {
        const int64_t end = i + look * lanes;
        if (end <= k) {
            Mask<T> any = is_greater(load(f + i), low);
            for (int part = 1; part < look; ++part) any |= is_greater(load(f + i + part * lanes), low);
            if (!bits_of(any)) {
                i = end;
                continue;
            }
        }
        for (; i < k && i < end; i += lanes) {
            Vector<T> v;
            Mask<T> candidate = look_at(i, v);
            uint32_t chosen = bits_of(candidate);
            if (!chosen) continue;
            store_packed(x + count, number + count, kept(v, candidate), int32_t(i), chosen);
            total.add(zero_unless<T>(candidate, v));
            count += __builtin_popcount(chosen);
        }
        all = 2 * count > std::min(i, k);
    }
    if (all) {
        for (int64_t j = 0; j < i; j += lanes) {
            Vector<T> v;
            Mask<T> candidate = look_at(j, v);
            store(x + j, kept(v, candidate));
        }
        while (i < k) {
            Vector<T> sum{};
            for (const int64_t end = i + block * lanes; i < k && i < end; i += lanes) {
                Vector<T> v;
                Mask<T> candidate = look_at(i, v);
                store(x + i, kept(v, candidate));
                sum += zero_unless<T>(candidate, v);
                count += count_of(candidate);
            }
            total.add(sum);
        }
    } else {
        store(x + count, absent);  // fills the last vector up, without weight
    }
    group.size[r] = T(count);
    group.total[r] = T(total.value());
    group.all[r] = all;
    group.count[r] = all ? k : count;
}

// Drop the candidates that have no weight at t, which the root is never above once a step was made.
template <class T> INLINE void pack_again(Group<T>& group, int r, T beta) {
    constexpr int lanes = Simd<T>::lanes;
    const T t = group.t[r], above_edge = -t - 16 * Simd<T>::eps * (1 - t), floor = above_edge - beta;
    T* x = group.x + r * group.stride;
    int32_t* number = group.number + r * group.stride;
    int64_t count = 0;
    for (int64_t i = 0; i < group.count[r]; i += lanes) {
        Vector<T> v = load(x + i);
        // Positive ones are beta + x.
        Vector<T> least = choose(is_greater(v, Vector<T>{}), splat(above_edge), splat(floor));
        uint32_t chosen = bits_of(is_greater(v, least));
        if (group.all[r])
            store_packed(x + count, number + count, v, int32_t(i), chosen);
        else
            store_packed_again(x + count, number + count, v, number + i, chosen);
        count += __builtin_popcount(chosen);
    }
    store(x + count, splat(T(-2) * beta));
    group.count[r] = count;
    group.all[r] = false;
}

// The largest step that ends Newton's method, over 1 - t. The sum of h may be off by so much times the classes in the
// support.
template <class T> INLINE T tolerance_of(const Options& options) { return Simd<T>::eps / (options.output ? 4 : 1); }

// How much, in eps of 1 - t, t must rise to count as a clear rise: half of the error that t may have.
constexpr int clear = 4;

// Return t after a Newton step on the beta-norm. `error` is positive where more steps are needed. There are two
// reasons: t moved by more than the tolerance; or the step was short because the slope is large, and the slope may be
// smaller at the next point. Then the root is farther away, by the factor by which the slope has fallen. The slope is
// at least 1. It falls by the weights of the classes that leave the support, or nearly: v^(beta - 1) each, with v below
// the step.
template <class T>
INLINE Vector<T> newton_step(Vector<T> t, Vector<T> excess, Vector<T> w_sum, T beta, T tolerance, bool first,
                             T most_fall, Vector<T>& low, Vector<T>& error) {
    Vector<T> norm_excess = -beta * exp2_minus_1<T>(log2_1p<T>(excess) * (T(-1) / beta));
    Vector<T> moved = not_above(t - norm_excess * (excess + T(1)) / w_sum, Vector<T>{});
    // The first point may be left of the root by rounding. After it t falls. It rises only clearly, from a point that
    // rounding moved left of the root. `low` is the highest such point, and t never falls back to it. Otherwise
    // rounding would make t cycle where the support collapses.
    if (!first) {
        Mask<T> rises = is_greater(moved - t, clear * Simd<T>::eps * (T(1) - t));
        Vector<T> fallen = not_above(larger(moved, low + Simd<T>::eps / 2 * (T(1) - low)), t);
        moved = choose(rises, moved, fallen);
        low = choose(rises, t, low);
    }
    Vector<T> change = t - moved, unit = Simd<T>::eps * (T(1) - moved);
    Vector<T> farther = change * not_above(w_sum, splat(T(1) + most_fall));
    error = larger(larger(change, -change) - tolerance * (T(1) - moved), farther - clear * unit);
    return moved;
}

// Where all classes are kept as x, v may be less than t can move by. Many such classes give a slope so large that the step
// is rounded to nothing, while the root is farther away, where they have left the support. Then let t take the next smaller
// number, after which the slope is that of the others. As the slope is at least 1, the excess bounds the distance.
template <class T> INLINE void go_on_beyond_the_edge(Group<T>& group, int r, T t, const Plan<T>& plan) {
    const T ulp = Simd<T>::eps / 2 * (1 - t), excess = group.excess[r], few = 2 * clear * ulp;
    if (!(excess > few && excess * (1 + plan.most_fall) > few * group.w_sum[r])) return;
    const T* x = group.x + r * group.stride;
    const T* w = group.w + r * group.stride;
    const Sums edge = sums_at_the_edge(x, w, group.count[r], t, 1 / plan.options.beta, plan.power);
    if (!(excess - edge.h > few * std::max(1.0, group.w_sum[r] - edge.w))) return;
    group.t[r] = std::min(group.t[r], t - ulp);
    group.error[r] = 1;
}

// Run Newton's method on the candidates of each row until t stops changing; leave the weights in w.
template <class T, Form form> INLINE void solve(Group<T>& group, int rows, const Plan<T>& plan) {
    constexpr int lanes = Simd<T>::lanes;
    const T beta = T(plan.options.beta), inverse_beta = T(1 / plan.options.beta);
    const T tolerance = tolerance_of<T>(plan.options);
    for (int r = 0; r < lanes; ++r) {
        // A row without candidates is one that is skipped; a step of zero leaves it alone.
        group.error[r] = r < rows && group.count[r] > 0;
        group.excess[r] = 0;
        group.w_sum[r] = 1;
    }
    Vector<T> low = splat(std::numeric_limits<T>::lowest());
    for (int64_t step = 0; step < max_steps; ++step) {
        bool moving = false;
        for (int r = 0; r < rows; ++r) {
            group.excess[r] = 0;
            if (!(group.error[r] > 0)) continue;
            moving = true;
            // Finding the places of the candidates again costs about as much as half of an evaluation.
            int64_t worth = group.all[r] ? group.count[r] / 2 : 3 * group.count[r] / 4;
            if (step > 0 && group.support[r] < worth && group.count[r] > worth_packing * lanes)
                pack_again(group, r, beta);
            T* x = group.x + r * group.stride;
            T* w = group.w + r * group.stride;
            Sums sums;
            if (group.upper[r]) {
                sums = weights_of_upper<T, form>(x, w, group.count[r], group.t[r], 1 / plan.options.beta, plan.power,
                                                 group.own_w[r]);
            } else {
                sums = weights<T, form>(x, w, group.count[r], group.t[r], inverse_beta, plan.power);
                group.own_w[r] = T(sums.w);
            }
            group.excess[r] = T(sums.h - 1);
            group.w_sum[r] = T(sums.w);
            group.support[r] = sums.support;
        }
        if (!moving) break;
        Vector<T> error;
        Vector<T> t = load(group.t), excess = load(group.excess), w_sum = load(group.w_sum);
        Vector<T> moved = newton_step<T>(t, excess, w_sum, beta, tolerance, step == 0, plan.most_fall, low, error);
        // The last step may remove classes from the support. For a loss that is a rounding error. Probabilities are
        // taken at the t before it, where the weights were computed.
        store(group.t, plan.options.output ? choose(is_greater(error, Vector<T>{}), moved, t) : moved);
        store(group.error, error);
        for (int r = 0; r < rows; ++r)
            if (group.upper[r] && !(group.error[r] > 0) && group.excess[r] > 0) go_on_beyond_the_edge(group, r, t[r], plan);
    }
}

// For rows of few classes: class j of the group is `parts` vectors, with a row for each lane, and all classes are
// candidates.
template <class T, Form form, int parts>
INLINE void solve_few(const Call<T>& call, Group<T>& group, int64_t first, int rows) {
    constexpr int lanes = Simd<T>::lanes, width = few_rows<T>;
    const Options& options = call.plan->options;
    const int64_t k = options.classes;
    const T beta = T(options.beta), inverse_beta = T(1 / options.beta), infinity = std::numeric_limits<T>::infinity();
    const T tolerance = tolerance_of<T>(options), most_fall = call.plan->most_fall;
    T *x = group.x, *w = group.w;
    for (int64_t j = 0; j < k; ++j)
        for (int part = 0; part < parts; ++part) store(x + j * width + part * lanes, Vector<T>{});
    for (int r = 0; r < rows; ++r)
        for (int64_t j = 0; j < k; ++j) x[j * width + r] = call.logits[(first + r) * k + j];
    Vector<T> t[parts], at[parts], w_sum[parts], h_sum[parts], low[parts];
    Mask<T> moving[parts];
    for (int part = 0; part < parts; ++part) {
        T* own = x + part * lanes;
        Vector<T> peak = splat(-infinity), size{}, total{};
        Mask<T> bad{};
        for (int64_t j = 0; j < k; ++j) {
            Vector<T> f = load(own + j * width);
            bad |= is_nan(f);
            peak = larger(f, peak);
        }
        Mask<T> good = is_greater(splat(infinity), peak) & is_greater(peak, splat(-infinity)) & ~bad;
        for (int64_t j = 0; j < k; ++j) {
            Vector<T> f = zero_unless<T>(good, load(own + j * width) - peak);
            Mask<T> near = is_greater(f, splat(-beta));
            size += zero_unless<T>(near, splat(T(1)));
            total += zero_unless<T>(near, f);
            store(own + j * width, kept_as<T>(f, near, beta));
        }
        store(group.peak + part * lanes, choose(good, peak, splat(std::numeric_limits<T>::quiet_NaN())));
        t[part] = at[part] = not_above(jensen_bound(size, total, beta), Vector<T>{});
        low[part] = splat(std::numeric_limits<T>::lowest());
        moving[part] = first_lanes<T>(std::max(0, rows - part * lanes));
    }
    for (int64_t step = 0; step < max_steps; ++step) {
        for (int part = 0; part < parts; ++part) h_sum[part] = w_sum[part] = Vector<T>{};
        for (int64_t start = 0; start < k; start += short_chain) {
            Vector<T> h_part[parts]{}, w_part[parts]{};
            for (int64_t j = start; j < k && j < start + short_chain; ++j)
                for (int part = 0; part < parts; ++part) {
                    const int64_t place = j * width + part * lanes;
                    Vector<T> v;
                    Mask<T> inside;
                    Vector<T> u = weight<T, form>(load(x + place), at[part], inverse_beta, call.plan->power, v, inside);
                    store(w + place, u);
                    w_part[part] += u;
                    h_part[part] += u * v;
                }
            for (int part = 0; part < parts; ++part) {
                h_sum[part] += h_part[part];
                w_sum[part] += w_part[part];
            }
        }
        uint32_t any = 0;
        for (int part = 0; part < parts; ++part) {
            Vector<T> error, moved = newton_step<T>(at[part], h_sum[part] - T(1), w_sum[part], beta, tolerance, step == 0,
                                                    most_fall, low[part], error);
            // A row that has come to rest is evaluated where it was, so that it does not depend on the others.
            t[part] = choose(moving[part], moved, t[part]);
            moving[part] &= is_greater(error, Vector<T>{});
            any |= bits_of(moving[part]);
        }
        if (!any) break;
        for (int part = 0; part < parts; ++part) at[part] = choose(moving[part], t[part], at[part]);
    }
    for (int part = 0; part < parts; ++part) {
        store(group.t + part * lanes, options.output ? at[part] : t[part]);  // probabilities: where the weights are from
        store(group.w_sum + part * lanes, w_sum[part]);
        store(group.own_w + part * lanes, w_sum[part]);
    }
    for (int r = 0; r < rows; ++r)
        if (call.labels && call.labels[first + r] == options.ignore_index) group.peak[r] = infinity;
}

// q of the classes i, i + 1, ..., zero behind the last.
template <class T> INLINE Vector<T> soft_target(const Call<T>& call, int64_t row, int64_t i) {
    const int64_t k = call.plan->options.classes;
    Vector<T> q = splat(call.uniform_share);
    if (call.probs) q += call.target_share * load_row(call.probs + row * k, i, k, T(0));
    if (call.class_weight) q *= load_row(call.class_weight, i, k, T(0));
    return zero_unless<T>(first_lanes<T>(k - i), q);
}

// Sum q and sum q (peak - f) over the classes.
template <class T> INLINE void soft_sums(const Call<T>& call, int64_t row, T peak, double& mass, double& cost) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t k = call.plan->options.classes;
    const T* f = call.logits + row * k;
    Total mass_total, cost_total;
    for (int64_t start = 0; start < k; start += block * lanes) {
        Vector<T> mass_sum{}, cost_sum{};
        for (int64_t i = start; i < k && i < start + block * lanes; i += lanes) {
            Vector<T> q = soft_target(call, row, i);
            mass_sum += q;
            // A masked class that the target gives nothing costs nothing, not 0 * inf.
            cost_sum += choose(is_zero(q), q, q * (peak - load_row(f, i, k, peak)));
        }
        mass_total.add(lane_sum(mass_sum));
        cost_total.add(lane_sum(cost_sum));
    }
    mass = mass_total.value();
    cost = cost_total.value();
}

// Write mass * p - q for one row, q the part of the target that is spread over the classes.
template <class T>
INLINE void write_gradient(const Call<T>& call, const Group<T>& group, int r, int64_t row, T mass, bool soft) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t k = call.plan->options.classes;
    T* grad = call.grad + row * k;
    const T* w = group.w + r * group.stride;
    const T scale = mass / group.own_w[r];
    if (k <= few_classes) {  // as solve_few left them
        const T* own = group.w + r;
        for (int64_t j = 0; j < k; ++j) grad[j] = own[j * few_rows<T>] * scale;
        if (soft)
            for (int64_t i = 0; i < k; i += lanes)
                store_row(grad, i, k, load_row(grad, i, k, T(0)) - soft_target(call, row, i));
        return;
    }
    if (group.all[r] && !soft) {
        int64_t i = 0;
        for (; i + lanes <= k; i += lanes) store(grad + i, load(w + i) * scale);
        if (i < k) store_first(grad + i, k - i, load(w + i) * scale);
        return;
    }
    if (group.all[r]) {
        for (int64_t i = 0; i < k; i += lanes) store_row(grad, i, k, load(w + i) * scale - soft_target(call, row, i));
        return;
    }
    if (soft)
        for (int64_t i = 0; i < k; i += lanes) store_row(grad, i, k, -soft_target(call, row, i));
    else
        std::memset(grad, 0, k * sizeof(T));
    const int32_t* number = group.number + r * group.stride;
    for (int64_t i = 0; i < group.count[r]; ++i) grad[number[i]] += w[i] * scale;
}

// Write h = w v for one row. As t is rounded, the sum is off one by up to its slope times that; so much is taken back in
// the direction of w, which is the derivative of h.
template <class T> INLINE void write_minimax(const Call<T>& call, Group<T>& group, int r, int64_t row) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t k = call.plan->options.classes;
    const T inverse_beta = T(1 / call.plan->options.beta), t = group.t[r];
    T* h = call.grad + row * k;
    Total total;
    if (k <= few_classes) {  // as solve_few left them
        const T *x = group.x + r, *w = group.w + r;
        for (int64_t j = 0; j < k; ++j) {
            T kept = x[j * few_rows<T>], v = (kept + t) * inverse_beta + (kept > 0 ? 0 : 1);
            total.add(h[j] = w[j * few_rows<T>] * std::max(v, T(0)));
        }
        const T rate = T((total.value() - 1) / group.w_sum[r]);
        for (int64_t j = 0; j < k; ++j) h[j] = std::max(h[j] - w[j * few_rows<T>] * rate, T(0));
        return;
    }
    T *x = group.x + r * group.stride, *w = group.w + r * group.stride;
    for (int64_t i = 0; i < group.count[r]; i += lanes) {  // h in the place of x
        Vector<T> product = load(w + i) * base(load(x + i), splat(t), inverse_beta);
        store(x + i, product);
        total.add(lane_sum(product));
    }
    const T rate = T((total.value() - 1) / group.w_sum[r]);
    if (!group.all[r]) std::memset(h, 0, k * sizeof(T));
    const int32_t* number = group.number + r * group.stride;
    for (int64_t i = 0; i < group.count[r]; i += lanes) {
        Vector<T> corrected = larger(load(x + i) - load(w + i) * rate, Vector<T>{});
        if (group.all[r])
            store_row(h, i, k, corrected);
        else
            store(x + i, corrected);
    }
    if (!group.all[r])
        for (int64_t i = 0; i < group.count[r]; ++i) h[number[i]] = x[i];
}

template <class T> INLINE void fill(T* row, int64_t k, T value) {
    for (int64_t i = 0; i < k; ++i) row[i] = value;
}

// Write the loss of a row, and its gradient if wanted.
template <class T> INLINE void finish_row(const Call<T>& call, Group<T>& group, int r, int64_t row) {
    const int64_t k = call.plan->options.classes;
    const T peak = group.peak[r];
    T* grad = call.grad ? call.grad + row * k : nullptr;
    if (!std::isfinite(peak)) {  // +inf stands for a row that is skipped, NaN for one that has no loss
        T value = std::isnan(peak) ? peak : 0;
        call.losses[row] = value;
        if (grad) fill(grad, k, value);
        return;
    }
    // Without a target the loss is -t, and its gradient p.
    const int64_t output = call.plan->options.output;
    double mass = output ? 1 : 0, loss = 0;
    T hard = 0;
    int64_t label = 0;
    if (call.labels) {
        label = call.labels[row];
        hard = call.class_weight ? call.target_share * call.class_weight[label] : call.target_share;
        mass = hard;
        loss = double(hard) * (double(peak) - double(call.logits[row * k + label]));
    }
    if (call.soft) {
        double soft_mass, soft_cost;
        soft_sums(call, row, peak, soft_mass, soft_cost);
        mass += soft_mass;
        loss += soft_cost;
    }
    call.losses[row] = T(loss - mass * double(group.t[r]));
    if (!grad) return;
    if (output == 2) return write_minimax(call, group, r, row);
    write_gradient(call, group, r, row, T(mass), call.soft);
    if (call.labels) grad[label] -= hard;
}

// For rows of many classes: the phases above, one after the other.
template <class T, Form form> INLINE void solve_many(const Call<T>& call, Group<T>& group, int64_t first, int rows) {
    const Options& options = call.plan->options;
    const int64_t k = options.classes;
    const T beta = T(options.beta), infinity = std::numeric_limits<T>::infinity();
    for (int r = 0; r < Simd<T>::lanes; ++r) {
        group.peak[r] = infinity;
        group.size[r] = 1;
        group.upper[r] = false;
        group.total[r] = 0;
        group.count[r] = 0;
        if (r >= rows || (call.labels && call.labels[first + r] == options.ignore_index)) continue;
        T peak, size, total;
        scan(call.logits + (first + r) * k, k, beta, peak, size, total);
        if (std::isfinite(peak)) {
            group.peak[r] = peak;
            group.size[r] = size;
            group.total[r] = total;
        } else {
            group.peak[r] = std::numeric_limits<T>::quiet_NaN();
        }
    }
    bound_candidates(group, beta);
    for (int r = 0; r < rows; ++r) {
        if (!std::isfinite(group.peak[r])) continue;
        const T* f = call.logits + (first + r) * k;
        group.upper[r] = group.floor[r] >= -beta / 2 && options.output != 2;
        if (group.upper[r])
            pack<T, true>(f, k, group, r, beta);
        else
            pack<T, false>(f, k, group, r, beta);
    }
    store(group.t, not_above(load(group.t), jensen_bound<T>(load(group.size), load(group.total), beta)));
    solve<T, form>(group, rows, *call.plan);
}

// The work of one thread: groups of rows, until none is left.
template <class T, Form form> void work(Call<T>& call) {
    const int64_t k = call.plan->options.classes;
    Group<T> group;
    group.stride = round_up<T>(k) + Simd<T>::lanes;  // one more vector, which fills up or is written by packing
    const size_t bytes = call.group_rows * group.stride * (2 * sizeof(T) + sizeof(int32_t));
    void* memory = aligned_memory(bytes);
    if (!memory) {
        call.out_of_memory = true;
        return;
    }
    group.x = static_cast<T*>(memory);
    group.w = group.x + call.group_rows * group.stride;
    group.number = reinterpret_cast<int32_t*>(group.w + call.group_rows * group.stride);
    for (;;) {
        int64_t first = call.next_row.fetch_add(call.group_rows);
        if (first >= call.rows) break;
        int64_t left = call.rows - first;
        int rows = int(left < call.group_rows ? left : call.group_rows);
        if (k <= few_classes && rows > Simd<T>::lanes)
            solve_few<T, form, few_vectors>(call, group, first, rows);
        else if (k <= few_classes)
            solve_few<T, form, 1>(call, group, first, rows);
        else
            solve_many<T, form>(call, group, first, rows);
        for (int r = 0; r < rows; ++r) finish_row(call, group, r, first + r);
    }
    free_aligned(memory);
}

template <class T> void work_by_form(void* argument) {
    Call<T>& call = *static_cast<Call<T>*>(argument);
    switch (call.plan->power.form) {
        case Form::products: return work<T, Form::products>(call);
        case Form::table: return work<T, Form::table>(call);
        case Form::logarithm: return work<T, Form::logarithm>(call);
    }
}

// Give `done`, `no_memory`, or the number of a row whose label is no class.
template <class T> int64_t run(const Arguments<T>& arguments) {
    Call<T> call(arguments);
    const Options& options = call.plan->options;
    const int64_t k = options.classes, rows = call.rows;
    double denominator = options.mean ? double(rows) : 1;
    if (call.labels) {
        double weights;
        const int64_t wrong = check_labels(call.labels, rows, k, options.ignore_index, call.class_weight, weights);
        if (wrong != done) return wrong;
        if (options.mean) denominator = weights;
    }
    const int64_t share = (rows + call.threads - 1) / call.threads, fit = std::max<int64_t>(1, group_classes / k);
    call.group_rows = k <= few_classes ? few_rows<T> : std::min({int64_t(Simd<T>::lanes), fit, share});
    call.target_share = T((1 - options.label_smoothing) / denominator);
    call.uniform_share = T(options.label_smoothing / k / denominator);
    call.soft = call.probs || options.label_smoothing != 0;
    std::vector<T> own;
    if (call.total) {
        own.resize(rows);
        call.losses = own.data();
    }
    in_threads(work_by_form<T>, &call, call.threads, call.team);
    if (call.out_of_memory) return no_memory;
    if (call.total) {
        // In an order that does not depend on the threads; the mean over no row is NaN.
        *call.total = denominator == 0 ? std::numeric_limits<T>::quiet_NaN() : T(sum_of(own.data(), rows));
    }
    return done;
}

template <class T> Plan<T>* make_plan(const Options* options) {
    void* memory = aligned_memory(sizeof(Plan<T>));
    if (!memory) return nullptr;
    Plan<T>* plan = new (memory) Plan<T>;
    plan->options = *options;
    plan->power.choose(options->beta - 1, options->output ? lowest_normal<T> : lowest_of_losses);
    // The factor 2 covers the classes that stay in the support but lose weight.
    plan->most_fall = T(2 * double(options->classes) * std::pow(clear * double(Simd<T>::eps), options->beta - 1));
    return plan;
}

}  // namespace

#define DEFINE_FOR(T, name)                                                                   \
    EXPORT void* mgce_make_plan_##name(const Options* options) { return make_plan<T>(options); } \
    EXPORT int64_t mgce_loss_##name(const Arguments<T>* arguments) { return run(*arguments); }

DEFINE_FOR(float, float32)
DEFINE_FOR(double, float64)
EXPORT void mgce_free_plan(void* plan) { free_aligned(plan); }
