r"""Bound the rate of wrong labels by labels that were given twice, and estimate which label replaces which class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce._arrays import FloatArray, IntArray, as_array, as_labels
from mgce._messages import expected
from mgce._row_order import content_order
from mgce.labels.confident import confident_probs
from mgce.risk.concentration import check_delta, clopper_pearson_lower, clopper_pearson_upper
from mgce.risk.sample import checked_probs

RESAMPLES = 200  # of the bootstrap: the standard error of a 2.5 % quantile is then 1.1 %


@dataclass(frozen=True)
class NoiseRateInterval:
    """A confidence interval for the rate of symmetric noise; each end is wrong with probability delta/2 at most."""

    lower: float
    upper: float
    n: int  # examples that it rests on
    disagreements: int  # of their labels with the second label
    assumptions: tuple[str, ...]  # clauses that complete "This assumes that"


@dataclass(frozen=True, eq=False)
class TransitionEstimate:
    """A transition matrix estimated by confident learning, with bootstrap intervals that carry no guarantee."""

    matrix: FloatArray  # (k, k)
    lower: FloatArray  # (k, k)
    upper: FloatArray  # (k, k)


def repeated_labels_interval(first: Any, second: Any, *, n_classes: int, delta: float = 0.05) -> NoiseRateInterval:
    r"""Bound the rate of symmetric noise by examples that were labelled twice, without any classifier.

    .. math:: P(\text{the two differ}) = 2 \eta - \eta^2 \frac{k}{k - 1}

    Args:
        first: labels in 0..k-1, shape (n,), array or tensor.
        second: labels of the same examples, given independently.
        n_classes: k, the number of classes.
        delta: probability in (0, 1) with which the interval may miss the rate.

    Returns:
        The interval, with its assumptions.

    Raises:
        ValueError: if shapes or values do not fit together.

    Example:
        >>> interval = repeated_labels_interval([0, 1] * 500, [0, 1] * 400 + [1, 0] * 100, n_classes=2)
        >>> round(interval.lower, 3), round(interval.upper, 3)
        (0.097, 0.13)

    Reference: the probability that two independent draws by the symmetric transition matrix agree.
    """
    check_delta(delta)
    one = as_array(first, "first")
    y, z = as_labels(one, one.size, n_classes, "first"), as_labels(second, one.size, n_classes, "second")
    differ, n = int((y != z).sum()), y.size
    share = n_classes / (n_classes - 1)

    def rate(difference: float) -> float:
        """Return the noise rate eta in [0, (k-1)/k] at which two labels differ with probability `difference`."""
        return (1 - math.sqrt(max(0.0, 1 - share * difference))) / share

    return NoiseRateInterval(
        lower=rate(clopper_pearson_lower(differ, n, delta / 2)),
        upper=rate(clopper_pearson_upper(differ, n, delta / 2)),
        n=n,
        disagreements=differ,
        assumptions=(
            "a wrong label is any of the others, all alike and whatever the example",
            "the two labels of an example were made wrong independently, at one rate below (k-1)/k",
        ),
    )


def estimate_transition(
    target: Any, probs: Any, *, delta: float = 0.05, generator: np.random.Generator | None = None
) -> TransitionEstimate:
    r"""Estimate a transition matrix by confident learning, with bootstrap intervals.

    .. math:: C_{ji} = \#\{\text{label } j,\ i = \arg\max_{l : p_l \ge t_l} p_l\}, \qquad
        T_{ij} \propto C_{ji} \frac{n_j}{\sum_l C_{jl}}

    with t_l the mean probability of class l among the examples labelled l, and n_j the number of examples labelled j.
    This estimate has no guarantee: it is good only if the model ranks the classes of most examples correctly.
    For a guarantee, look up the right labels of some examples and pass them as `checked` to
    :func:`~mgce.certify`.

    Args:
        target: labels in 0..k-1, shape (n,), each class at least once, of examples that the classifier has not seen.
        probs: the classifier's calibrated probabilities (p for MGCE), shape (n, k), array or tensor.
        delta: one minus the level of the percentile intervals.
        generator: NumPy generator for the bootstrap; by default one with seed 0.

    Returns:
        The estimate.

    Raises:
        ValueError: if shapes or values do not fit together.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 5000)
        >>> noisy = np.where(rng.random(5000) < np.where(y == 0, 0.1, 0.3), 1 - y, y)
        >>> estimate_transition(noisy, np.eye(2)[y] * 0.6 + 0.2).matrix.round(2).tolist()
        [[0.9, 0.1], [0.29, 0.71]]

    Reference: Northcutt, Jiang and Chuang (2021), Confident learning, JAIR 70, equations 1 and 3.
    """
    check_delta(delta)
    p = checked_probs(probs)
    k = p.shape[1]
    y = as_labels(target, len(p), k, "target")
    if not np.bincount(y, minlength=k).all():
        raise ValueError(expected("target", "labels with every class among them", np.unique(y).tolist()))
    generator = np.random.default_rng(0) if generator is None else generator
    order = content_order(y, p)
    y, p = y[order], p[order]
    best = _confident_joint(y, p)
    draws = np.stack(
        [_confident_joint(y[rows], p[rows]) for rows in generator.integers(0, len(y), (RESAMPLES, len(y)))]
    )
    ends = (delta / 2, 1 - delta / 2)
    low, high = np.quantile(np.stack([_rows(joint) for joint in draws]), ends, axis=0)
    return TransitionEstimate(_rows(best), low, high)


def _confident_joint(y: IntArray, p: FloatArray) -> FloatArray:
    """Return the estimated joint distribution of right and given label, shape (k, k) for k classes."""
    k = p.shape[1]
    size = np.bincount(y, minlength=k)
    sure = confident_probs(p, y)
    rows = sure.max(1) >= 0
    counts = np.zeros((k, k))
    np.add.at(counts, (sure[rows].argmax(1), y[rows]), 1)
    total = counts.sum(0)
    counts[np.diag_indices(k)] += total == 0  # a class without any sure example: taken as right
    joint = counts * (size / counts.sum(0))
    return np.asarray(joint / joint.sum())


def _rows(joint: FloatArray) -> FloatArray:
    """Return the transition matrix of a joint distribution; a class of probability 0 gets a one-hot row."""
    total = joint.sum(1, keepdims=True)
    return np.where(total > 0, joint / np.where(total > 0, total, 1), np.eye(len(joint)))
