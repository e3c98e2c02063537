// Powers and logarithms of vectors, and the two sums over a row that a Newton step needs.
#pragma once

#include <cmath>

#include "cpu_simd.h"

// log2(1 + f)/f for |f| <= 1/3 and (2^r - 1)/r for |r| <= 1/2: the polynomials, lowest power first, through the Chebyshev
// nodes. Relative errors: below 3e-8 in float32, 9e-17 in float64, a quarter of a rounding error of 1.
template <class T> struct Series;
template <> struct Series<float> {
    static constexpr float log2[] = {
        1.44269505f, -0.721347526f, 0.480895858f, -0.360671472f, 0.288716425f, -0.240612299f, 0.201725972f,
        -0.176316943f, 0.203115436f, -0.183601541f,
    };
    static constexpr float power[] = {
        0.693147188f, 0.240226508f, 0.0555035711f, 0.00961808256f, 0.00133908634f, 0.000154531629f,
    };
};
template <> struct Series<double> {
    static constexpr double log2[] = {
        1.4426950408889633, -0.72134752044448164, 0.48089834696310255, -0.36067376022235061, 0.2885390081437999,
        -0.24044917344897885, 0.20609929545249173, -0.18033688383857253, 0.16029922276676163, -0.14426928771221935,
        0.13116160831661499, -0.12023177316199522, 0.11082549767049756, -0.10290518991295654, 0.098040545116265388,
        -0.091947974176011624, 0.071274826803614676, -0.067156356424630729, 0.12826109897575766,
        -0.12215105657693327,
    };
    static constexpr double power[] = {
        0.69314718055994531, 0.24022650695910071, 0.055504108664821627, 0.0096181291076284795,
        0.0013333558146406471, 0.00015403530393370733, 1.5252733841556773e-5, 1.3215486808705563e-6,
        1.0178057087733941e-7, 7.0548973041554993e-9, 4.4558179083360645e-10, 2.5729324177362304e-11,
    };
};

// The coefficients are numbers, or vectors of one number each. The even and the odd powers are two chains, so that half
// of the latency is left.
template <class T, class Coefficient, int count>
INLINE Vector<T> polynomial(const Coefficient (&coefficients)[count], Vector<T> x) {
    const Vector<T> square = x * x;
    Vector<T> last = Vector<T>{} + coefficients[count - 1], before = Vector<T>{} + coefficients[count - 2];
    for (int i = count - 3; i >= 0; --i) {
        Vector<T> next = last * square + coefficients[i];
        last = before;
        before = next;
    }
    return last * x + before;
}

// A number v > 0 as 2^exponent (1 + f) with |f| <= 1/3.
template <class T> struct Split {
    Bits<T> exponent;
    Vector<T> f;
};

template <class T> INLINE Bits<T> shifted_exponent(Vector<T> v) {
    constexpr typename Simd<T>::Integer exponent_bits = ~((typename Simd<T>::Integer(1) << Simd<T>::fraction_bits) - 1);
    return (bits_as<Bits<T>>(v) - Simd<T>::two_thirds) & exponent_bits;
}

template <class T> INLINE Split<T> split(Vector<T> v) {
    Bits<T> shifted = shifted_exponent<T>(v);
    Vector<T> scale = bits_as<Vector<T>>(Simd<T>::one - shifted);  // 2^-exponent
    return {shifted >> typename Simd<T>::Integer(Simd<T>::fraction_bits), v * scale - T(1)};
}

// The same of v = one + s, with one = 1 or 0 and the digits of both kept: v has lost those of an s that is small beside 1.
template <class T> INLINE Split<T> split(Vector<T> v, Vector<T> s, Vector<T> one) {
    Bits<T> shifted = shifted_exponent<T>(v);
    Vector<T> scale = bits_as<Vector<T>>(Simd<T>::one - shifted);
    return {shifted >> typename Simd<T>::Integer(Simd<T>::fraction_bits), s * scale + (one * scale - T(1))};
}

template <class T> INLINE Vector<T> log2_of(Split<T> v) {
    return __builtin_convertvector(v.exponent, Vector<T>) + v.f * polynomial<T>(Series<T>::log2, v.f);
}

// log2(1 + z) for z > -1, with the relative accuracy of z near zero.
template <class T> INLINE Vector<T> log2_1p(Vector<T> z) { return log2_of<T>(split<T>(z + T(1), z, splat(T(1)))); }

// x = n + rest with n the whole number next to x; gives rest and 2^n, for x within the exponents of normal numbers.
template <class T> INLINE Vector<T> whole_power(Vector<T> x, Vector<T>& rest) {
    using Integer = typename Simd<T>::Integer;
    constexpr int fraction = Simd<T>::fraction_bits;
    // Adding this number leaves n + bias in the low bits of the sum, rounded to nearest.
    const T shift = T(1.5) * T(Integer(1) << fraction) + T(Simd<T>::one >> fraction);
    Vector<T> shifted = x + shift;
    rest = x - (shifted - shift);
    return bits_as<Vector<T>>(bits_as<Bits<T>>(shifted) << Integer(fraction));
}

// To a loss a weight below 2 to this power is as good as zero, and products of such would be subnormal numbers, which
// are slow. A probability is kept as long as it is a normal number.
constexpr int lowest_of_losses = -100;
template <class T> constexpr int lowest_normal = std::numeric_limits<T>::min_exponent - 1;

// 2^x for x <= 1; zero for x at or below the lowest, that of a normal number or above.
template <class T> INLINE Vector<T> exp2(Vector<T> x, Vector<T> lowest) {
    Mask<T> kept = is_greater(x, lowest);
    Vector<T> rest, scale = whole_power<T>(choose(kept, x, lowest), rest);
    return zero_unless<T>(kept, scale + scale * (rest * polynomial<T>(Series<T>::power, rest)));
}

// ln 2 in two parts, the first of so few digits that its product with an exponent is exact.
template <class T> constexpr T ln2_high = sizeof(T) == 4 ? T(0x1.62e4p-1) : T(0x1.62e42feep-1);
template <class T> constexpr T ln2_low = sizeof(T) == 4 ? T(0x1.7f7d1cf79abcap-20) : T(0x1.a39ef35793c76p-33);

// e^x for x <= 0; zero where that is not a normal number.
template <class T> INLINE Vector<T> exponential(Vector<T> x) {
    constexpr double log2_e = 1.4426950408889634074;
    const T lowest = T(lowest_normal<T> / log2_e);
    Mask<T> kept = is_greater(x, splat(lowest));
    x = choose(kept, x, splat(lowest));
    Vector<T> bits = x * T(log2_e), rest, scale = whole_power<T>(bits, rest), whole = bits - rest;
    // A product by log2 e would have lost digits of a large x.
    rest = ((x - whole * ln2_high<T>) - whole * ln2_low<T>) * T(log2_e);
    return zero_unless<T>(kept, scale + scale * (rest * polynomial<T>(Series<T>::power, rest)));
}

// 2^x - 1 for x of ordinary size, with the relative accuracy of x near zero.
template <class T> INLINE Vector<T> exp2_minus_1(Vector<T> x) {
    Vector<T> rest, scale = whole_power<T>(x, rest);
    return (scale - T(1)) + scale * (rest * polynomial<T>(Series<T>::power, rest));
}

// How v^a, a = beta - 1, is formed: see Power::choose.
enum class Form { products, table, logarithm };

// v^a for 0 < v <= 1, from v = 2^e (1 + f): the table holds 2^(a e), the series (1 + f)^a.
template <class T> struct Power {
    // Relative errors up to a = 6: below 6e-9 and 1e-16, less than half of a rounding error.
    static constexpr int terms = sizeof(T) == 4 ? 9 : 20;
    static constexpr int entries = Table<T>::entries;
    // The largest v of a row is k^(-1/beta) at least: so many halvings of 1 are as small for a million classes.
    static constexpr int most_halvings = 20;
    // For v from here on, e is from 1 - entries to 0, and so it is known by its lowest bits.
    static constexpr T smallest = T(0.5) / T(int64_t(1) << (entries - 2));
    // Of a product's exponent four bits are read, and the half; the series has as many terms as 6 needs.
    static constexpr double largest_by_table = 6, largest_by_products = 15.5;

    alignas(64) T scale[entries];
    Vector<T> series[terms];  // of one number each
    double halved[most_halvings + 1];  // 2^(-a i)
    T exponent;
    T lowest;           // the exponent of 2 at or below which v^a counts as zero
    T smallest_factor;  // the v with v^a = 2^lowest, below which `products` gives zero like the other forms
    int32_t whole, half;
    Form form;

    // Whole and half exponents cost a few products; from `largest_by_table` on a short series would not do.
    void choose(double a, int lowest_exponent) {
        exponent = T(a);
        lowest = T(lowest_exponent);
        smallest_factor = T(a < 1 ? 0 : std::exp2(lowest_exponent / a));
        whole = int32_t(a <= largest_by_products ? a : 0);
        half = a > whole;
        bool halves = a <= largest_by_products && 2 * a == std::floor(2 * a);
        form = halves ? Form::products : a <= largest_by_table ? Form::table : Form::logarithm;
        if (form == Form::table) fill(a, lowest_exponent);
        for (int i = 0; i <= most_halvings; ++i) halved[i] = std::exp2(-a * i);
    }

    // Interpolate (1 + u/3)^a at the Chebyshev nodes of |u| <= 1, and write the result in powers of f = u/3.
    void fill(double a, int lowest_exponent) {
        const long double pi = 3.14159265358979323846264338327950288L;
        long double value[terms], sum[terms] = {}, before[terms] = {1}, now[terms] = {0, 1};
        for (int i = 0; i < terms; ++i) value[i] = powl(1 + cosl(pi * (i + 0.5L) / terms) / 3, a);
        for (int j = 0; j < terms; ++j) {  // before holds the coefficients of the Chebyshev polynomial j
            long double c = 0;
            for (int i = 0; i < terms; ++i) c += value[i] * cosl(pi * j * (i + 0.5L) / terms);
            c *= (j ? 2.0L : 1.0L) / terms;
            for (int i = 0; i < terms; ++i) sum[i] += c * before[i];
            for (int i = terms - 1; i >= 0; --i) {
                long double next = (i ? 2 * now[i - 1] : 0) - before[i];
                before[i] = now[i];
                now[i] = next;
            }
        }
        long double third = 1;
        for (int i = 0; i < terms; ++i, third *= 3) series[i] = splat(T(sum[i] * third));
        for (int e = 0; e < entries; ++e) {
            long double power = exp2l(-(long double)a * e);
            scale[(entries - e) % entries] = T(power < exp2l(lowest_exponent) ? 0 : power);
        }
    }
};

// v^a inside, where v > 0, else 0; `parts` splits a v > 0.
template <class T, Form form, class Parts>
INLINE Vector<T> power_of(Vector<T> v, Mask<T> inside, const Power<T>& power, Parts parts) {
    if constexpr (form == Form::products) {
        Vector<T> result = splat(T(1)), factor = zero_unless<T>(is_greater(v, splat(power.smallest_factor)), v);
        for (int bit = 8; bit; bit >>= 1) {
            result = result * result;
            if (power.whole & bit) result = result * factor;
        }
        return zero_unless<T>(inside, power.half ? result * square_root(factor) : result);
    }
    if constexpr (form == Form::table) {
        const Vector<T> smallest = splat(Power<T>::smallest);
        if (__builtin_expect(!(bits_of(inside) & ~bits_of(is_greater(v, smallest))), 1)) {
            Split<T> split = parts(larger(v, smallest));
            return zero_unless<T>(inside, look_up(power.scale, split.exponent) * polynomial<T>(power.series, split.f));
        }
    }
    Split<T> split = parts(choose(inside, v, splat(T(1))));  // a number with a logarithm where it is not wanted
    return zero_unless<T>(inside, exp2<T>(log2_of<T>(split) * power.exponent, splat(power.lowest)));
}

// A sum of float64 numbers, with what rounding took from it beside it (Knuth's two-sum); that is NaN once a sum is
// infinite, as the loss of a masked class is, and does not count then.
struct Total {
    double sum = 0, lost = 0;
    INLINE_MEMBER void add(double x) {
        double next = sum + x, shadow = next - sum;
        lost += (sum - (next - shadow)) + (x - shadow);
        sum = next;
    }
    INLINE_MEMBER double value() const { return std::isfinite(sum) ? sum + lost : sum; }
};

// A candidate is kept as x = f - max f, or, in the lower half of the support, as beta + x: that is exact, and positive,
// which x never is. So v = (1 + (x + t)/beta)_+ keeps its digits near both ends. What is no candidate is kept as -2 beta.
template <class T> INLINE Vector<T> kept_as(Vector<T> x, Mask<T> candidate, T beta) {
    Vector<T> value = choose(is_greater(splat(beta * T(-0.5)), x), x + beta, x);
    return choose(candidate, value, splat(T(-2) * beta));
}

// Give v of classes kept so, zero off the support.
template <class T> INLINE Vector<T> base(Vector<T> kept, Vector<T> t, T inverse_beta) {
    Vector<T> one = choose(is_greater(kept, Vector<T>{}), Vector<T>{}, splat(T(1)));
    return larger((kept + t) * inverse_beta + one, Vector<T>{});
}

// Give w = v^(beta - 1) and v of classes kept so. Off the support w is zero, and v is not positive.
template <class T, Form form>
INLINE Vector<T> weight(Vector<T> kept, Vector<T> t, T inverse_beta, const Power<T>& power, Vector<T>& v, Mask<T>& inside) {
    Vector<T> one = choose(is_greater(kept, Vector<T>{}), Vector<T>{}, splat(T(1)));
    Vector<T> s = (kept + t) * inverse_beta;
    v = s + one;
    inside = is_greater(v, Vector<T>{});
    return power_of<T, form>(v, inside, power, [=](Vector<T> positive) INLINE_LAMBDA { return split<T>(positive, s, one); });
}

struct Sums {
    double h, w;
    int64_t support;
};

// A sum of vectors, in float64.
template <class T> struct VectorTotal;
template <> struct VectorTotal<float> {
    Vector<double> sum[2] = {};
    INLINE_MEMBER void add(Vector<float> v) {
        Vector<double> halves[2];
        widen(v, halves);
        sum[0] += halves[0];
        sum[1] += halves[1];
    }
    INLINE_MEMBER double value() const { return lane_sum(sum[0] + sum[1]); }
};
template <> struct VectorTotal<double> {
    Vector<double> sum{}, lost{};  // as Total
    INLINE_MEMBER void add(Vector<double> v) {
        Vector<double> next = sum + v, shadow = next - sum;
        lost += (sum - (next - shadow)) + (v - shadow);
        sum = next;
    }
    INLINE_MEMBER double value() const {
        Total total;
        for (int i = 0; i < Simd<double>::lanes; ++i) total.add(sum[i]);
        return std::isfinite(total.sum) ? total.value() + lane_sum(lost) : total.sum;
    }
};

// The sum of numbers.
template <class T> INLINE double sum_of(const T* numbers, int64_t count) {
    constexpr int lanes = Simd<T>::lanes;
    VectorTotal<T> total;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) total.add(load(numbers + i));
    if (i < count) total.add(load_first(numbers + i, count - i, T(0)));
    return total.value();
}

// Partial sums are formed in vectors of T over so many vectors, in two chains, and added up in float64: a chain of
// eight numbers of one size loses about two rounding errors, a chain of hundreds would lose digits.
constexpr int block = 16;

// Write w = v^(beta - 1) for the first `count` classes, whole vectors of which can be read and written; give sum
// v^beta, sum w and the number of positive v. `weight_at` gives w, v and where v is positive of a vector of classes.
template <class T, class Weight> INLINE Sums sum_weights(const T* x, T* w, int64_t count, Weight weight_at) {
    constexpr int lanes = Simd<T>::lanes;
    int64_t support = 0;
    auto add = [&](int64_t i, Vector<T>& h_sum, Vector<T>& w_sum) {
        Vector<T> v;
        Mask<T> inside;
        Vector<T> u = weight_at(load(x + i), v, inside);
        support += count_of(inside);
        store(w + i, u);
        w_sum += u;
        h_sum += u * v;
    };
    if (count <= lanes) {  // as in most rows
        Vector<T> h_sum{}, w_sum{};
        add(0, h_sum, w_sum);
        return {double(lane_sum(h_sum)), double(lane_sum(w_sum)), support};
    }
    VectorTotal<T> h_total, w_total;
    for (int64_t start = 0; start < count; start += block * lanes) {
        Vector<T> h_even{}, h_odd{}, w_even{}, w_odd{};
        const int64_t end = start + block * lanes < count ? start + block * lanes : count;
        int64_t i = start;
        for (; i + lanes < end; i += 2 * lanes) {
            add(i, h_even, w_even);
            add(i + lanes, h_odd, w_odd);
        }
        if (i < end) add(i, h_even, w_even);
        h_total.add(h_even + h_odd);
        w_total.add(w_even + w_odd);
    }
    return {h_total.value(), w_total.value(), support};
}

template <class T, Form form>
INLINE Sums weights(const T* x, T* w, int64_t count, T t, T inverse_beta, const Power<T>& power) {
    return sum_weights<T>(x, w, count, [=, &power](Vector<T> kept, Vector<T>& v, Mask<T>& inside) INLINE_LAMBDA {
        return weight<T, form>(kept, splat(t), inverse_beta, power, v, inside);
    });
}

// How v is formed of classes that are all kept as x, with t <= -beta/2: v = x/beta + (1 + t/beta), the largest of which is
// at most 1/2, and doubled as often as leaves it below 1. So the table reaches far below it.
template <class T> struct Upper {
    int doublings = 0;
    double factor = 1;
    T start, rate;

    INLINE_MEMBER Upper(T t, double inverse_beta) {
        const double first = 1 + t * inverse_beta;
        for (; first * factor < 0.5 && doublings < Power<T>::most_halvings; ++doublings) factor *= 2;
        start = T(first * factor);
        rate = T(inverse_beta * factor);
    }
    INLINE_MEMBER Vector<T> of(Vector<T> kept) const { return kept * rate + start; }
};

// Do as `weights` for such classes. The weights that are written are too large by a factor; `own_w` is their sum, and `w`
// the sum of the right ones.
template <class T, Form form>
INLINE Sums weights_of_upper(const T* x, T* w, int64_t count, T t, double inverse_beta, const Power<T>& power, T& own_w) {
    const Upper<T> upper(t, inverse_beta);
    Sums sums = sum_weights<T>(x, w, count, [=, &power](Vector<T> kept, Vector<T>& v, Mask<T>& inside) INLINE_LAMBDA {
        v = upper.of(kept);
        inside = is_greater(v, Vector<T>{});
        return power_of<T, form>(v, inside, power, [](Vector<T> positive) INLINE_LAMBDA { return split<T>(positive); });
    });
    own_w = T(sums.w);
    sums.w *= power.halved[upper.doublings];
    sums.h *= power.halved[upper.doublings] / upper.factor;
    return sums;
}

// The sums of those of such classes that the next smaller number as t leaves off the support; they are not counted.
template <class T>
INLINE Sums sums_at_the_edge(const T* x, const T* w, int64_t count, T t, double inverse_beta, const Power<T>& power) {
    const Upper<T> upper(t, inverse_beta);
    const Vector<T> least = splat(Simd<T>::eps / 2 * (1 - t) * upper.rate);
    VectorTotal<T> h, weights;
    for (int64_t i = 0; i < count; i += Simd<T>::lanes) {
        Vector<T> v = upper.of(load(x + i)), u = load(w + i);
        Mask<T> at_edge = is_greater(least, v) & is_greater(u, Vector<T>{});
        h.add(zero_unless<T>(at_edge, u * v));
        weights.add(zero_unless<T>(at_edge, u));
    }
    const double halved = power.halved[upper.doublings];
    return {h.value() * halved / upper.factor, weights.value() * halved, 0};
}
