r"""Estimate the share of wrong labels: an interval where the data support its assumption, elsewhere a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import beta, binomtest, rankdata

from mgce._arrays import FloatArray, IntArray, as_labels, as_probs
from mgce._validation import expected, expected_share

ASSUMPTIONS = (
    "wrong labels are equally common on all rows and in all classes",
    "classes do not overlap on the rows where the model is surest",
)
UNORDERED = "the model is equally sure of too many rows to put them in an order"
OVERLAP = "hard rows and wrong labels look alike"
UPPER_ASSUMPTION = "on every row the right label is at least as likely as any one wrong label"
# Rows in the order of confidence are counted in this many parts, each of at least ten rows.
PARTS, PART_ROWS = 50, 10
LEAST_ROWS = 100  # of ten parts: fewer hardly show a curve
# Rows that tie have one place on the curve of errors. Their places count as many as equally large groups would with the
# same probability that two rows tie. With right labels, trees and nearest neighbours got false intervals at up to 18
# places, and none from there on. The forests of `mgce_lab.studies.noise_share` have about as many as rows.
LEAST_PLACES = 20
# More rows count like this many. The curve of errors is a model, which was compared with right labels at up to 2,000
# rows: its error does not shrink with more of them.
MOST_ROWS = 2_000
# The prior of the curve of errors: mean and standard deviation of the logarithm of its slope and of its middle. They
# are those of a forest's errors against right labels on eight tables: with right labels, with 20 and 40 % symmetric
# noise and 30 % pair noise. `mgce_lab.studies.noise_share` names the tables.
LOG_SLOPE, MIDDLE = (1.4, 0.6), (0.03, 0.12)
STEPS = 13  # values of either, within this many standard deviations of the mean
SPREAD = 2.5
# Rates that are compared: up to MOST of the one at which labels say nothing, 1 - 1/k, and up to five standard errors
# above the disagreement, which is at least the rate. Their steps are a third of a usual standard error or finer.
RATES, MOST, ERRORS = 81, 0.95, 5
# "Does not overlap where the model is surest": its curve of errors ends at PURE or below, with a probability of SURE or
# more given the data. On the tables that this was chosen on, 32 of 35 intervals under symmetric and pair noise hold
# the truth. With SURE at 0.83 40 of 44 do, and are 10 points wide in place of 7; with 0.97 29 of 31.
PURE, SURE = 0.1, 0.95
LEAST_SHARE = 0.01  # on tables with right labels, a forest's surest rows are wrong in less than this
SAME = 1e-12  # confidences that differ by no more are tied


@dataclass(frozen=True)
class NoiseShare:
    """The share of wrong labels among n rows, as an interval or as a range from 0.

    Attributes:
        share: the estimate; None in a range.
        lower, upper: ends of the interval, or 0 and an upper bound.
        rate_lower, rate_upper: ends for the rate at which labels like these are wrong, rather than for these labels.
        supported: whether the data support the assumptions of an interval; False for a range.
        reason: why there is only a range, as a clause; "" for an interval.
        disagreement: share of rows whose given label is not the most probable class.
        n: number of rows.
        delta: nominal probability with which the truth is outside.
    """

    share: float | None
    lower: float
    upper: float
    rate_lower: float
    rate_upper: float
    supported: bool
    reason: str
    disagreement: float
    n: int
    delta: float

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed, as clauses that complete "This assumes that"."""
        return ASSUMPTIONS if self.supported else (UPPER_ASSUMPTION,)

    def as_range(self, reason: str) -> NoiseShare:
        """Return the range from 0 instead of an interval whose assumption the data refute, for a reason as a clause."""
        if not self.supported:
            return self
        differing = round(self.disagreement * self.n)
        return _range(reason, _most(differing, self.n, self.delta), self.disagreement, self.n, self.delta)

    def width_after(self, checked: int) -> float:
        """Return the width of the interval that this many rows would give, drawn at random and checked.

        The width is that of a Clopper-Pearson interval, if as many checked labels are wrong as the upper end says, or
        half of them where that is more.
        """
        wrong = round(checked * min(self.upper, 0.5))
        ends = binomtest(wrong, checked).proportion_ci(1 - self.delta)
        return float(ends.high - ends.low)


def noise_share(target: Any, probs: Any, *, delta: float = 0.05) -> NoiseShare:
    r"""Estimate the share of wrong labels from class probabilities of rows that the model was not fitted to.

    The model disagrees with a label because the label is wrong, or because the model errs. Its errors get rarer with
    its confidence; wrong labels do not, if they are as common on all rows. With the rows ranked by confidence, u from 0
    to 1, a label differs from the most probable class with probability

    .. math:: \eta + \left(1 - \eta - \frac{\eta}{k - 1}\right) e(u), \qquad e(u) = \frac{1}{1 + \exp(s (u - m))}.

    :math:`\eta` is the rate of wrong labels, e the curve of the model's errors. The prior of s and m are curves of
    forests on tables whose right labels are known. By Bayes' rule each row's label is then wrong with some probability,
    and the ends are quantiles of the mean over the rows.

    The interval is nominal: it rests on the form of the curve. It is given if the data support its assumptions:

    - the confidence puts rows in an order: hard predictions and trees are equally sure of most rows;
    - wrong labels explain at least half of the disagreements, and one row in a hundred;
    - given the data, :math:`e(1) \le 0.1` with a probability of at least 0.95;
    - rows ranked within each predicted class give an estimate that lies in the interval too. It would differ if labels
      were wrong more often in some classes.

    Otherwise hard rows, and labels that are wrong on hard rows, look the same. Then the range is from 0 to an upper
    bound on the disagreement. The upper bound holds if no wrong label is likelier than the right one on any row:
    then no model agrees with given labels more often than right labels do.

    Args:
        target: given labels in 0..k-1, shape (n,), array or tensor.
        probs: class probabilities, shape (n, k), each row's by a model that was not fitted to it.
        delta: nominal probability in (0, 1) with which the truth is outside.

    Returns:
        The interval or range.

    Raises:
        ValueError: if shapes or values do not fit together, or there are fewer than two classes.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> score = rng.normal(size=2000) * 4
        >>> right = (rng.random(2000) < expit(score)).astype(int)
        >>> given = np.where(rng.random(2000) < 0.2, 1 - right, right)
        >>> found = noise_share(given, np.stack([expit(-score), expit(score)], 1))
        >>> found.supported, round(found.lower, 2), round(found.upper, 2)
        (True, 0.16, 0.24)

    Reference: Wichmann and Hill (2001), The psychometric function, Perception & Psychophysics 63, whose lapse rate
    :math:`\eta` is; Scott (2015), A rate of convergence for mixture proportion estimation, AISTATS, for the assumption.
    """
    if not 0 < delta < 1:
        raise ValueError(expected_share("delta", "in (0, 1)", delta))
    p = as_probs(probs)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(expected("probs", "of shape (n, k) with k of at least 2", p.shape))
    y = as_labels(target, len(p), p.shape[1], "target")
    return share_of_predictions(y, p.argmax(1), p.max(1), p.shape[1], delta=delta)


def share_range(target: IntArray, predicted: IntArray, *, delta: float = 0.05) -> NoiseShare:
    """Return the range from 0 to an upper bound on how often a label differs from the prediction.

    The bound holds if no wrong label is likelier than the right one on any row: see :func:`noise_share`.

    Args:
        target: given labels, shape (n,).
        predicted: predicted classes, shape (n,), each by a model that was not fitted to the row.
        delta: nominal probability with which the truth is above.

    Example:
        >>> found = share_range(np.repeat([0, 1], 50), np.repeat([0, 1], [60, 40]))  # 10 of 100 labels differ
        >>> found.lower, round(found.upper, 2)
        (0.0, 0.16)
    """
    differing = int((target != predicted).sum())
    return _range(OVERLAP, _most(differing, len(target), delta), differing / len(target), len(target), delta)


def share_of_predictions(
    target: IntArray, predicted: IntArray, confidence: FloatArray, n_classes: int, *, delta: float = 0.05
) -> NoiseShare:
    """Estimate the share of wrong labels as :func:`noise_share` does, from predictions ranked by confidence.

    Args:
        target: given labels in 0..n_classes-1, shape (n,).
        predicted: predicted classes, shape (n,), each by a model that was not fitted to the row.
        confidence: any number that grows with the confidence of a prediction, shape (n,).
        n_classes: number of classes.
        delta: nominal probability in (0, 1) with which the truth is outside.
    """
    n, top = len(target), np.round(confidence / SAME) * SAME
    differs = predicted != target
    upper = _most(int(differs.sum()), n, delta)
    disagreement = float(differs.mean())
    if n < LEAST_ROWS:
        return _range(f"there are fewer than {LEAST_ROWS} rows", upper, disagreement, n, delta)
    if _places(top) < LEAST_PLACES:
        return _range(UNORDERED, upper, disagreement, n, delta)
    fit = _fitted(differs, top, n_classes)
    low, share, high = fit.quantiles(delta)
    reason = ""
    if low < LEAST_SHARE or share < disagreement / 2:
        reason = "most disagreements are where the model is unsure, and there hard rows look like wrong labels"
    elif fit.pure < SURE:
        reason = "the model seems to err on its surest rows too"
    elif not low <= _fitted(differs, _within(predicted, top), n_classes).quantiles(delta)[1] <= high:
        reason = "labels seem to be wrong more often in some classes than in others"
    if reason:
        return _range(reason, upper, disagreement, n, delta)
    ends = fit.rate_quantiles(delta)
    return NoiseShare(share, low, min(high, upper), *ends, True, "", disagreement, n, delta)


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The posterior of rates and curves, and what each of them makes of the share among the rows."""

    rates: FloatArray  # (R,)
    weight: FloatArray  # (R, S, S), sums to 1
    mean: FloatArray  # (R, S, S), of the share of wrong labels
    spread: FloatArray  # (R, S, S), its standard deviation
    pure: float  # probability that the model errs on the surest row with probability PURE at most

    def quantiles(self, delta: float) -> tuple[float, float, float]:
        """Return the lower end, the median and the upper end of the share among the rows."""
        kept = self.weight > self.weight.max() * 1e-6
        weight, mean, spread = self.weight[kept] / self.weight[kept].sum(), self.mean[kept], self.spread[kept]

        def quantile(level: float) -> float:
            root = brentq(lambda x: float(weight @ ndtr((x - mean) / spread)) - level, -1, 2, xtol=1e-6)
            return float(min(1, max(0, root)))

        return quantile(delta / 2), quantile(0.5), quantile(1 - delta / 2)

    def rate_quantiles(self, delta: float) -> tuple[float, float]:
        """Return both ends for the rate."""
        below = np.cumsum(self.weight.sum((1, 2)))
        low, high = np.interp([delta / 2, 1 - delta / 2], below, self.rates)
        return float(low), float(high)


def _fitted(differs: Any, confidence: FloatArray, k: int) -> _Posterior:
    """Return the posterior, by the rows' disagreements in the order of their confidence."""
    rows, wrong, place = _parts(differs, confidence)
    n = rows.sum()
    steps = np.linspace(-SPREAD, SPREAD, STEPS)
    slope, middle = np.exp(LOG_SLOPE[0] + LOG_SLOPE[1] * steps)[:, None], MIDDLE[0] + MIDDLE[1] * steps
    prior = np.exp(-(steps[:, None] ** 2 + steps**2) / 2)
    pure = expit(-slope * (1 - middle)) <= PURE
    errs = expit(-slope[..., None] * (place - middle[:, None]))  # (S, S, parts)
    most = wrong.sum() / n + ERRORS * 0.5 / np.sqrt(min(n, MOST_ROWS))
    rates = np.linspace(0, min(MOST * (k - 1) / k, most), RATES)
    likelihood, mean, variance = (np.empty((RATES, STEPS, STEPS)) for _ in range(3))
    for index, rate in enumerate(rates):
        other = rate / (k - 1)  # probability that a label is one given wrong class
        differ = np.clip(rate + (1 - rate - other) * errs, 1e-12, 1 - 1e-12)
        likelihood[index] = np.log(differ) @ wrong + np.log1p(-differ) @ (rows - wrong)
        of_differing, of_agreeing = (rate - other * errs) / differ, other * errs / (1 - differ)
        mean[index] = (of_differing @ wrong + of_agreeing @ (rows - wrong)) / n
        variances = of_differing * (1 - of_differing), of_agreeing * (1 - of_agreeing)
        variance[index] = (variances[0] @ wrong + variances[1] @ (rows - wrong)) / n**2
    every = prior * np.exp((likelihood - likelihood.max()) * min(1, MOST_ROWS / n))
    weight = every / every.sum()
    spread = np.sqrt(variance + 0.25 / n**2)  # a share is a whole number of rows
    return _Posterior(rates, weight, mean, spread, float(weight.sum(0)[pure].sum()))


def _parts(differs: Any, confidence: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for parts of the rows, the least sure first: rows, disagreements, and the middle rank u.

    Each of tied rows counts with their mean disagreement, so that the order of the rows does not matter.
    """
    n = len(differs)
    _, group, size = np.unique(confidence, return_inverse=True, return_counts=True)
    tied = np.bincount(group, differs) / size
    edges = np.linspace(0, n, min(PARTS, n // PART_ROWS) + 1).round().astype(np.int64)
    wrong = np.add.reduceat(tied[np.sort(group)], edges[:-1])
    return np.diff(edges).astype(float), wrong, (edges[:-1] + edges[1:]) / 2 / n


def _places(confidence: FloatArray) -> float:
    """Return the number of places on the curve of errors: one over the probability that two rows tie."""
    size = np.unique(confidence, return_counts=True)[1]
    return float(len(confidence) ** 2 / (size**2).sum())


def _within(predicted: IntArray, confidence: FloatArray) -> FloatArray:
    """Return the rank of each row's confidence among the rows of the same predicted class, in (0, 1)."""
    ranks = np.empty(len(predicted))
    for label in np.unique(predicted):
        rows = np.flatnonzero(predicted == label)
        ranks[rows] = (rankdata(confidence[rows]) - 0.5) / len(rows)
    return ranks


def _most(differing: int, n: int, delta: float) -> float:
    """Return an upper bound of Clopper and Pearson for the probability that a label differs from the prediction."""
    return float(beta.ppf(1 - delta, differing + 1, n - differing)) if differing < n else 1.0


def _range(reason: str, upper: float, disagreement: float, n: int, delta: float) -> NoiseShare:
    return NoiseShare(None, 0.0, upper, 0.0, upper, False, reason, disagreement, n, delta)
