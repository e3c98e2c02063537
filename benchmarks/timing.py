"""Turns in one process: whatever slows the machine slows every contestant."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

WARM_UP = 2
# Seconds. Beside what takes milliseconds, what takes longer than this is slower by a ratio in the hundreds; one turn
# tells that well enough, and a minute of turns would add nothing.
LONG = 1.0


def medians(
    contestants: Mapping[str, Callable[[], Any]],
    leaves: Sequence[torch.Tensor],
    *,
    seconds: float = 1.0,
    least: int = 5,
) -> dict[str, float]:
    """Time forward and backward of each loss in turn, until the time is up and each had `least` turns.

    A loss whose first turn was a long one has no other.
    """
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    deadline = time.perf_counter() + seconds
    rounds = 0
    while rounds < WARM_UP + least or time.perf_counter() < deadline:
        for name, loss in contestants.items():
            if taken[name] and taken[name][0] > LONG:
                continue
            for leaf in leaves:
                leaf.grad = None
            start = time.perf_counter()
            loss().backward()
            taken[name].append(time.perf_counter() - start)
        rounds += 1
    return {name: statistics.median(times[WARM_UP:] or times) for name, times in taken.items()}


def geometric_mean(values: Sequence[float]) -> float:
    """Give the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))
