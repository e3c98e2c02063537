"""Times of losses that take turns in one process, so that whatever slows the machine slows all of them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

WARM_UP = 2  # turns that do not count, in which kernels are loaded and memory is taken
# Seconds. Beside what takes milliseconds, what takes longer than this is slower by a ratio in the hundreds; one turn
# tells that well enough, and a minute of turns would add nothing.
LONG = 1.0


def medians(
    contestants: Mapping[str, Callable[[], Any]],
    leaves: Sequence[torch.Tensor],
    *,
    seconds: float = 1.0,
    least: int = 5,
    backward: bool = True,
) -> dict[str, float]:
    """Return the median seconds of forward and backward of each loss, the losses taking turns.

    Args:
        contestants: losses by name, without arguments; what each returns has a `backward`.
        leaves: the tensors that get gradients, which are cleared before each turn.
        seconds: how long to measure, all losses together.
        least: turns that each loss has at least, unless its first one was long: then it has no other.
        backward: False for functions of which the forward pass alone counts.
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
            value = loss()
            if backward:
                value.backward()
            taken[name].append(time.perf_counter() - start)
        rounds += 1
    return {name: statistics.median(times[WARM_UP:] or times) for name, times in taken.items()}


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))
