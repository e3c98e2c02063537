"""Measure how much annotators agree beyond chance: Cohen's and Fleiss' kappa, and Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from mgce._arrays import FloatArray, IntArray, one_hot
from mgce._messages import check_number
from mgce.labels.consensus import read_labels


class Coefficient(NamedTuple):
    """A coefficient of agreement: 1 for equal labels, 0 for agreement by chance; NaN if all labels are of one class.

    Attributes:
        value: the coefficient of all rows.
        lower: lower end of its interval.
        upper: upper end of its interval.
    """

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Pair:
    """The agreement of two annotators on the rows that both labelled.

    Attributes:
        first: the name of one annotator.
        second: the name of the other.
        n_rows: number of rows that both labelled.
        share: share of these rows with equal labels.
        kappa: Cohen's kappa.
    """

    first: str
    second: str
    n_rows: int
    share: float
    kappa: Coefficient


@dataclass(frozen=True)
class Agreement:
    """How much annotators agree beyond chance.

    Attributes:
        n_rows: number of rows with at least two labels; no other row counts.
        krippendorff_alpha: Krippendorff's alpha.
        fleiss_kappa: Fleiss' kappa; None if rows have different numbers of labels, for which it is not defined.
        by_class: for each class, alpha of the question whether a row is of this class.
        pairs: Cohen's kappa of each two annotators with common rows, the lowest first.
    """

    n_rows: int
    krippendorff_alpha: Coefficient
    fleiss_kappa: Coefficient | None
    by_class: dict[Any, Coefficient]
    pairs: tuple[Pair, ...]


def agreement(labels: Any, *, missing: Any = -1, delta: float = 0.05) -> Agreement:
    r"""Measure how much annotators agree beyond chance.

    .. math:: \alpha = 1 - (N - 1) \frac{N - A}{N^2 - \sum_c n_c^2}, \qquad
        A = \sum_i \sum_c \frac{m_{ic} (m_{ic} - 1)}{m_i - 1}, \qquad
        \kappa = \frac{A/N - \sum_c n_c^2/N^2}{1 - \sum_c n_c^2/N^2}

    Row i has m_i labels, m_ic of them of class c. N and n_c are their sums over the rows with at least two labels.
    In Cohen's kappa of two annotators, the product of their own shares of each class replaces the square. Intervals are
    those of the jackknife over rows.

    Args:
        labels: a matrix or a DataFrame (n, m) with a column for each annotator, as for :func:`find_consensus`.
        missing: a value that stands for no label, beside None and NaN.
        delta: probability that an interval misses, in (0, 1).

    Returns:
        The coefficients of all rows, of each class and of each pair.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> found = agreement([["a", "a"], ["a", "b"], ["b", "b"], ["b", "b"]] * 25)
        >>> [round(one.value, 3) for one in (found.krippendorff_alpha, found.fleiss_kappa, found.pairs[0].kappa)]
        [0.469, 0.467, 0.5]

    Reference: Cohen, A coefficient of agreement for nominal scales, 1960; Fleiss, Measuring nominal scale agreement
    among many raters, 1971; Krippendorff, Computing Krippendorff's alpha-reliability, 2011; Efron and Stein, The
    jackknife estimate of variance, 1981.
    """
    check_number("delta", delta, 0, 1, above=True)
    matrix, names, classes = read_labels(labels, missing, None)
    counts = np.stack([(matrix == c).sum(1) for c in range(len(classes))], axis=1).astype(np.float64)
    counts = counts[counts.sum(1) > 1]
    sizes = counts.sum(1)
    same = len(sizes) > 0 and (sizes == sizes[0]).all()
    by_class = {
        name: _jackknife(_alpha, _sums(np.stack([own, sizes - own], axis=1)), delta)
        for name, own in zip(classes.tolist(), counts.T, strict=True)
    }
    pairs = [
        one
        for a, b in combinations(range(len(names)), 2)
        if (one := _pair(matrix[:, [a, b]], names[a], names[b], delta))
    ]
    return Agreement(
        n_rows=len(counts),
        krippendorff_alpha=_jackknife(_alpha, _sums(counts), delta),
        fleiss_kappa=_jackknife(_fleiss, _sums(counts), delta) if same else None,
        by_class=by_class,
        pairs=tuple(sorted(pairs, key=lambda one: (np.nan_to_num(one.kappa.value, nan=2), one.first, one.second))),
    )


def _sums(counts: FloatArray) -> FloatArray:
    """Return what each row adds to A, and to n_c of each class, shape (n, 1 + k)."""
    agreeing = (counts * (counts - 1)).sum(1, keepdims=True) / (counts.sum(1, keepdims=True) - 1)
    return np.hstack([agreeing, counts])


def _alpha(sums: FloatArray) -> FloatArray:
    equal, n = sums[:, 0], sums[:, 1:]
    total = n.sum(1)
    return np.asarray(1 - (total - 1) * (total - equal) / (total**2 - (n**2).sum(1)))


def _fleiss(sums: FloatArray) -> FloatArray:
    equal, n = sums[:, 0], sums[:, 1:]
    total = n.sum(1)
    chance = (n**2).sum(1) / total**2
    return np.asarray((equal / total - chance) / (1 - chance))


def _cohen(sums: FloatArray) -> FloatArray:
    k = (sums.shape[1] - 1) // 2
    equal, first, second = sums[:, 0], sums[:, 1 : 1 + k], sums[:, 1 + k :]
    total = first.sum(1)
    chance = (first * second).sum(1) / total**2
    return np.asarray((equal / total - chance) / (1 - chance))


def _pair(both: IntArray, first: str, second: str, delta: float) -> Pair | None:
    both = both[(both >= 0).all(1)]
    if not len(both):
        return None
    known, index = np.unique(both, return_inverse=True)
    index = index.reshape(both.shape)
    equal = (both[:, 0] == both[:, 1]).astype(np.float64)
    sums = np.hstack([equal[:, None], *(one_hot(index[:, place], len(known)) for place in (0, 1))])
    return Pair(first, second, len(both), float(equal.mean()), _jackknife(_cohen, sums, delta))


def _jackknife(coefficient: Callable[[FloatArray], FloatArray], sums: FloatArray, delta: float) -> Coefficient:
    """Return a coefficient of the sums over all rows, with its jackknife interval, from the sums without each row."""
    n, total = len(sums), sums.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):  # one class: nothing is beyond chance
        value = float(coefficient(total[None])[0])
        without = np.sort(coefficient(total - sums))  # so that no order of rows changes a digit
    if n < 2 or not np.isfinite(value) or not np.isfinite(without).all():
        return Coefficient(value if np.isfinite(value) else float("nan"), -1.0, 1.0)
    error = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    width = float(stats.t.ppf(1 - delta / 2, n - 1) * error)
    return Coefficient(value, max(value - width, -1.0), min(value + width, 1.0))
