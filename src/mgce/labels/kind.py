r"""Tell from predictions of held-out rows whether wrong labels depend on the class, as far as the rows can tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom, chi2

from mgce._arrays import FloatArray, IntArray

CLASS_DEPENDENT, UNKNOWN = "class-dependent", "unknown"
# The surest rows of each predicted class. Wrong labels are as common there as elsewhere, if they depend on the class
# alone; the network's own errors are rarer.
SURE = 0.5
# Of these rows, the share that may belong to one other class, as errors of the network: at least `ERRS`, and `FALL`
# times the share of the less sure rows with that label, by its quantile `QUANTILE`. The curves of a forest's
# errors against right labels, on eight tables, fall to a fifth, and nearly all of them to less than a half. The
# quantile is above the median, since the share is estimated from few rows: with the median, simulated networks with
# 60 % of errors were called class-dependent under symmetric noise in 15 % of the samples, with this quantile in 5 %.
ERRS, FALL, QUANTILE = 0.1, 0.5, 0.75
LEVEL = 0.05
RATE_LEVEL = 0.01  # of this, for the upper bound of the rate of wrong labels


@dataclass(frozen=True)
class NoiseKind:
    """Which kind of noise n held-out rows show.

    Attributes:
        kind: `CLASS_DEPENDENT` or `UNKNOWN`.
        pairs: classes that are often given one other label, with this label; empty unless class-dependent.
        p_value: of the test that no class is, against the allowance for errors of the network.
    """

    kind: str
    pairs: tuple[tuple[int, int], ...]
    p_value: float


def kind_of_predictions(target: IntArray, predicted: IntArray, confidence: FloatArray, n_classes: int) -> NoiseKind:
    r"""Test whether rows of some class are given one other label more often than by symmetric noise.

    The less sure half of the rows of each predicted class c names the label j that is given most often besides c. The
    surer half counts how often j is given. Let wrong labels be symmetric with the rate :math:`\eta`, and let at most a
    share e of the surer half belong to the class j. Then j is given with a probability of at most

    .. math:: s + e (1 - \eta - s), \qquad s = \frac{\eta}{k - 1}.

    The test takes the larger value of this for the rate 0 and for an upper bound of the rate. The share e is at least
    0.1, and half of the share of j in the less sure half: a network errs less often where it is surer. The tail
    probabilities of all classes are combined by Fisher's method, and by Bonferroni's. The smaller result counts twice.
    So symmetric noise is called class-dependent with a nominal probability of at most 0.05.

    Args:
        target: given labels in 0..n_classes-1, shape (n,).
        predicted: predicted classes, shape (n,), each by a model that was not fitted to the row.
        confidence: any number that grows with the confidence of a prediction, shape (n,).
        n_classes: number k of classes.

    Returns:
        The kind, with the pairs of classes that show it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> right, confidence = rng.integers(0, 5, 600), rng.random(600)
        >>> given = np.where((right == 2) & (rng.random(600) < 0.4), 3, right)
        >>> kind_of_predictions(given, right, confidence, 5).pairs
        ((2, 3),)

    Reference: Fisher, Statistical methods for research workers, 4th edition, 1932, section 21.1.
    """
    counts = _counts(target, predicted, confidence, n_classes)
    if not len(counts):
        return NoiseKind(UNKNOWN, (), 1.0)
    unsure, alike, sure, wrong, together = counts.T[2:]
    rate = _upper(wrong.sum(), sure.sum(), RATE_LEVEL)
    tails = np.asarray(binom.sf(together - 1, sure, _probability(unsure, alike, rate, n_classes)))
    fisher = float(chi2.sf(-2 * np.log(np.maximum(tails, 1e-300)).sum(), 2 * len(tails)))
    p_value = min(1.0, 2 * min(fisher, len(tails) * float(tails.min())))
    if p_value < LEVEL - RATE_LEVEL:
        pairs = tuple((int(c), int(j)) for (c, j), tail in zip(counts[:, :2], tails, strict=True) if tail < LEVEL)
        return NoiseKind(CLASS_DEPENDENT, pairs, p_value)
    return NoiseKind(UNKNOWN, (), p_value)


def _counts(target: IntArray, predicted: IntArray, confidence: FloatArray, k: int) -> IntArray:
    """Return a row of counts for each predicted class that has another label among its less sure rows, shape (m, 7).

    Rows that tie with a less sure row are less sure too, so that the order of the rows does not matter. A class whose
    rows all tie is left out.

    The columns are the class c, the label j, the less sure rows, those of them with the label j, the surer rows, those
    of them with another label than c, and those with the label j.
    """
    found = []
    for c in range(k):
        own = np.flatnonzero(predicted == c)
        own = own[np.argsort(confidence[own], kind="stable")]
        start = len(own) - round(SURE * len(own))
        start = int(np.searchsorted(confidence[own], confidence[own[start - 1 : start]], side="right").max(initial=0))
        unsure, sure = (target[part] for part in np.split(own, [start]))
        given, others = (np.bincount(part[part != c], minlength=k) for part in (unsure, sure))
        if given.any() and sure.size:
            j = int(given.argmax())
            found.append([c, j, len(unsure), given[j], len(sure), others.sum(), others[j]])
    return np.array(found, dtype=np.int64)


def _probability(unsure: IntArray, alike: IntArray, rate: float, k: int) -> FloatArray:
    """Return for each class the largest probability of the label j among its surer rows, under symmetric noise."""
    errs = np.maximum(ERRS, FALL * np.asarray(beta.ppf(QUANTILE, alike + 1, np.maximum(unsure - alike, 0.5))))
    other = rate / (k - 1)
    # Linear in the rate, so the largest value is that of the rate 0, or that of its upper bound.
    return np.maximum(errs, other + errs * max(0.0, 1 - rate - other))


def _upper(count: int, n: int, level: float) -> float:
    """Return the upper bound of Clopper and Pearson for a probability, which fails with the probability `level`."""
    return float(beta.ppf(1 - level, count + 1, n - count)) if count < n else 1.0
