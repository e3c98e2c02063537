"""Tell how many labels are wrong at most, and whether wrong labels depend on the class, as far as rows can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta, binom, chi2

from mgce._arrays import FloatArray, IntArray, as_labels, as_probs
from mgce._messages import expected, expected_share

ASSUMPTION = "on every row the right label is at least as likely as any one wrong label"


@dataclass(frozen=True)
class NoiseShare:
    """An upper bound on the share of wrong labels among n rows. The lower end is 0, and there is no estimate.

    Hard rows and wrong labels look alike: where classes overlap, a model that learnt right labels disagrees with right
    labels as often. An interval by a fitted curve of errors was given up: on the tables of the suite it held less often
    than its confidence.

    Attributes:
        upper: the bound. It holds with a probability of 1 - `delta`, if :data:`ASSUMPTION` does.
        disagreement: share of rows whose given label is not the predicted class.
        n: number of rows.
        delta: probability in (0, 1) with which the truth may be above.
    """

    upper: float
    disagreement: float
    n: int
    delta: float


def noise_share(target: Any, probs: Any, *, delta: float = 0.05) -> NoiseShare:
    r"""Bound the share of wrong labels, from class probabilities of rows that the model was not fitted to.

    .. math:: \mathrm{BetaInv}(1 - \delta;\ d + 1, n - d)

    d of n labels differ from the most probable class. If no wrong label is likelier than the right one on any row, no
    model agrees with given labels more often than right labels do. So the share of wrong labels is at most the
    probability that a label differs from the prediction, which the bound of Clopper and Pearson limits.

    Args:
        target: given labels in 0..k-1, shape (n,), array or tensor.
        probs: class probabilities, shape (n, k), each row's by a model that was not fitted to it.
        delta: probability in (0, 1) with which the truth may be above.

    Raises:
        ValueError: if shapes or values do not fit together, or there are fewer than two classes.

    Example:
        >>> import numpy as np
        >>> found = noise_share(np.repeat([0, 1], 50), np.eye(2)[np.repeat([0, 1], [60, 40])])  # 10 of 100 differ
        >>> round(found.upper, 2)
        0.16

    Reference: Clopper and Pearson (1934), The use of confidence or fiducial limits, Biometrika 26.
    """
    if not 0 < delta < 1:
        raise ValueError(expected_share("delta", "in (0, 1)", delta))
    p = as_probs(probs)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(expected("probs", "of shape (n, k) with k of at least 2", p.shape))
    return share_of_predictions(as_labels(target, len(p), p.shape[1], "target"), p.argmax(1), delta=delta)


def share_of_predictions(target: IntArray, predicted: IntArray, *, delta: float = 0.05) -> NoiseShare:
    """Bound the share of wrong labels as :func:`noise_share` does, from predicted classes, shape (n,)."""
    return bounded_share(int((target != predicted).sum()), len(target), delta=delta)


def bounded_share(differing: int, n: int, *, delta: float = 0.05) -> NoiseShare:
    """Bound the share of wrong labels as :func:`noise_share` does, if `differing` of n labels are not as predicted."""
    return NoiseShare(_upper(differing, n, delta), differing / n, n, delta)


CLASS_DEPENDENT, UNKNOWN = "class-dependent", "unknown"


class KindTest(NamedTuple):
    """The settings of the test whether wrong labels depend on the class.

    Attributes:
        sure: share of the surest rows of each predicted class. Wrong labels are as common there as elsewhere, if they
            depend on the class alone; the network's own errors are rarer.
        errs: least allowance for errors of the network: the share of these rows that may belong to one other class.
        fall: the allowance is no less than this factor times the share of the less sure rows with that label. On eight
            tables, the curves of a forest's errors against right labels fall to a fifth, and nearly all of them to less
            than a half.
        quantile: of the posterior of that share, above the median, since the share is estimated from few rows. With the
            median, simulated networks with 60 % of errors were called class-dependent under symmetric noise in 15 % of
            the samples, with this quantile in 5 %.
        level: level of the test.
        rate_level: part of `level` for the upper bound of the rate of wrong labels.
    """

    sure: float = 0.5
    errs: float = 0.1
    fall: float = 0.5
    quantile: float = 0.75
    level: float = 0.05
    rate_level: float = 0.01


KIND_TEST = KindTest()


@dataclass(frozen=True)
class NoiseKind:
    """Which kind of noise n held-out rows show.

    Attributes:
        kind: `CLASS_DEPENDENT` or `UNKNOWN`.
        pairs: classes that are often given one other label, with this label; empty unless class-dependent.
        p_value: p-value of the hypothesis that symmetric noise and errors of the network explain all classes.
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

    The test uses the larger of two values of this bound: for the rate 0, and for an upper bound of the rate. The share
    e is the larger of 0.1 and half of an upper estimate of the share of j in the less sure half: a network errs less
    often where it is surer. The tail probabilities of all classes are combined by Fisher's method, and by Bonferroni's.
    The smaller p-value is doubled. So symmetric noise is called class-dependent with a nominal probability of at most
    0.05.

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
    rate = _upper(wrong.sum(), sure.sum(), KIND_TEST.rate_level)
    tails = np.asarray(binom.sf(together - 1, sure, _probability(unsure, alike, rate, n_classes)))
    fisher = float(chi2.sf(-2 * np.log(np.maximum(tails, 1e-300)).sum(), 2 * len(tails)))
    p_value = min(1.0, 2 * min(fisher, len(tails) * float(tails.min())))
    if p_value < KIND_TEST.level - KIND_TEST.rate_level:
        pairs = tuple((int(c), int(j)) for c, j in counts[tails < KIND_TEST.level, :2])
        return NoiseKind(CLASS_DEPENDENT, pairs, p_value)
    return NoiseKind(UNKNOWN, (), p_value)


def _counts(target: IntArray, predicted: IntArray, confidence: FloatArray, k: int) -> IntArray:
    """Return a row of counts for each predicted class that has another label among its less sure rows, shape (m, 7).

    Rows that tie with a less sure row are less sure too, so that the order of the rows does not matter. A class whose
    rows all tie is left out.

    The columns are the class c, the label j, and five numbers of rows: less sure rows, less sure rows with the label j,
    surer rows, surer rows with another label than c, and surer rows with the label j.
    """
    found = []
    for c in range(k):
        own = np.flatnonzero(predicted == c)
        own = own[np.argsort(confidence[own], kind="stable")]
        start = len(own) - round(KIND_TEST.sure * len(own))
        start = int(np.searchsorted(confidence[own], confidence[own[start - 1 : start]], side="right").max(initial=0))
        unsure, sure = (target[part] for part in np.split(own, [start]))
        given, others = (np.bincount(part[part != c], minlength=k) for part in (unsure, sure))
        if given.any() and sure.size:
            j = int(given.argmax())
            found.append([c, j, len(unsure), given[j], len(sure), others.sum(), others[j]])
    return np.array(found, dtype=np.int64)


def _probability(unsure: IntArray, alike: IntArray, rate: float, k: int) -> FloatArray:
    """Return for each class the largest probability of the label j among its surer rows, under symmetric noise."""
    unsure_share = np.asarray(beta.ppf(KIND_TEST.quantile, alike + 1, np.maximum(unsure - alike, 0.5)))
    errs = np.maximum(KIND_TEST.errs, KIND_TEST.fall * unsure_share)
    other = rate / (k - 1)
    # Linear in the rate, so the largest value is that of the rate 0, or that of its upper bound.
    return np.maximum(errs, other + errs * max(0.0, 1 - rate - other))


def _upper(count: int, n: int, level: float) -> float:
    """Return the upper bound of Clopper and Pearson for a probability, which fails with the probability `level`."""
    return float(beta.ppf(1 - level, count + 1, n - count)) if count < n else 1.0
