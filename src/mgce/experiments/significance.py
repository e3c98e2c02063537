"""Which of several methods are better than which, as far as a few seeds can say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

LEVEL = 0.05  # the probability that a table of methods that are all alike names a winner


class Tally(NamedTuple):
    """Against how many others a method wins, ties and loses."""

    wins: int
    ties: int
    losses: int


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Give the two-sided p-value of Welch's t-test, that two samples have the same mean; 1 for a sample of one number.

    Example:
        >>> round(welch([0.90, 0.91, 0.92], [0.94, 0.95, 0.97]), 4)
        0.0199

    Reference: Welch, "The generalization of 'Student's' problem", Biometrika 1947.
    """
    from scipy import stats

    if min(len(first), len(second)) < 2:
        return 1.0
    if len(set(first)) == len(set(second)) == 1:  # without spread there is no t: equal, or surely not
        return 1.0 if first[0] == second[0] else 0.0
    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Give the p-values corrected for their number: those at most a level err in any of them at most so often.

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

    Args:
        samples: numbers of each method, one for each seed; more is better.
        level: probability that there is a win or a loss among methods that are all alike.

    Example:
        >>> tallies({"a": [0.90, 0.91, 0.92], "b": [0.97, 0.98, 0.99], "c": [0.96, 0.98, 0.99]})["b"]
        Tally(wins=1, ties=1, losses=0)
    """
    pairs = list(combinations(samples, 2))
    corrected = holm([welch(samples[a], samples[b]) for a, b in pairs])
    scores = {name: [0, 0, 0] for name in samples}
    for (a, b), p in zip(pairs, corrected, strict=True):
        better = math.fsum(samples[a]) / len(samples[a]) > math.fsum(samples[b]) / len(samples[b])
        for name, won in ((a, better), (b, not better)):
            scores[name][1 if p > level else 0 if won else 2] += 1
    return {name: Tally(*score) for name, score in scores.items()}
