r"""Estimate the right labels of rows from out-of-fold predictions of their given labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from mgce._arrays import FloatArray, IntArray
from mgce.labels.mixture import even_noise, right_class

# All four were compared on the choosing tables of `mgce_lab.suite`; docs/lab/suite.md shows how little each matters.
SURER = 0.5  # share of the rows of each predicted class, the surest, whose labels count: on the others the model errs
LEVEL = 0.001  # of the test that wrong labels depend on the class: 1e-5 and 0.01 choose the same on nearly all tables
PRIOR_ROWS = 10  # of even noise that each class is given beforehand: few rows say little of a class
EM_STEPS = 5  # towards q T = p: many more would fit q to the noise of the probabilities


@dataclass(frozen=True, eq=False)
class Correction:
    """The estimated right labels of n rows, of k classes.

    Attributes:
        probs: the probability of each class to be the right one, given the row and its label, shape (n, k).
        of_row: q, the probability of each class to be the right one, given the row alone, shape (n, k).
        transition: T, the probability that a row of class i is given the label j, shape (k, k).
        by_class: whether the test says that wrong labels depend on the class; otherwise T is symmetric.
    """

    probs: FloatArray
    of_row: FloatArray
    transition: FloatArray
    by_class: bool


def correct(probs: FloatArray, target: IntArray) -> Correction:
    r"""Estimate the right labels from out-of-fold probabilities of the given labels.

    .. math:: P(c \mid x, y) \propto q_c(x)\, T_{c y}, \qquad p \approx q\, T

    T is the noise matrix, and q are the probabilities of right labels. Of the rows of each predicted class, the half
    with the highest probability shows how often each label is given. A likelihood-ratio test compares these counts with
    symmetric noise, in which all wrong labels are equally probable. T is symmetric unless the test refutes this. Some
    steps of expectation maximisation then estimate q, and Bayes' rule the probability of each class.

    Noise that occurs only where classes overlap cannot be told from the overlap. If it hits one class more than others,
    it is mistaken for noise that depends on the class.

    Args:
        probs: p, shape (n, k).
        target: given labels y, shape (n,), in 0..k-1.

    Returns:
        The probabilities of right labels, with the noise matrix.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> right = rng.integers(0, 2, 1000)
        >>> given = np.where((right == 1) & (rng.random(1000) < 0.4), 0, right)  # of class 1, 40 % are wrong
        >>> found = correct(np.array([[1.0, 0.0], [0.4, 0.6]])[right], given)
        >>> found.transition.round(1)
        array([[1. , 0. ],
               [0.4, 0.6]])
        >>> bool((found.probs.argmax(1) == right).all())
        True

    Reference: Agresti, Categorical data analysis, 3rd edition, 2013, section 3.2 (the test); Dempster, Laird and Rubin,
    Maximum likelihood from incomplete data via the EM algorithm, 1977; Patrini et al., Making deep neural networks
    robust to label noise: a loss correction approach, 2017.
    """
    probs = np.asarray(probs, dtype=np.float64)
    k = probs.shape[1]
    counts = _surer_counts(probs, target)
    total = counts.sum()
    # No label is certain to be right, and no symmetric noise is worse than labels drawn evenly.
    rate = min(max(1 - np.trace(counts) / max(total, 1), 1 / len(target)), 1 - 1 / k)
    even = even_noise(k, rate)
    by_class = _depends(counts, even)
    transition = even
    if by_class:
        transition = (counts + PRIOR_ROWS * even) / (counts.sum(1, keepdims=True) + PRIOR_ROWS)
    of_row = _right(probs, transition)
    return Correction(right_class(of_row, target, transition), of_row, transition, by_class)


def _surer_counts(probs: FloatArray, target: IntArray) -> FloatArray:
    """Return how often the surer rows of each predicted class (row) are given each label (column), shape (k, k).

    Rows that tie with a surer row count too, so that the order of the rows does not matter.
    """
    predicted, confidence = probs.argmax(1), probs.max(1).round(12)  # beyond 12 digits rounding decides
    counts = np.zeros((probs.shape[1],) * 2)
    for label in np.unique(predicted):
        own = np.flatnonzero(predicted == label)
        surer = own[confidence[own] >= np.quantile(confidence[own], 1 - SURER, method="lower")]
        counts[label] = np.bincount(target[surer], minlength=len(counts))
    return counts


def _depends(counts: FloatArray, even: FloatArray) -> bool:
    """Return whether the counts refute symmetric noise at `LEVEL`, by a likelihood-ratio test."""
    k, some = len(counts), counts > 0
    expected = counts.sum(1, keepdims=True) * even
    ratio = 2 * float((counts[some] * np.log(counts[some] / expected[some])).sum())
    known = np.count_nonzero(counts.any(1))  # nothing is counted of a class that no row is predicted as
    return bool(chi2.sf(ratio, known * (k - 1) - 1) < LEVEL)


def _right(probs: FloatArray, transition: FloatArray) -> FloatArray:
    """Return probabilities q of right labels, such that q T is near p."""
    right = probs + 1e-6  # a class of probability zero would stay out, whatever T says
    right /= right.sum(1, keepdims=True)
    for _ in range(EM_STEPS):
        right *= (probs / (right @ transition)) @ transition.T
        right /= right.sum(1, keepdims=True)
    return right
