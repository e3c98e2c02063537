// Replay calls that kernel_calls.py recorded, by another library: kernel_replay LIBRARY CALLS.
//
// Prints how many calls were replayed, and the largest difference in units of rounding; fails if one is too large.
#if defined(_WIN32)
#define NOMINMAX
#include <windows.h>
static void* dlopen(const char* name, int) { return LoadLibraryA(name); }
static void* dlsym(void* library, const char* name) { return (void*)GetProcAddress(HMODULE(library), name); }
static const char* dlerror() { return "the library cannot be loaded"; }
#define RTLD_NOW 0
#else
#include <dlfcn.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Instruction sets round products and sums in another order. Recorded with AVX2, results differ by 6 roundings of the largest
// number of the call without it, and by 2 on ARM: ten times as much is an error.
constexpr double units = 64;

struct Array {
    std::vector<char> before, after;
    int64_t alias;
    std::vector<char> memory;
};

static FILE* calls;

static int64_t number() {
    int64_t value;
    if (std::fread(&value, 8, 1, calls) != 1) std::abort();
    return value;
}

static std::vector<Array> arrays(int count) {
    std::vector<Array> all(count);
    for (Array& one : all) {
        int64_t size = number();
        one.alias = number();
        one.before.resize(size), one.after.resize(size);
        if (std::fread(one.before.data(), 1, size, calls) != size_t(size)) std::abort();
        if (std::fread(one.after.data(), 1, size, calls) != size_t(size)) std::abort();
        one.memory = one.before;
    }
    return all;
}

static int64_t address(std::vector<Array>& all, int place) {
    if (all[place].before.empty()) return 0;
    return int64_t(all[all[place].alias].memory.data());
}

template <class T> static double scale(const std::vector<Array>& all, const std::vector<int>& places) {
    double largest = 1;
    for (int place : places)
        for (size_t at = 0; at + sizeof(T) <= all[place].before.size(); at += sizeof(T))
            for (const std::vector<char>* side : {&all[place].before, &all[place].after}) {
                T value;
                std::memcpy(&value, side->data() + at, sizeof(T));
                if (std::isfinite(value)) largest = std::max(largest, std::fabs(double(value)));
            }
    return largest;
}

// The largest difference between what an array holds and what it held on the other machine, in units of rounding.
template <class T> static double difference(const std::vector<Array>& all, int place, double largest) {
    const Array& one = all[place];
    const std::vector<char>& got = all[one.alias].memory;
    double worst = 0, eps = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;
    for (size_t at = 0; at + sizeof(T) <= one.after.size(); at += sizeof(T)) {
        T a, b;
        std::memcpy(&a, got.data() + at, sizeof(T));
        std::memcpy(&b, one.after.data() + at, sizeof(T));
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        double apart = std::fabs(double(a) - double(b)) / (eps * largest);
        worst = std::isnan(apart) ? INFINITY : std::max(worst, apart);
    }
    return worst;
}

template <class T> static double replay(void* library, int64_t kind, const std::string& type) {
    int64_t expected = number(), result, n = number();
    std::vector<Array> all;
    std::vector<int> inputs, outputs, exact;
    auto function = [&](const char* name) { return dlsym(library, ("mgce_" + std::string(name) + "_" + type).c_str()); };
    if (kind == 2) {
        int64_t ignored = number(), labels = number(), window = number();
        all = arrays(6), inputs = {0, 2}, outputs = {2}, exact = {3, 5};
        using Trim = int64_t (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
        result = Trim(function("trim"))(n, address(all, 0), address(all, 1), ignored, labels, window, address(all, 2),
                                        address(all, 3), address(all, 4), address(all, 5));
    } else {
        int count = kind == 0 ? 8 : 7;  // the first are the options, the last three what is written
        all = arrays(count), inputs = {1, count - 4}, outputs = {count - 3, count - 2, count - 1};
        void* plan = kind == 0 ? ((void* (*)(int64_t))function("make_plan"))(address(all, 0)) : (void*)address(all, 0);
        std::vector<int64_t> packed = {int64_t(plan), n};
        for (int i = 1; i < count; ++i) packed.push_back(address(all, i));
        packed.push_back(1), packed.push_back(0);  // one thread, and no runtime of OpenMP
        result = ((int64_t (*)(const int64_t*))function(kind == 0 ? "loss" : "softmax_loss"))(packed.data());
        if (kind == 0) ((void (*)(void*))dlsym(library, "mgce_free_plan"))(plan);
    }
    if (result != expected) return INFINITY;
    if (kind != 2 && result != -1) return 0;  // a wrong label: nothing is promised of what was written
    for (int place : exact)
        if (all[place].memory != all[place].after) return INFINITY;
    double largest = scale<T>(all, inputs), worst = 0;
    for (int place : outputs) worst = std::max(worst, difference<T>(all, place, std::max(largest, scale<T>(all, {place}))));
    return worst;
}

int main(int, char** names) {
    void* library = dlopen(names[1], RTLD_NOW);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    calls = std::fopen(names[2], "rb");
    if (!calls) return std::fprintf(stderr, "%s cannot be read\n", names[2]), 2;
    int64_t kind, count[3] = {}, apart = 0;
    double worst = 0;
    while (std::fread(&kind, 8, 1, calls) == 1) {
        double found = number() == 4 ? replay<float>(library, kind, "float32") : replay<double>(library, kind, "float64");
        ++count[kind];
        apart += !(found <= units);
        worst = std::max(worst, found);
    }
    std::printf("%lld calls of MGCE, %lld of softmax, %lld of trimming: %lld apart, at most %.3g roundings\n",
                (long long)count[0], (long long)count[1], (long long)count[2], (long long)apart, worst);
    return apart || !count[0] || !count[1] || !count[2];
}
