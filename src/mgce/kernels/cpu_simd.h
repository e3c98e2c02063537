// Vectors as wide as the registers of the instruction set that this file is compiled for.
//
// Arithmetic and comparisons are those of GCC's and Clang's vector types. What they lack is written out here: reading and
// writing part of a vector, packing the chosen lanes together, sums and maxima over the lanes, looking lanes up in a
// table.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__)
#include <immintrin.h>
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#include <immintrin.h>
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define INLINE_MEMBER inline __attribute__((always_inline))
#define INLINE static INLINE_MEMBER
// A function of its own, whose loops have all registers.
#define APART static __attribute__((noinline))
#define INLINE_LAMBDA __attribute__((always_inline))

template <class T> struct Simd;

template <> struct Simd<float> {
    typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));
    typedef int32_t Bits __attribute__((vector_size(VECTOR_BYTES)));
    using Integer = int32_t;
    static constexpr int lanes = VECTOR_BYTES / 4, fraction_bits = 23;
    static constexpr Integer one = 0x3F800000, two_thirds = 0x3F2AAAAB;  // the bits of 1 and of 2/3
    static constexpr float eps = 0x1p-23f;
};

template <> struct Simd<double> {
    typedef double Vector __attribute__((vector_size(VECTOR_BYTES)));
    typedef int64_t Bits __attribute__((vector_size(VECTOR_BYTES)));
    using Integer = int64_t;
    static constexpr int lanes = VECTOR_BYTES / 8, fraction_bits = 52;
    static constexpr Integer one = 0x3FF0000000000000, two_thirds = 0x3FE5555555555555;
    static constexpr double eps = 0x1p-52;
};

// How many entries the table of `look_up` has.
template <class T> struct Table { static constexpr int entries = sizeof(T) == 4 ? 16 : 64; };

template <class T> using Vector = typename Simd<T>::Vector;
template <class T> using Bits = typename Simd<T>::Bits;

template <class T> INLINE Vector<T> splat(T value) { return value - Vector<T>{}; }

template <class T> INLINE Vector<T> load(const T* from) {
    Vector<T> v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

template <class T> INLINE void store(T* to, Vector<T> v) { __builtin_memcpy(to, &v, sizeof v); }

template <class To, class From> INLINE To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are kept");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

#if defined(__AVX512F__)

// A mask has one bit for each lane.
template <class T> using Mask = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8>;

INLINE Mask<float> is_greater(Vector<float> a, Vector<float> b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
INLINE Mask<double> is_greater(Vector<double> a, Vector<double> b) { return _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ); }
INLINE Mask<float> is_zero(Vector<float> a) { return _mm512_cmp_ps_mask(a, Vector<float>{}, _CMP_EQ_OQ); }
INLINE Mask<double> is_zero(Vector<double> a) { return _mm512_cmp_pd_mask(a, Vector<double>{}, _CMP_EQ_OQ); }
INLINE Mask<float> is_nan(Vector<float> a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
INLINE Mask<double> is_nan(Vector<double> a) { return _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q); }
INLINE Vector<float> choose(__mmask16 m, Vector<float> a, Vector<float> b) { return _mm512_mask_mov_ps(b, m, a); }
INLINE Vector<double> choose(__mmask8 m, Vector<double> a, Vector<double> b) { return _mm512_mask_mov_pd(b, m, a); }
INLINE uint32_t bits_of(__mmask16 m) { return m; }
template <class T> INLINE Mask<T> first_lanes(int64_t count) {
    return Mask<T>(count < Simd<T>::lanes ? (1u << count) - 1 : (1u << Simd<T>::lanes) - 1);
}

INLINE Vector<float> load_first(const float* from, int64_t count, float fill) {
    return _mm512_mask_loadu_ps(splat(fill), first_lanes<float>(count), from);
}
INLINE Vector<double> load_first(const double* from, int64_t count, double fill) {
    return _mm512_mask_loadu_pd(splat(fill), first_lanes<double>(count), from);
}
INLINE void store_first(float* to, int64_t count, Vector<float> v) {
    _mm512_mask_storeu_ps(to, first_lanes<float>(count), v);
}
INLINE void store_first(double* to, int64_t count, Vector<double> v) {
    _mm512_mask_storeu_pd(to, first_lanes<double>(count), v);
}

// Compressed in a register and stored whole: storing compressed is slow on some processors.
INLINE void store_packed(float* to, int32_t* numbers, Vector<float> v, int32_t first, uint32_t chosen) {
    store(to, (Vector<float>)_mm512_maskz_compress_ps(chosen, v));
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i number = _mm512_add_epi32(lanes, _mm512_set1_epi32(first));
    _mm512_storeu_si512(numbers, _mm512_maskz_compress_epi32(chosen, number));
}
INLINE void store_packed(double* to, int32_t* numbers, Vector<double> v, int32_t first, uint32_t chosen) {
    store(to, (Vector<double>)_mm512_maskz_compress_pd(chosen, v));
    __m256i number = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    _mm256_storeu_si256((__m256i*)numbers, _mm256_maskz_compress_epi32(chosen, number));
}
INLINE void store_packed_again(float* to, int32_t* numbers, Vector<float> v, const int32_t* old, uint32_t chosen) {
    store(to, (Vector<float>)_mm512_maskz_compress_ps(chosen, v));
    _mm512_storeu_si512(numbers, _mm512_maskz_compress_epi32(chosen, _mm512_loadu_si512(old)));
}
INLINE void store_packed_again(double* to, int32_t* numbers, Vector<double> v, const int32_t* old, uint32_t chosen) {
    store(to, (Vector<double>)_mm512_maskz_compress_pd(chosen, v));
    __m256i number = _mm256_loadu_si256((const __m256i*)old);
    _mm256_storeu_si256((__m256i*)numbers, _mm256_maskz_compress_epi32(chosen, number));
}

INLINE float lane_sum(Vector<float> v) { return _mm512_reduce_add_ps(v); }
INLINE double lane_sum(Vector<double> v) { return _mm512_reduce_add_pd(v); }
INLINE float lane_maximum(Vector<float> v) { return _mm512_reduce_max_ps(v); }
INLINE double lane_maximum(Vector<double> v) { return _mm512_reduce_max_pd(v); }

INLINE Vector<float> square_root(Vector<float> v) { return _mm512_sqrt_ps(v); }
INLINE Vector<double> square_root(Vector<double> v) { return _mm512_sqrt_pd(v); }

// As `a > b ? a : b` and `a < b ? a : b`, so that of NaN the second is given.
INLINE Vector<float> larger(Vector<float> a, Vector<float> b) { return _mm512_max_ps(a, b); }
INLINE Vector<double> larger(Vector<double> a, Vector<double> b) { return _mm512_max_pd(a, b); }
INLINE Vector<float> smaller(Vector<float> a, Vector<float> b) { return _mm512_min_ps(a, b); }
INLINE Vector<double> smaller(Vector<double> a, Vector<double> b) { return _mm512_min_pd(a, b); }

// A vector of float as two of double.
INLINE void widen(Vector<float> v, Vector<double> (&halves)[2]) {
    halves[0] = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    halves[1] = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}

// table[number] by the lowest bits of the number, as many as the table has entries.
template <> struct Table<float> { static constexpr int entries = 32; };
INLINE Vector<float> look_up(const float* table, Bits<float> number) {
    return _mm512_permutex2var_ps(load(table), (__m512i)number, load(table + 16));
}
INLINE Vector<double> look_up(const double* table, Bits<double> number) {
    return _mm512_i64gather_pd((__m512i)(number & 63), table, 8);
}

#else  // no masked instructions

// A mask has -1 in a chosen lane, else 0.
template <class T> using Mask = Bits<T>;

// The cast is for Clang, where a comparison of double gives vectors of another 64-bit integer than int64_t.
INLINE Mask<float> is_greater(Vector<float> a, Vector<float> b) { return (Mask<float>)(a > b); }
INLINE Mask<double> is_greater(Vector<double> a, Vector<double> b) { return (Mask<double>)(a > b); }
INLINE Mask<float> is_zero(Vector<float> a) { return (Mask<float>)(a == Vector<float>{}); }
INLINE Mask<double> is_zero(Vector<double> a) { return (Mask<double>)(a == Vector<double>{}); }
INLINE Mask<float> is_nan(Vector<float> a) { return (Mask<float>)(a != a); }
INLINE Mask<double> is_nan(Vector<double> a) { return (Mask<double>)(a != a); }
template <class M, class V> INLINE V choose(M m, V a, V b) { return m ? a : b; }
template <class T> INLINE Mask<T> first_lanes(int64_t count) {
    Bits<T> number{};
    for (int i = 0; i < Simd<T>::lanes; ++i) number[i] = i;
    return number < typename Simd<T>::Integer(count < Simd<T>::lanes ? count : Simd<T>::lanes);
}

#if defined(__AVX2__)

INLINE Vector<float> load_first(const float* from, int64_t count, float fill) {
    Bits<float> first = first_lanes<float>(count);
    return choose(first, (Vector<float>)_mm256_maskload_ps(from, (__m256i)first), splat(fill));
}
INLINE Vector<double> load_first(const double* from, int64_t count, double fill) {
    Bits<double> first = first_lanes<double>(count);
    return choose(first, (Vector<double>)_mm256_maskload_pd(from, (__m256i)first), splat(fill));
}
INLINE void store_first(float* to, int64_t count, Vector<float> v) {
    _mm256_maskstore_ps(to, (__m256i)first_lanes<float>(count), v);
}
INLINE void store_first(double* to, int64_t count, Vector<double> v) {
    _mm256_maskstore_pd(to, (__m256i)first_lanes<double>(count), v);
}

INLINE uint32_t bits_of(Bits<float> m) { return _mm256_movemask_ps((__m256)m); }
INLINE uint32_t bits_of(Bits<double> m) { return _mm256_movemask_pd((__m256d)m); }
INLINE Vector<float> square_root(Vector<float> v) { return _mm256_sqrt_ps(v); }
INLINE Vector<double> square_root(Vector<double> v) { return _mm256_sqrt_pd(v); }

// As `a > b ? a : b` and `a < b ? a : b`, so that of NaN the second is given.
INLINE Vector<float> larger(Vector<float> a, Vector<float> b) { return _mm256_max_ps(a, b); }
INLINE Vector<double> larger(Vector<double> a, Vector<double> b) { return _mm256_max_pd(a, b); }
INLINE Vector<float> smaller(Vector<float> a, Vector<float> b) { return _mm256_min_ps(a, b); }
INLINE Vector<double> smaller(Vector<double> a, Vector<double> b) { return _mm256_min_pd(a, b); }

// A vector of float as two of double.
INLINE void widen(Vector<float> v, Vector<double> (&halves)[2]) {
    halves[0] = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    halves[1] = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

// Two registers hold the table: gathering is slow on many processors. Bit 3 of the number chooses between them.
INLINE Vector<float> look_up(const float* table, Bits<float> number) {
    __m256i lane = (__m256i)number;
    __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), lane);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), lane);
    return _mm256_blendv_ps(low, high, (__m256)(number << 28));
}
INLINE Vector<double> look_up(const double* table, Bits<double> number) {
    return _mm256_i64gather_pd(table, (__m256i)(number & 63), 8);
}

// Byte i of entry m: the lane of the set bit i of m, counted from the lowest.
struct PackedLanes {
    uint64_t of[256];
    constexpr PackedLanes() : of() {
        for (int m = 0; m < 256; ++m)
            for (int lane = 0, n = 0; lane < 8; ++lane)
                if (m >> lane & 1) of[m] |= uint64_t(lane) << (8 * n++);
    }
};
static constexpr PackedLanes packed_lanes;

INLINE __m256i lanes_of(uint32_t chosen) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)&packed_lanes.of[chosen]));
}
INLINE void store_packed(float* to, int32_t* numbers, Vector<float> v, int32_t first, uint32_t chosen) {
    __m256i lanes = lanes_of(chosen);
    store(to, (Vector<float>)_mm256_permutevar8x32_ps(v, lanes));
    _mm256_storeu_si256((__m256i*)numbers, _mm256_add_epi32(lanes, _mm256_set1_epi32(first)));
}
INLINE void store_packed_again(float* to, int32_t* numbers, Vector<float> v, const int32_t* old, uint32_t chosen) {
    __m256i lanes = lanes_of(chosen), number = _mm256_loadu_si256((const __m256i*)old);
    store(to, (Vector<float>)_mm256_permutevar8x32_ps(v, lanes));
    _mm256_storeu_si256((__m256i*)numbers, _mm256_permutevar8x32_epi32(number, lanes));
}

#else

template <class T> INLINE Vector<T> load_first(const T* from, int64_t count, T fill) {
    Vector<T> v = splat(fill);
    for (int i = 0; i < Simd<T>::lanes; ++i)
        if (i < count) v[i] = from[i];
    return v;
}
template <class T> INLINE void store_first(T* to, int64_t count, Vector<T> v) {
    for (int i = 0; i < Simd<T>::lanes; ++i)
        if (i < count) to[i] = v[i];
}

template <class M> INLINE uint32_t bits_of(M m) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < sizeof(M) / sizeof(m[0]); ++i) bits |= (uint32_t)(m[i] & 1) << i;
    return bits;
}
template <class V> INLINE V square_root(V v) {
    for (unsigned i = 0; i < sizeof(V) / sizeof(v[0]); ++i) v[i] = sizeof(v[0]) == 4 ? __builtin_sqrtf(v[i]) : __builtin_sqrt(v[i]);
    return v;
}
template <class T> INLINE Vector<T> look_up(const T* table, Bits<T> number) {
    Vector<T> v;
    for (int i = 0; i < Simd<T>::lanes; ++i) v[i] = table[number[i] & (Table<T>::entries - 1)];
    return v;
}
template <class V> INLINE V larger(V a, V b) { return choose(is_greater(a, b), a, b); }
template <class V> INLINE V smaller(V a, V b) { return choose(is_greater(b, a), a, b); }
INLINE void widen(Vector<float> v, Vector<double> (&halves)[2]) {
    for (int i = 0; i < Simd<float>::lanes; ++i) halves[2 * i / Simd<float>::lanes][i % Simd<double>::lanes] = v[i];
}

#endif

template <class T> INLINE void store_packed(T* to, int32_t* numbers, Vector<T> v, int32_t first, uint32_t chosen) {
    for (int n = 0; chosen; chosen &= chosen - 1, ++n) {
        int lane = __builtin_ctz(chosen);
        to[n] = v[lane];
        numbers[n] = first + lane;
    }
}
template <class T>
INLINE void store_packed_again(T* to, int32_t* numbers, Vector<T> v, const int32_t* old, uint32_t chosen) {
    for (int n = 0; chosen; chosen &= chosen - 1, ++n) {
        int lane = __builtin_ctz(chosen);
        to[n] = v[lane];
        numbers[n] = old[lane];
    }
}
template <class V> INLINE auto lane_sum(V v) {
    constexpr int lanes = sizeof(V) / sizeof(v[0]);
    for (int width = lanes / 2; width; width /= 2)
        for (int i = 0; i < width; ++i) v[i] += v[i + width];
    return v[0] + 0;
}
template <class V> INLINE auto lane_maximum(V v) {
    auto most = v[0] + 0;
    for (unsigned i = 1; i < sizeof(V) / sizeof(v[0]); ++i)
        if (v[i] > most) most = v[i];
    return most;
}

#endif

template <class T> INLINE Vector<T> zero_unless(Mask<T> m, Vector<T> v) { return choose(m, v, Vector<T>{}); }
template <class M> INLINE int count_of(M m) { return __builtin_popcount(bits_of(m)); }
template <class V> INLINE V not_above(V a, V most) { return smaller(most, a); }  // NaN stays
