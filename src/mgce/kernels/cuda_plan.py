"""Choose for rows of a given length the GPU kernel, the block size and the number of warps.

The choice does not depend on the number of rows. Otherwise the result of a row could depend on the rest of the batch.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

# The constants of this module were compared on an H200, for logits of a standard deviation of 10, 1 and 0.01.
# Most classes of a row that is held in registers as one tile. Longer rows are read in blocks.
LONGEST_TILE = 1024
# Numbers of a tile of several short rows, and of a longer row for each warp.
SHORT_TILE, WARP_TILE = 128, 256
# Classes of a block of a long row, warps that read it, programs for each multiprocessor, and registers of a thread.
# With fewer warps, sparse rows take less time, but rows with many candidates more.
LONG_BLOCK, LONG_WARPS, LONG_PROGRAMS, LONG_REGISTERS = 1024, 4, 4, 128
# Room for the candidates of a row, the classes that may have a probability. Of 32,000 to 256,000 logits with a standard
# deviation of 0.01, as a network gives at first, 2,500 to 3,700 have one at beta 1.4. With half the room such rows took
# twice as long. All lists of an H200 take 26 MiB of memory in half types.
CAPACITY = 8192
# From this beta on most classes are candidates, and few steps are made: a list would cost more than it saves.
LARGEST_LISTED_BETA = 8.0
SCALED_BLOCK = 4096  # numbers of the gradient that a program scales at a time: of short rows, those of many
# `powers` forms v^(beta - 1) from v, v^2, v^4, v^8 (twice) and the root of v: up to an exponent of 15.5.
LARGEST_BETA_BY_PRODUCTS = 16.5


class TilePlan(NamedTuple):
    """The launch configuration for rows that are held in registers."""

    rows: int  # for each program
    warps: int
    constants: dict[str, int]


class LongPlan(NamedTuple):
    """The launch configuration for rows that are read in blocks."""

    programs: int  # for each multiprocessor
    candidates: int  # room in the list of a program
    warps: int
    registers: int
    constants: dict[str, int]


WAYS = ("tiles", "lists", "chunks")


def way_of(k: int, beta: float) -> str:
    """Return how rows of k classes are read: as "tiles", with "lists" of candidates, or in "chunks" without lists."""
    return "tiles" if k <= LONGEST_TILE else "lists" if beta < LARGEST_LISTED_BETA else "chunks"


@functools.lru_cache
def plan_tile(k: int) -> TilePlan:
    """Return the plan for rows of k classes that are held in registers."""
    block = max(16, power_of_two(k))
    rows = max(1, SHORT_TILE // block)
    return TilePlan(rows, max(1, block // WARP_TILE), {"ROWS": rows, "BLOCK": block})


@functools.lru_cache
def plan_long(k: int, beta: float) -> LongPlan:
    """Return the plan for rows of k classes that are read in blocks."""
    capacity = min(CAPACITY, power_of_two(k)) if way_of(k, beta) == "lists" else 0
    constants = {"BLOCK": LONG_BLOCK, "LIST": 32 * LONG_WARPS, "CAPACITY": capacity}
    return LongPlan(LONG_PROGRAMS, max(1, capacity), LONG_WARPS, LONG_REGISTERS, constants)


def halves(beta: float) -> int:
    """Return 2 (beta - 1) if v^(beta - 1) can be computed by products and a square root of v, otherwise -1."""
    return int(2 * (beta - 1)) if beta <= LARGEST_BETA_BY_PRODUCTS and (2 * beta).is_integer() else -1


def power_of_two(k: int) -> int:
    """Return the smallest power of two that is at least k."""
    return 1 << (k - 1).bit_length()
