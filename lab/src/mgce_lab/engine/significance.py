"""Test which means over a few seeds differ: tests of two means, and of all pairs of several methods."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

LEVEL = 0.05  # of every test here: the probability of a finding where there is nothing to be found


class Tally(NamedTuple):
    """For one method, the numbers of other methods against which it wins, ties and loses."""

    wins: int
    ties: int
    losses: int


class Summary(NamedTuple):
    """Mean and sample standard deviation (ddof = 1; NaN for one number) of `size` numbers."""

    mean: float
    std: float
    size: int


class Difference(NamedTuple):
    """The difference of two means, the two-sided p-value for no difference, and a confidence interval.

    The confidence level of the interval is 1 - `LEVEL`.
    """

    value: float
    p: float
    low: float
    high: float


def difference_of_means(first: Summary, second: Summary) -> Difference:
    r"""Compare the means of two independent samples by Welch's test, given only their summaries.

    .. math:: t = \frac{m_1 - m_2}{\sqrt{s_1^2 / n_1 + s_2^2 / n_2}}

    with Welch's degrees of freedom. If one sample has a single number, its standard deviation is assumed to be that of
    the other sample: then :math:`t = (m_1 - m_2) / (s_2 \sqrt{1 + 1 / n_2})` with :math:`n_2 - 1` degrees of freedom.
    If both samples have a single number, p is 1 and the interval is infinite.

    Example:
        >>> difference = difference_of_means(Summary(31.72, 5.05, 5), Summary(40.03, 0.33, 5))
        >>> round(difference.value, 2), round(difference.p, 3), round(difference.low, 1), round(difference.high, 1)
        (-8.31, 0.021, -14.6, -2.0)

    Reference: Welch, "The generalization of 'Student's' problem", Biometrika 1947.
    """
    value, (a, b) = first.mean - second.mean, (first, second)
    if a.size == b.size == 1:
        return Difference(value, 1.0, -math.inf, math.inf)
    if min(a.size, b.size) == 1:
        std = b.std if a.size == 1 else a.std
        return _student(value, std * math.sqrt(1 / a.size + 1 / b.size), max(a.size, b.size) - 1)
    shares = [sample.std**2 / sample.size for sample in (a, b)]
    total = sum(shares)
    below = sum(share**2 / (sample.size - 1) for share, sample in zip(shares, (a, b), strict=True))
    return _student(value, math.sqrt(total), total**2 / below if below > 0 else 1.0)


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare the means of two paired samples by Student's paired t-test.

    Numbers at the same index form a pair, for example two networks of one seed, which share the split, the noise, the
    initial weights and the order of the rows. For a single pair, p is 1 and the interval is infinite.

    Example:
        >>> round(paired_difference([0.90, 0.91, 0.92], [0.88, 0.90, 0.89]).p, 4)
        0.0742

    Reference: Student, "The probable error of a mean", Biometrika 1908.
    """
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    value = math.fsum(gaps) / len(gaps)
    if len(gaps) < 2:
        return Difference(value, 1.0, -math.inf, math.inf)
    spread = math.fsum((gap - value) ** 2 for gap in gaps) / (len(gaps) - 1)
    return _student(value, math.sqrt(spread / len(gaps)), len(gaps) - 1)


def _student(value: float, error: float, freedom: float) -> Difference:
    """Return the t-test and the interval for a difference with this standard error and these degrees of freedom."""
    from scipy import stats

    if error == 0:
        return Difference(value, float(value == 0), value, value)
    half = float(stats.t.isf(LEVEL / 2, freedom)) * error
    return Difference(value, float(2 * stats.t.sf(abs(value) / error, freedom)), value - half, value + half)


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of Welch's t-test for equal means; 1 if a sample has only one number.

    Example:
        >>> round(welch([0.90, 0.91, 0.92], [0.94, 0.95, 0.97]), 4)
        0.0199

    Reference: Welch, "The generalization of 'Student's' problem", Biometrika 1947.
    """
    if min(len(first), len(second)) < 2:
        return 1.0
    if len(set(first)) == len(set(second)) == 1:  # equal, or surely not, and means of them differ by rounding
        return float(first[0] == second[0])
    a, b = (Summary(statistics.fmean(sample), statistics.stdev(sample), len(sample)) for sample in (first, second))
    return difference_of_means(a, b).p


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected by Holm's method for the number of tests.

    If all results with corrected p-values up to a level are called significant, the probability of any false one is at
    most the level.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]

    Reference: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    corrected = [math.nan] * len(p_values)
    largest = 0.0
    for place, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[number]))
        corrected[number] = largest
    return corrected


def tallies(samples: Mapping[str, Sequence[float]], level: float = LEVEL) -> dict[str, Tally]:
    """Compare every method with every other by Welch's test, corrected by Holm's method for the number of pairs.

    A method with a single number cannot be tested. Such a method is not compared, and not counted in the correction,
    where it would only weaken the other tests.

    Args:
        samples: the numbers of each method, one for each seed; larger is better.
        level: probability of at least one win or loss if all methods are equally good.

    Example:
        >>> tallies({"a": [0.90, 0.91, 0.92], "b": [0.97, 0.98, 0.99], "c": [0.96, 0.98, 0.99]})["b"]
        Tally(wins=1, ties=1, losses=0)
    """
    pairs = list(combinations((name for name, sample in samples.items() if len(sample) > 1), 2))
    corrected = holm([welch(samples[a], samples[b]) for a, b in pairs])
    scores = {name: [0, 0, 0] for name in samples}
    for (a, b), p in zip(pairs, corrected, strict=True):
        better = math.fsum(samples[a]) / len(samples[a]) > math.fsum(samples[b]) / len(samples[b])
        for name, won in ((a, better), (b, not better)):
            scores[name][1 if p > level else 0 if won else 2] += 1
    return {name: Tally(*score) for name, score in scores.items()}
