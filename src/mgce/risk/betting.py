r"""Bound an expectation from a sample by betting: a gambler bets on each draw against candidate expectations.

These bounds adapt to the variance. They are the tightest of this package if the draws vary little.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mgce._arrays import ROUNDED, FloatArray, IntArray
from mgce._messages import expected
from mgce.risk.concentration import check_delta, rescaled, unit_sample

# Share of the gambler's capital (see `betting_upper`) that one bet may lose: Waudby-Smith and Ramdas advise 1/2 or 3/4.
# With 1, a single bad draw could leave nothing to bet with, and no later draw would improve the bound.
MOST_OF_WEALTH = 0.75
# Cells into which the range of the draws is divided before hashing. There are so few that rounding, even of float32,
# hardly ever moves a draw to another cell, and so many that two samples hardly ever agree in all counts. The number is
# irrational, so that no fraction lies on an edge.
CELLS = 10 * math.pi
# Random orders of a sample of which few kinds are possible, all of which must refute a mean. On draws of two values, n
# from 20 to 500, and at the worst of 179 means, one order missed 18 % at delta .05 and 40 % at .2, four 2.8 % and 11 %,
# eight 1.6 % and 8.7 %; sixteen are no better.
ORDERS = 8
# One order does for a sample whose probability is at most this share of delta. Among such samples, the miss rate is off
# by at most delta/20 in standard deviation, the square root of delta times that probability.
PROBABLE = 1 / 400
# Draws, over all columns, that are worked on at once: 16 MB of float64, of which some ten copies are alive at a time.
BLOCK = 2**21


def betting_upper(sample: Any, delta: float = 0.05, *, limits: tuple[float, float] = (0.0, 1.0)) -> float:
    r"""Return an upper bound on the expectation of bounded draws, computed by betting against larger values.

    .. math:: U = \min\Big\{m \ge \bar z : \max_i \sum_{j \le i}
        \log\big(1 + \min(\lambda_j, \tfrac{3}{4 (1 - m)}) (m - z_j)\big) \ge \log \tfrac{1}{\delta}\Big\},
        \qquad \lambda_i = \sqrt{\frac{2 \log (1/\delta)}{n\, v_{i-1}}}

    for draws in [0, 1]; other draws are scaled to this range. The running variance is
    `v_i = (1/4 + sum_{j<=i} (z_j - mu_j)^2) / (i + 1)`, with the running mean
    `mu_i = (1/2 + sum_{j<=i} z_j) / (i + 1)`.

    Why: to refute that the expectation is m or more, a gambler with capital 1 bets that each draw z_j is below m. The
    stake is the share lambda_j of the capital. Each draw multiplies the capital by `1 + lambda_j (m - z_j)`. If the
    expectation is m or more, the game is not in the gambler's favour, and the capital ever reaches 1/delta with
    probability delta at most (Ville's inequality). So every m for which the capital reaches 1/delta is refuted, and U
    is the least such m. The sum is the logarithm of the capital. lambda_j depends only on the draws before the j-th,
    and no bet may lose more than 3/4 of the capital.

    This bound is the tightest of the package if the variance is small. It depends on the order of the draws, which must
    be that of independent draws: shuffle a sorted sample first, with a new seed for every sample.

    Args:
        sample: independent draws z in their order, shape (n,), array or tensor.
        delta: probability in (0, 1) with which the bound may be wrong.
        limits: the range [a, b] of a draw, known without the sample.

    Returns:
        The upper bound, at most b.

    Raises:
        ValueError: if an argument is outside its range, or the sample outside `limits`.

    Example:
        >>> round(betting_upper([0.0, 0.1, 0.2, 0.05, 0.9, 0.0, 0.3, 0.02, 0.0, 0.6], 0.05), 6)
        0.504957

    Reference: Waudby-Smith and Ramdas (2024), JRSS B 86, the hedged capital process.
    """
    check_delta(delta)
    unit = unit_sample(sample, limits)
    # 48 halvings of [0, 1] leave 4e-15, the rounding of a mean of float64.
    return rescaled(float(_betting_upper_rows(unit[None, :], delta, halvings=48)[0]), limits)


def betting_intervals(columns: FloatArray, delta: float, *, halvings: int = 24) -> tuple[FloatArray, FloatArray]:
    r"""Bound the expectation of each column from below and above; each bound holds with probability 1 - delta.

    Args:
        columns: independent rows of draws in [0, 1], shape (n, m): n draws, m columns.
        delta: probability in (0, 1) with which one bound of one column may be wrong. If all 2 m bounds are to hold at
            once, divide the total probability of failure by 2 m.
        halvings: number of bisection steps. The bounds are at most `2^-halvings` too wide, never too narrow. The
            default, 6e-8, is far below the width of an interval from a million rows, 4e-6 at least.

    Returns:
        Lower and upper bounds, each of shape (m,).

    Raises:
        ValueError: if `delta` is not in (0, 1), or a draw not in [0, 1].

    Example:
        >>> low, high = betting_intervals(np.array([[0.1, 0.9], [0.3, 0.9], [0.2, 0.9], [0.2, 0.9]] * 50), 0.01)
        >>> low.round(3), high.round(3)
        (array([0.184, 0.873]), array([0.227, 0.907]))

    Reference: :func:`betting_upper`.
    """
    check_delta(delta)
    if not (columns.min() >= 0 and columns.max() <= 1):
        got = f"from {columns.min():g} to {columns.max():g}"
        raise ValueError(expected("columns", "draws in [0, 1]", got))
    rows = np.ascontiguousarray(columns.T)
    step = max(1, BLOCK // rows.shape[1])
    blocks = [rows[i : i + step] for i in range(0, rows.shape[0], step)]
    upper = np.concatenate([_betting_upper_rows(block, delta, halvings) for block in blocks])
    lower = np.concatenate([1 - _betting_upper_rows(1 - block, delta, halvings) for block in blocks])
    return lower, upper


def betting_refutes(rows: FloatArray, mean: float, delta: float) -> NDArray[np.bool_]:
    """Return for each of m rows of n draws in [0, 1] whether betting refutes an expectation of `mean` or more.

    Args:
        rows: independent draws in their order, shape (m, n), one row for each test.
        mean: the candidate for the expectation, in [0, 1].
        delta: probability in (0, 1) with which a true candidate may be refuted.

    Returns:
        Truth values, shape (m,).

    Raises:
        ValueError: if `delta` is out of range.

    Example:
        >>> betting_refutes(np.array([[0.1, 0.3] * 50, [0.1, 0.9] * 50]), 0.4, 0.05)
        array([ True, False])

    Reference: :func:`betting_upper`.
    """
    check_delta(delta)
    z = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float64))
    goal = -math.log(delta)
    return np.asarray(_beaten(z, _bets(z, goal), torch.tensor(mean, dtype=z.dtype), goal).squeeze(1).numpy())


def shuffled(rows: FloatArray, content: bytes = b"", turn: int = 0) -> FloatArray:
    r"""Shuffle n draws, or each of m rows of n draws, in a random order that depends only on the values.

    The draws are sorted. Then they are shuffled with a seed, a hash of all draws and of `content`, the rest of the
    sample. So the result does not depend on the order of the draws. If many different samples are possible, the order
    is as good as that of independent draws, since each sample has its own seed. One fixed seed for all samples would
    not do: it can put small draws first in nearly all samples. Of 400 sorted draws of 0 and 1 with mean .15, one of
    twelve fixed seeds failed 91 times of 100 at delta .05. Draws with few different values have few hashes; `content`
    adds more. If few hashes remain possible, several orders must agree, each with its own `turn`: see :func:`n_orders`.
    """
    ordered = np.sort(rows, axis=-1)
    seed = np.frombuffer(hashlib.sha256(cells(ordered).tobytes() + content).digest(), "<u4")
    again = [turn] if turn else []
    for number, row in enumerate(ordered.reshape(-1, ordered.shape[-1])):
        row[:] = row[np.random.default_rng([number, *seed, *again]).permutation(row.size)]
    return ordered


def n_orders(kinds: IntArray, delta: float) -> int:
    r"""Return the number of random orders of a sample; the bound rules out a mean only if every order does.

    With a single order, the bound fails for a share of about delta of the samples, if many different samples are
    possible. If few are possible, this share can be much larger by chance. For instance, a classifier that predicts the
    same probabilities for all examples has only one possible sample for each number of errors. Let n examples have d
    distinct values, which occur c_1, ..., c_d times. The estimated probability of exactly this sample is

    .. math:: \frac{n!}{c_1! \cdots c_d!} \prod_i (c_i / n)^{c_i}

    A mean that is refuted in several orders is also refuted in the first of them. So more orders never fail more often.

    Args:
        kinds: the numbers that describe each example, shape (n, m); examples with equal numbers are of one kind.
        delta: probability with which the bound may be wrong.

    Returns:
        1 if many samples are possible, otherwise `ORDERS`.

    Example:
        >>> n_orders(np.arange(100)[:, None] % 2, 0.05), n_orders(np.arange(100)[:, None], 0.05)
        (8, 1)
    """
    from scipy.special import gammaln

    rows = np.ascontiguousarray(kinds, dtype=np.int64)
    counts = np.unique(rows.view(f"V{8 * rows.shape[1]}"), return_counts=True)[1]
    probability = gammaln(len(rows) + 1) + (counts * np.log(counts / len(rows)) - gammaln(counts + 1)).sum()
    return ORDERS if probability > math.log(PROBABLE * delta) else 1


def cells(values: FloatArray) -> IntArray:
    """Divide the range of each row (last axis) into `CELLS` equal steps; return the index of the step of each number.

    A row whose numbers differ only by rounding, which depends on the machine, becomes zeros.
    """
    low, high = values.min(-1, keepdims=True), values.max(-1, keepdims=True)
    constant = high - low <= ROUNDED * np.maximum(np.abs(low), np.abs(high))
    share = np.where(constant, 0, values - low) / np.where(constant, 1, high - low)
    return np.asarray(np.rint(CELLS * share), dtype=np.int64)


def _betting_upper_rows(rows: FloatArray, delta: float, halvings: int) -> FloatArray:
    """Return the betting bound of each row of draws in [0, 1], shape (m, n), at most `2^-halvings` too large."""
    z = torch.from_numpy(rows)
    goal = -math.log(delta)
    bets = _bets(z, goal)

    low = z.mean(1, keepdim=True)
    high = torch.ones_like(low)
    for _ in range(halvings):
        middle = (low + high) / 2
        hit = _beaten(z, bets, middle, goal)
        high = torch.where(hit, middle, high)
        low = torch.where(hit, low, middle)
    return high.squeeze(1).numpy()


def _beaten(z: torch.Tensor, bets: torch.Tensor, mean: torch.Tensor, goal: float) -> torch.Tensor:
    """Return for each of m rows of draws whether the capital reaches exp(`goal`) against `mean`, shape (m, 1)."""
    stake = torch.minimum(bets, MOST_OF_WEALTH / (1 - mean))
    return torch.log1p(stake * (mean - z)).cumsum(1).amax(1, keepdim=True) >= goal


def _bets(z: torch.Tensor, goal: float) -> torch.Tensor:
    """Return the stakes lambda_i for m rows of n draws, with `goal` = log(1/delta), shape (m, n).

    The i-th stake depends only on the draws before the i-th. Mean and variance start from one imagined draw of 1/2 with
    the variance 1/4, the largest on [0, 1].
    """
    n = z.shape[1]
    count = torch.arange(2, n + 2, dtype=z.dtype)
    mean = (0.5 + z.cumsum(1)) / count
    variance = (0.25 + ((z - mean) ** 2).cumsum(1)) / count
    before = torch.cat([torch.full_like(z[:, :1], 0.25), variance[:, :-1]], 1)
    return torch.sqrt(2 * goal / (n * before))


GRID = 1000  # candidates for the mean: a bound is rounded up to the next thousandth, below what a plot or a table shows
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
    """Return after each draw the least candidate for the mean that betting refutes, among multiples of 1/`GRID`.

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
    for start in range(0, z.size, step := BLOCK // GRID):
        part = slice(start, start + step)
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
    """Return the stake of the bet on each of n draws, with `goal` = log(1/delta); a stake depends on earlier draws."""
    t = np.arange(1, z.size + 1)
    mean = (0.5 + z.cumsum()) / (t + 1)
    variance = (0.25 + ((z - mean) ** 2).cumsum()) / (t + 1)
    before = np.append(0.25, variance[:-1])
    return np.asarray(np.sqrt(2 * goal / (before * t * np.log(t + 1))))
