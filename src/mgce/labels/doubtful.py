"""Doubtful labels in one form, wherever they come from: how probably each is wrong, and which to look at first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray
from mgce._row_order import content_order
from mgce.labels.confident import confident_labels
from mgce.labels.mixture import even_noise, right_class
from mgce.labels.share import NoiseShare, noise_share

# Rows of each class that the estimate of the noise matrix is given beforehand, with wrong labels spread evenly: a class
# of few rows says little about its noise. And steps of expectation maximisation: many more would fit q to the noise of
# the probabilities. On ten tables of 1,000 rows with 20 % and 40 % of the labels wrong at random, and 40 % wrong as
# pairs, the average precision is 87.6, 88.6 and 81.7 %. With 3 to 50 steps and 10 to 40 rows it is 87.0 to 89.0, 87.1
# to 89.3 and 80.1 to 81.7 %, and with the exact solution of p = q T, cut off at zero, and no such rows, 83.8, 83.1 and
# 78.3 %.
PRIOR_ROWS = 10
EM_STEPS = 10
DIGITS = 12  # of the probability that a consensus label is wrong: others depend on the order of the rows
CERTAIN = 0.01  # probability that a consensus label is wrong below which no other class is suggested


@dataclass(frozen=True, eq=False)
class DoubtfulLabels:
    """The given labels of n rows with k classes, ranked by how probable it is that they are wrong.

    Attributes:
        classes: the k classes, sorted, shape (k,).
        target: the given labels, as indices of classes, shape (n,).
        probs: class probabilities of each row by a model that was not fitted to it, shape (n, k).
        wrong: estimated probability that the given label of each row is wrong, shape (n,).
        suggestion: the class to look at instead of the given label, as an index of classes, shape (n,). It is the most
            probable class. For a consensus it is another class, unless the label is as good as certain.
        is_issue: whether confident learning considers the label wrong, shape (n,). Of a consensus, whether the label is
            more probably wrong than right.
        is_distinct: whether the row represents its copies; True for a row without copies, shape (n,).
        rank: position of each row among rows whose labels are wrong with one probability, shape (n,). The row with the
            least probability of its label beside the most probable class comes first, then the content decides.
        share: the share of wrong labels among distinct rows: an interval where the data support its assumption,
            elsewhere a range from 0. None for a consensus, whose :meth:`Consensus.estimated_accuracy` says it.
        source: what the probabilities come from, such as `"features"`, `"probs"` or `"forest"`.
    """

    classes: NDArray[Any]
    target: IntArray
    probs: FloatArray
    wrong: FloatArray
    suggestion: IntArray
    is_issue: NDArray[np.bool_]
    is_distinct: NDArray[np.bool_]
    rank: IntArray
    share: NoiseShare | None
    source: str

    @property
    def given(self) -> NDArray[Any]:
        """The given labels, shape (n,)."""
        return np.asarray(self.classes[self.target])

    @property
    def suggested(self) -> NDArray[Any]:
        """The suggested class of each row, shape (n,)."""
        return np.asarray(self.classes[self.suggestion])

    @cached_property
    def order(self) -> IntArray:
        """The indices of all n rows, the most suspect label first. If you have time to check m, check the first m."""
        return np.asarray(np.lexsort((self.rank, -self.wrong)))

    @property
    def share_by_label(self) -> FloatArray:
        """The estimated share of wrong labels among the rows that are given each class, shape (k,).

        It is the mean of their `wrong`, without an interval, and too large where the model often errs. It is NaN for a
        class that no row is given.
        """
        n = np.bincount(self.target, minlength=len(self.classes))
        return np.bincount(self.target, self.wrong, len(n)) / np.where(n, n, np.nan)

    def suspects(self, most: int) -> IntArray:
        """Return at most `most` distinct rows whose suggested class is not the given label, most suspect first."""
        return np.asarray(self.order[(self.is_distinct & (self.suggestion != self.target))[self.order]][:most])

    def settled(self, rows: IntArray) -> DoubtfulLabels:
        """Return the labels with those of some rows, which a person has decided on, as not suspect."""
        wrong, is_issue, suggestion = self.wrong.copy(), self.is_issue.copy(), self.suggestion.copy()
        wrong[rows], is_issue[rows], suggestion[rows] = 0.0, False, self.target[rows]
        return replace(self, wrong=wrong, is_issue=is_issue, suggestion=suggestion)

    def as_consensus(self, probs: FloatArray, rank: IntArray) -> DoubtfulLabels:
        """Return the labels as judged by the consensus of several labels a row, which tell more than the model alone.

        Args:
            probs: probabilities of each class to be right by the consensus, shape (n, k).
            rank: the positions of the rows in the consensus, shape (n,).
        """
        wrong, suggestion = _doubts(probs, self.target)
        return replace(self, wrong=wrong, suggestion=suggestion, is_issue=wrong > 0.5, rank=rank)

    @classmethod
    def of_consensus(cls, classes: NDArray[Any], probs: FloatArray, rank: IntArray) -> DoubtfulLabels:
        """Return the most probable classes by several labels a row as labels, which are in doubt themselves."""
        target, distinct = probs.argmax(1), np.ones(len(probs), dtype=bool)
        wrong, suggestion = _doubts(probs, target)
        return cls(classes, target, probs, wrong, suggestion, wrong > 0.5, distinct, rank, None, "annotators")


def doubtful_labels(
    probs: FloatArray,
    target: IntArray,
    *,
    classes: NDArray[Any] | None = None,
    first: IntArray | None = None,
    X: NDArray[Any] | None = None,
    of_share: FloatArray | None = None,
    source: str = "probs",
) -> DoubtfulLabels:
    r"""Estimate from class probabilities how probable it is that each given label is wrong.

    A row that confidently belongs to another class than its given label is an issue: see
    :func:`mgce.labels.confident.confident_labels`. Counting the rows by confident class and given label estimates the
    noise matrix T, whose entry (i, j) is the probability that a row of class i is given the label j. The model has
    learnt class probabilities p from noisy labels. So p is about q T, where q are the probabilities of the right
    classes. Some steps of expectation maximisation estimate q. Bayes' rule then yields the probability that a label is
    wrong.

    Args:
        probs: class probabilities, shape (n, k), by a model that was not fitted to the row.
        target: given labels, shape (n,), in 0..k-1.
        classes: the classes by index, shape (k,); None for 0 to k-1.
        first: index of the row that stands for all copies of each row, shape (n,); None if there are none.
        X: the rows, shape (n, d), by whose content ties are broken; None if only their probabilities are known.
        of_share: the probabilities that the share of wrong labels is estimated from, shape (n, k); None for `probs`.
        source: what the probabilities come from.

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    rows, content = np.arange(len(target)), np.argsort(content_order(target, probs if X is None else X))
    confident_class = confident_labels(probs, target)
    is_distinct = np.ones(len(target), bool) if first is None else first == rows
    counted = probs if of_share is None else of_share
    return DoubtfulLabels(
        classes=np.arange(probs.shape[1]) if classes is None else classes,
        target=target,
        probs=probs,
        wrong=1 - right_class_probs(probs, target, confident_class)[rows, target],
        suggestion=probs.argmax(1),
        is_issue=confident_class != target,
        is_distinct=is_distinct,
        rank=np.argsort(np.lexsort((content, probs[rows, target] - probs.max(1)))),
        share=noise_share(target[is_distinct], counted[is_distinct]),
        source=source,
    )


def _doubts(probs: FloatArray, target: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the probability that each consensus label is wrong, and the class to look at instead, each (n,)."""
    rows, others = np.arange(len(probs)), probs.copy()
    wrong = (1 - probs[rows, target]).round(DIGITS)
    others[rows, target] = -1
    return wrong, np.where(wrong < CERTAIN, target, others.argmax(1))


def right_class_probs(probs: FloatArray, target: IntArray, confident_class: IntArray) -> FloatArray:
    r"""Return the probability of each class to be the right one, given the row and its label, shape (n, k).

    .. math:: P(y = i \mid x, \tilde y = j) \propto q_i(x)\, T_{ij}, \qquad p \approx q T

    p are the probabilities of given labels, q those of right classes, and T the noise matrix: see
    :func:`doubtful_labels`.

    Args:
        probs: class probabilities p, shape (n, k).
        target: given labels, shape (n,).
        confident_class: the class that each row confidently belongs to, shape (n,).
    """
    noise = _noise_matrix(target, confident_class, probs.shape[1])
    return right_class(_right(probs, noise), target, noise)


def _right(probs: FloatArray, noise: FloatArray) -> FloatArray:
    """Return probabilities q of the right classes, such that q T is near p, with the noise matrix T."""
    right = probs + 1e-6  # a class of probability zero would stay out, whatever T says
    right /= right.sum(1, keepdims=True)
    for _ in range(EM_STEPS):
        right *= (probs / (right @ noise)) @ noise.T
        right /= right.sum(1, keepdims=True)
    return right


def _noise_matrix(target: IntArray, confident_class: IntArray, k: int) -> FloatArray:
    """Estimate by counting the noise matrix: the probability T_ij that a row of class i is given the label j."""
    counts = np.zeros((k, k))
    np.add.at(counts, (confident_class, target), 1)
    share = max((confident_class != target).mean(), 1 / len(target))  # not zero: no label is certain to be right
    return np.asarray((counts + PRIOR_ROWS * even_noise(k, share)) / (counts.sum(1, keepdims=True) + PRIOR_ROWS))
