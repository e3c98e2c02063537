// Run one function in several threads: those of PyTorch's OpenMP runtime, or new ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

// GOMP_parallel of the OpenMP runtime that the process has already, or null.
using Team = void (*)(void (*)(void*), void*, unsigned, unsigned);

static inline void in_threads(void (*work)(void*), void* argument, int64_t threads, Team team) {
    if (threads == 1) return work(argument);
    if (team) return team(work, argument, unsigned(threads), 0);
    std::vector<std::thread> others;
    for (int64_t i = 1; i < threads; ++i) others.emplace_back(work, argument);
    work(argument);
    for (std::thread& other : others) other.join();
}

constexpr int64_t done = -1, no_memory = -2;  // what a kernel returns, if not the number of a row with a wrong label
constexpr size_t cache_line = 64;             // bytes

// Memory that begins with a cache line, or null if there is none. Windows has no std::aligned_alloc.
static inline void* aligned_memory(size_t bytes) {
    return ::operator new(bytes, std::align_val_t(cache_line), std::nothrow);
}
static inline void free_aligned(void* memory) { ::operator delete(memory, std::align_val_t(cache_line)); }

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif
