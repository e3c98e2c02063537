r"""Represent uncertainty sets: all distributions whose expected features differ from tau by at most lambda (eq. 9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce._arrays import FloatArray, IntArray, Matrix, as_array, as_labels, as_matrix, one_hot
from mgce._arrays import with_intercept as append_ones
from mgce._messages import check_choice, expected
from mgce.linear.objective import moments
from mgce.risk.betting import betting_intervals, cells, n_orders, shuffled
from mgce.risk.concentration import check_delta, hoeffding_radius, maurer_pontil_radius

BOUNDS = ("betting", "bernstein", "hoeffding")
HEURISTIC = "heuristic"


@dataclass(frozen=True, eq=False)
class UncertaintySet:
    r"""Uncertainty set: all distributions of (x, y) with expected features near tau, `|E Phi(x, y) - tau| <= lambda`.

    The features of an example are `Phi(x, y) = e_y (x) psi(x)`, of shape (k, d) for k classes and d features: the row
    of its class holds psi(x), the other rows zeros. The distribution of x alone, the *marginal*, is the true one.

    A set made by :meth:`from_samples` contains the distribution of the samples with probability `1 - delta`. A set made
    by :meth:`heuristic` has no guarantee, and `certified` is False.
    """

    tau: FloatArray  # (k, d), the estimated moments; with intercept, the last column is that of the feature 1
    lambda_: FloatArray  # (k, d), how far each may be from the true moment
    bound: str  # the inequality that gave lambda_, or "heuristic"
    delta: float | None  # probability that the set misses the true distribution; None for a heuristic set
    n: int  # samples that it was made from
    intercept: bool  # whether psi ends with the feature 1
    feature_range: tuple[FloatArray, FloatArray] | None  # least and largest of each feature, (d,) each

    def __post_init__(self) -> None:
        check_choice("bound", self.bound, (*BOUNDS, HEURISTIC))
        if (self.bound == HEURISTIC) != (self.delta is None):
            raise ValueError(expected("delta", "None for a heuristic set, and for no other", self.delta))

    @property
    def certified(self) -> bool:
        """Whether the set contains the true distribution with probability at least `1 - delta`."""
        return self.bound != HEURISTIC

    @classmethod
    def from_samples(
        cls,
        features: Any,  # (n, d)
        labels: Any,  # (n,)
        *,
        n_classes: int,
        feature_range: tuple[Any, Any],
        delta: float = 0.05,
        bound: str = "betting",
        intercept: bool = True,
    ) -> UncertaintySet:
        r"""Make a set that contains the distribution of the samples with probability at least 1 - delta.

        .. math:: \lambda_j = d_j \sqrt{\tfrac{\log(2m/\delta)}{2n}} \ \text{(hoeffding)}, \qquad
            \lambda_j = s_j \sqrt{\tfrac{2\log(4m/\delta)}{n}} + \tfrac{7 d_j \log(4m/\delta)}{3(n-1)} \
            \text{(bernstein)}

        for each of the m = k d coordinates j of Phi, with s_j its sample deviation and d_j the width of its range. For
        a feature in [a, b] this width is `max(0, b) - min(0, a)`, since the coordinate is zero in the examples of the
        other classes. With `"betting"`, tau and lambda are the middle and half-width of the betting interval of each
        coordinate, with `delta / (2 m)` for each side. These intervals are by far the tightest, but slower to compute.
        The draws of each coordinate are shuffled first. If they have few different values, they are shuffled in several
        ways, and the interval covers the intervals of all orders.

        Args:
            features: psi, shape (n, d): n independent rows, d features. Dense or sparse.
            labels: integers in 0..k-1, shape (n,).
            n_classes: number k of classes, known without the samples.
            feature_range: lower and upper bounds of the features, numbers or shapes (d,), known without the samples.
                Scaling by the samples' own extremes invalidates the guarantee.
            delta: probability in (0, 1) with which the set may miss the distribution.
            bound: `"betting"`, `"bernstein"` (Maurer and Pontil) or `"hoeffding"`. Betting needs about 100 passes over
                n k d numbers.
            intercept: whether to append a constant feature 1.

        Returns:
            The set; `certified` is True.

        Raises:
            ValueError: if features are outside `feature_range`, or shapes or values do not fit.

        Example:
            >>> x, y = np.array([[0.1], [0.4], [0.6], [0.9]] * 50), [0, 0, 1, 1] * 50
            >>> u = UncertaintySet.from_samples(x, y, n_classes=2, feature_range=(0, 1), bound="hoeffding")
            >>> u.tau.round(3).tolist(), u.lambda_.round(3).tolist(), u.certified
            ([[0.125, 0.5], [0.375, 0.5]], [[0.113, 0.113], [0.113, 0.113]], True)

        Reference: paper, equation (10), corrected twice: the factor 1/sqrt(n) is missing there, and Hoeffding's
        inequality needs the ranges d in place of the deviations s.
        """
        check_delta(delta)
        check_choice("bound", bound, BOUNDS)
        psi = as_matrix(features)
        y = as_labels(labels, psi.shape[0], n_classes)
        low, high = _checked_range(psi, feature_range)
        if intercept:
            psi, low, high = append_ones(psi), np.append(low, 1.0), np.append(high, 1.0)
        if bound == "betting":
            tau, radius = _betting_box(psi, y, n_classes, low, high, delta)
        else:
            tau, std = _mean_and_std(psi, y, n_classes)
            width = np.broadcast_to(np.maximum(high, 0) - np.minimum(low, 0), tau.shape)
            side = delta / (2 * tau.size)
            if bound == "hoeffding":
                radius = width * hoeffding_radius(y.size, side)
            else:
                radius = np.asarray(maurer_pontil_radius(std, y.size, side, width=width))
        return cls(tau, radius, bound, delta, y.size, intercept, (low, high))

    @classmethod
    def heuristic(
        cls, features: Any, labels: Any, *, lambda_0: float = 1e-5, n_classes: int | None = None, intercept: bool = True
    ) -> UncertaintySet:
        r"""Make the set of the paper's experiments, with `lambda = lambda_0 s`: a regulariser without guarantee.

        No inequality says that the true moments are within this lambda of tau. With the paper's
        `lambda_0 = 1e-5` the true distribution was in the set in none of 65 simulated runs. In most of these runs the
        minimax risk was below the true risk.

        Args:
            features: psi, shape (n, d) with n >= 2, dense or sparse.
            labels: integers in 0..k-1, shape (n,).
            lambda_0: factor of the sample deviations s, not negative.
            n_classes: k, by default the largest label plus one.
            intercept: whether to append a constant feature 1.

        Returns:
            The set; `certified` is False.

        Raises:
            ValueError: if shapes or values do not fit together.

        Example:
            >>> u = UncertaintySet.heuristic(np.array([[0.1], [0.4], [0.6], [0.9]]), [0, 0, 1, 1], lambda_0=0.1)
            >>> u.lambda_.round(3).tolist(), u.certified
            ([[0.019, 0.058], [0.045, 0.058]], False)

        Reference: paper, equation (10) and section 5.
        """
        psi = append_ones(as_matrix(features), intercept)
        y = as_labels(labels, psi.shape[0], n_classes)
        if not 0 <= lambda_0 < math.inf:
            raise ValueError(expected("lambda_0", "a number in [0, inf)", lambda_0))
        tau, std = _mean_and_std(psi, y, n_classes or int(y.max()) + 1)
        return cls(tau, lambda_0 * std, HEURISTIC, None, y.size, intercept, None)


def _checked_range(psi: Matrix, feature_range: tuple[Any, Any]) -> tuple[FloatArray, FloatArray]:
    d = psi.shape[1]
    low, high = (np.broadcast_to(as_array(end, "feature_range"), (d,)) for end in feature_range)
    if (low > high).any():
        raise ValueError(expected("feature_range", "a pair of lower and upper bounds", feature_range))
    ends = psi.min(axis=0), psi.max(axis=0)
    least, most = (np.asarray(e.toarray() if hasattr(e, "toarray") else e).reshape(d) for e in ends)
    outside = np.flatnonzero((least < low) | (most > high))
    if outside.size:
        j = outside[0]
        raise ValueError(
            expected("features", "within `feature_range`", f"[{least[j]:g}, {most[j]:g}] in column {j}")
            + f" Its range is [{low[j]:g}, {high[j]:g}]: clip the features, or state the range they have a priori."
        )
    return low, high


def _mean_and_std(psi: Matrix, y: IntArray, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (denominator n - 1) of each entry of Phi(x, y) = e_y psi(x)^T, (k, d)."""
    n = y.size
    if n < 2:
        raise ValueError(expected("labels", "at least 2 samples", n))
    probs, weight = one_hot(y, n_classes), np.full(n, 1 / n)
    mean = moments(psi, probs, weight)
    square = moments(psi.multiply(psi).tocsr() if hasattr(psi, "multiply") else psi**2, probs, weight)
    return mean, np.sqrt(np.maximum(square - mean**2, 0) * n / (n - 1))


def _betting_box(
    psi: Matrix, y: IntArray, n_classes: int, low: FloatArray, high: FloatArray, delta: float
) -> tuple[FloatArray, FloatArray]:
    """Return middle and half-width of a confidence interval, by betting, for the mean of each entry of Phi, (k, d)."""
    bottom = np.minimum(low, 0)
    width = np.maximum(high, 0) - bottom
    scale = np.where(width > 0, width, 1)
    ends = []
    for label in range(n_classes):
        rows = np.zeros(psi.shape)  # row `label` of Phi in every example: psi in those of the class, zeros in others
        mine = psi[y == label]
        rows[y == label] = mine.toarray() if hasattr(mine, "toarray") else mine
        unit, side = ((rows - bottom) / scale).T, delta / (2 * n_classes * psi.shape[1])
        turns = range(n_orders(cells(unit).T, side))
        lowest, highest = zip(*(betting_intervals(shuffled(unit, turn=turn).T, side) for turn in turns), strict=True)
        ends.append((np.min(lowest, axis=0), np.max(highest, axis=0)))
    lower = bottom + width * np.stack([e[0] for e in ends])
    upper = bottom + width * np.stack([e[1] for e in ends])
    return (lower + upper) / 2, (upper - lower) / 2
