"""Choose for rows of a given length the GPU kernel, the block size and the number of warps.

The choice does not depend on the number of rows. Otherwise the result of a row could depend on the rest of the batch.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

# Most classes of a row that is held in registers, with its candidates packed and without. Compiled for compute
# capability 9.0, larger blocks spill much of what these hold; the speeds have not been compared.
PACKED_BLOCK, PLAIN_BLOCK = 8192, 16384
SMALLEST_PACKED_BLOCK = 4096  # a shorter row is evaluated whole in a few instructions of each thread
# Longer rows are read so many classes at a time, by so many warps: eight numbers for each of 256 threads.
CHUNK, CHUNK_WARPS = 2048, 8
CHUNKED_PROGRAMS = 4  # for each multiprocessor, so that some compute while others wait for memory
SCALED_BLOCK = 4096  # numbers of the gradient that a program scales at a time: of short rows, those of many
# From this beta on most classes are candidates, and few steps are made: packing would cost more than it saves.
LARGEST_PACKED_BETA = 8.0
# `powers` forms v^(beta - 1) from v, v^2, v^4, v^8 (twice) and the root of v: up to an exponent of 15.5.
LARGEST_BETA_BY_PRODUCTS = 16.5

# Whether long rows with few candidates are read once (`cuda_stream`), and others so few at a time that the cache holds
# them, or all of them in chunks as many at a time as there is room for. On an H200 the first was up to four times as
# fast on rows with few candidates, but its gradient was wrong; no device has passed its tests since that was mended.
ONE_PASS = False
# Two vectors of 16 bytes for each of 256 threads at a time, and as many on their way. In 128 registers of each thread
# next to nothing is spilled, and a multiprocessor has room for two such programs: one may wait for the other.
STREAM_BYTES, STREAM_WARPS, STREAM_REGISTERS, STREAM_PROGRAMS = 8192, 8, 128, 2
# Most warps of a program that reads a row in chunks, where few programs must keep the memory busy: with more, 64
# registers are left for each thread, and numbers are spilled.
LARGEST_CHUNK_WARPS = 16
WARPS_OF_A_PROCESSOR = 32  # half of what there is room for, as the registers of each thread allow


@dataclass(frozen=True)
class Plan:
    """The launch configuration of a kernel: rows and warps of a program, its scratch memory, and constants."""

    rows: int  # for each program; 0 for as many as come
    candidates: int  # room in the scratch of a program
    warps: int
    constants: dict[str, int | bool]


@dataclass(frozen=True)
class Device:
    """The properties of the GPU that a :class:`Plan` depends on."""

    processors: int
    cache_bytes: int  # of the last cache


@functools.lru_cache
def plan_rows(k: int, beta: float) -> Plan:
    """Return the plan for rows of k classes: held in registers if they fit, otherwise read in chunks."""
    block = max(16, power_of_two(k))
    pack = beta < LARGEST_PACKED_BETA
    if block > (PACKED_BLOCK if pack else PLAIN_BLOCK):
        return Plan(0, k if pack else 1, CHUNK_WARPS, {"BLOCK": CHUNK, "PACK": pack})
    # Short rows are taken together up to 256 numbers, and each warp has 256: eight for each of its threads. To pack is
    # worth it where few classes are left: where more than an eighth are, the row is solved as it is.
    rows = max(1, 256 // block)
    candidates = block // 8 if pack and block >= SMALLEST_PACKED_BLOCK else 0
    constants = {"ROWS": rows, "BLOCK": block, "PACKED": candidates}
    return Plan(rows, candidates, min(32, max(1, block // 256)), constants)


def way_of(k: int, beta: float) -> str:
    """Return how rows of k classes are read: "rows" (held in registers), "chunks" or "one pass"."""
    return "rows" if plan_rows(k, beta).rows else "one pass" if ONE_PASS else "chunks"


@functools.lru_cache
def plan_stream(item_bytes: int) -> Plan:
    """Return the plan for rows that are read once, with memory for a list of two blocks of candidates.

    Candidates are the classes that may have a probability.
    """
    block = STREAM_BYTES // item_bytes
    return Plan(0, 2 * block, STREAM_WARPS, {"BLOCK": block, "LIST": 32 * STREAM_WARPS, "CAPACITY": 2 * block})


@functools.lru_cache
def plan_cached_rows(k: int, beta: float, row_bytes: int, device: Device) -> tuple[Plan, int]:
    """Return the plan for rows that are read in chunks, and how many rows may be processed at a time.

    So many rows fit into half of the cache. The other half is for the gradients, which pass through the same cache.
    """
    programs = max(1, min(CHUNKED_PROGRAMS * device.processors, device.cache_bytes // 2 // row_bytes))
    wanted = power_of_two(-(-WARPS_OF_A_PROCESSOR * device.processors // programs))
    warps = max(CHUNK_WARPS, min(LARGEST_CHUNK_WARPS, wanted))
    pack = beta < LARGEST_PACKED_BETA
    constants = {"BLOCK": CHUNK * warps // CHUNK_WARPS, "PACK": pack}
    return Plan(0, k if pack else 1, warps, constants), programs


def is_streamed(beta: float, *, labels: bool, label_smoothing: float) -> bool:
    """Return whether few classes of a row may have a nonzero gradient, so that storing a list of them saves time."""
    return labels and label_smoothing == 0 and beta < LARGEST_PACKED_BETA


def halves(beta: float) -> int:
    """Return 2 (beta - 1) if v^(beta - 1) can be computed by products and a square root of v, otherwise -1."""
    return int(2 * (beta - 1)) if beta <= LARGEST_BETA_BY_PRODUCTS and (2 * beta).is_integer() else -1


def power_of_two(k: int) -> int:
    """Return the smallest power of two that is at least k."""
    return 1 << (k - 1).bit_length()
