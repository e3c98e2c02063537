"""What one call of the compiled kernel works on, as Python fills it in and numba reads it."""

from __future__ import annotations

import ctypes

PREPARE, SOLVE, FINISH = 1, 2, 4  # stages of a call; only the second may run in several threads at once

VECTOR_BYTES = 64
PER_ROW = 9  # numbers that a group keeps for each of its rows

_INTEGERS = (
    "next_row",  # shared by the threads, as is the next
    "next_scratch",
    "stages",
    "rows",
    "classes",
    "group",  # rows that are solved together
    "stride",  # between the candidates of two rows of a group
    "products",  # 1 if v^(beta - 1) is formed by products
    "mean",  # 1 if the losses are divided by their number or the sum of their weights
    "ignore_index",
    "bad_targets",  # their number, and one of them
    "bad_target",
    # Addresses, 0 for what is absent.
    "self",
    "logits",
    "target",
    "target_probs",
    "class_weight",
    "losses",
    "total",
    "grad",
    "scratch",
    "scratch_size",  # bytes for each thread
)
_REALS = (
    "beta",
    "eps",
    "target_share",  # of the target in q = weight * (target_share * target + uniform_share)
    "uniform_share",
    "denominator",
)

NEXT_ROW, NEXT_SCRATCH = _INTEGERS.index("next_row"), _INTEGERS.index("next_scratch")


class Problem(ctypes.Structure):
    """Arguments, working memory and results of the kernel."""

    _fields_ = tuple((n, ctypes.c_int64) for n in _INTEGERS) + tuple((n, ctypes.c_double) for n in _REALS)
