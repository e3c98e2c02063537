r"""Compute bounds on an expectation that may be looked at after every draw, whenever one stops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgce._arrays import FloatArray
from mgce.risk.betting import MOST_OF_WEALTH
from mgce.risk.concentration import check_delta, unit_sample

GRID = 1000  # candidates for the mean: a bound is rounded up to the next thousandth, below what a plot or a table shows
CHUNK = 4096  # draws that are worked on at once: 33 MB of float64
# Examples for which the drift-proof bound is tuned, up to a factor: its width is within 15 % of the best from a tenth
# of them to ten times as many.
TUNED_FOR = 1000


def betting_upper_sequence(sample: Any, delta: float = 0.05, *, limits: tuple[float, float] = (0.0, 1.0)) -> FloatArray:
    r"""Return after every draw an upper bound on the expectation, computed by betting; all bounds hold at once.

    .. math:: P(\exists t: U_t < \mu) \le \delta, \qquad
        U_t = \min\Big\{m : \max_{i \le t} \sum_{j \le i}
        \log\big(1 + \min(\lambda_j, \tfrac{3}{4 (1 - m)}) (m - z_j)\big) \ge \log \tfrac{1}{\delta}\Big\},
        \qquad \lambda_j = \sqrt{\frac{2 \log (1/\delta)}{v_{j-1}\, j \log(j + 1)}}

    The method is that of :func:`betting_upper`. The stakes depend neither on later draws nor on their number. So you
    may look at the bound after every draw, and stop when it is good enough. The bounds never rise. Each draw may depend
    on earlier draws, as long as its expectation given the earlier draws is mu. If the expectation drifts, U_t bounds
    only the least expectation so far, not the latest one. :func:`drift_upper_sequence` bounds the average of all
    expectations so far.

    Args:
        sample: draws z in the order in which they came, shape (n,), array or tensor.
        delta: probability in (0, 1) with which any of the bounds may be wrong.
        limits: the range [a, b] of a draw, known without the sample.

    Returns:
        U_1 to U_n, shape (n,), rounded up to a thousandth of the range.

    Raises:
        ValueError: if an argument is outside its range, or the sample outside `limits`.

    Example:
        >>> z = np.random.default_rng(0).random(2000) < 0.1
        >>> betting_upper_sequence(z)[[49, 199, 1999]].round(3).tolist()
        [0.308, 0.202, 0.135]

    Reference: Waudby-Smith and Ramdas (2024), JRSS B 86, section 4, by Ville's inequality.
    """
    check_delta(delta)
    low, high = limits
    return np.asarray(low + (high - low) * refuted_from(unit_sample(sample, limits), delta))


def refuted_from(z: FloatArray, delta: float, *, largest: float | FloatArray = 1.0) -> FloatArray:
    """Return after each draw the least candidate for the mean that betting refutes, rounded up to the grid.

    Args:
        z: draws whose expectation given earlier draws is in [0, 1] and the same for all, shape (n,).
        delta: probability with which any of the results may be too small.
        largest: how large each draw may be, a number or shape (n,); it may depend on earlier draws.
    """
    goal = -math.log(delta)
    stakes = _open_ended_stakes(z, goal)
    top = np.broadcast_to(largest, z.shape)
    means = np.arange(1, GRID + 1) / GRID
    wealth, first = np.zeros(GRID), np.empty(z.size)
    for start in range(0, z.size, CHUNK):
        part = slice(start, start + CHUNK)
        with np.errstate(divide="ignore"):
            stake = np.minimum(stakes[part, None], MOST_OF_WEALTH / (top[part, None] - means))
        logs = wealth + np.log1p(stake * (means - z[part, None])).cumsum(0)
        # The capital rises with m: the refuted candidates are those from the first one on.
        first[part] = np.where(logs[:, -1] >= goal, GRID - (logs >= goal).sum(1), GRID - 1)
        wealth = logs[-1]
    return np.asarray(means[np.minimum.accumulate(first.astype(np.int64))])


def drift_upper_sequence(sample: Any, delta: float = 0.05, *, limits: tuple[float, float] = (0.0, 1.0)) -> FloatArray:
    r"""Bound after every draw the average of the expectations of all draws so far, however the expectations drift.

    .. math:: \frac1t \sum_{j \le t} E[z_j \mid z_1, \dots, z_{j-1}] \le \bar z_t
        + \frac{b - a}{t} \sqrt{\Big(\frac t4 + \rho\Big) \log \frac{t/4 + \rho}{\rho\, \delta^2}}
        \quad \text{for all } t

    Args:
        sample: draws z in the order in which they came, shape (n,), array or tensor.
        delta: probability in (0, 1) with which any of the bounds may be wrong.
        limits: the range [a, b] of a draw, known without the sample.

    Returns:
        The bounds after 1 to n draws, shape (n,), at most b.

    Raises:
        ValueError: if an argument is outside its range, or the sample outside `limits`.

    Example:
        >>> z = np.random.default_rng(0).random(2000) < np.linspace(0.1, 0.3, 2000)
        >>> drift_upper_sequence(z)[[199, 1999]].round(3).tolist()
        [0.229, 0.238]

    Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), Annals of Statistics 49, the normal mixture; a draw in
    [a, b] is sub-Gaussian with variance (b - a)^2/4 (Hoeffding).
    """
    check_delta(delta)
    low, high = limits
    z = unit_sample(sample, limits)
    t = np.arange(1, z.size + 1)
    rho = TUNED_FOR / 4 / (2 * math.log(1 / delta) + math.log1p(2 * math.log(1 / delta)))
    spread = t / 4 + rho
    radius = np.sqrt(spread * np.log(spread / (rho * delta**2))) / t
    return np.asarray(low + (high - low) * np.minimum(z.cumsum() / t + radius, 1.0))


def _open_ended_stakes(z: FloatArray, goal: float) -> FloatArray:
    """Return the stake of the bet on each of n draws; a stake depends only on earlier draws."""
    t = np.arange(1, z.size + 1)
    mean = (0.5 + z.cumsum()) / (t + 1)
    variance = (0.25 + ((z - mean) ** 2).cumsum()) / (t + 1)
    before = np.append(0.25, variance[:-1])
    return np.asarray(np.sqrt(2 * goal / (before * t * np.log(t + 1))))
