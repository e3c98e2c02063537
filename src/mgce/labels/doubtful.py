"""Rank given labels by how probable it is that they are wrong, in one class for all kinds of estimates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray
from mgce._row_order import content_order
from mgce.labels.correction import correct
from mgce.labels.share import NoiseShare, share_of_predictions
from mgce.labels.sharpened import sharpened

# On the choosing tables of `mgce_lab.suite`, labels said to be wrong with a probability of 0.98 were wrong in 79 % of
# cases at 300 rows and 98 % at 1,000; where wrong labels seem to depend on the class, in 66 and 79 %. So a probability
# is multiplied by n / (n + FEW), and by BY_CLASS in the second case. Neither changes an order.
FEW, BY_CLASS = 100, 0.8
DIGITS = 12  # of probabilities that are compared: others depend on the order of the rows
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
            probable right class of the row. For a consensus it is the most probable other class, unless the label is as
            good as certain.
        is_issue: whether the label is more probably wrong than right, and another class is suggested, shape (n,).
        is_distinct: whether the row represents its copies; True for a row without copies, shape (n,).
        rank: position of each row, which orders rows of equal `wrong`, shape (n,). The row whose label is furthest
            below the most probable class in probability comes first. Content orders the rest.
        share: upper bound on the share of wrong labels among distinct rows. None for a consensus: see
            :meth:`Consensus.estimated_accuracy`.
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

        It is the mean of `wrong` over these rows, without an interval. It is too large where the model often errs, and
        NaN for a class that no row is given.
        """
        n = np.bincount(self.target, minlength=len(self.classes))
        return np.bincount(self.target, self.wrong, len(n)) / np.where(n, n, np.nan)

    @property
    def expected_wrong(self) -> tuple[float, float]:
        """The expected number of wrong labels among distinct rows with `is_issue`, and among other distinct rows."""
        asked, others = (self.wrong[self.is_distinct & chosen].sum() for chosen in (self.is_issue, ~self.is_issue))
        return float(asked), float(others)

    def suspects(self, most: int) -> IntArray:
        """Return at most `most` distinct rows whose suggested class is not the given label, most suspect first."""
        return np.asarray(self.order[(self.is_distinct & (self.suggestion != self.target))[self.order]][:most])

    def settled(self, rows: IntArray) -> DoubtfulLabels:
        """Return a copy in which no label of `rows` is suspect: a person has decided on these labels."""
        wrong, is_issue, suggestion = self.wrong.copy(), self.is_issue.copy(), self.suggestion.copy()
        wrong[rows], is_issue[rows], suggestion[rows] = 0.0, False, self.target[rows]
        return replace(self, wrong=wrong, is_issue=is_issue, suggestion=suggestion)

    def as_consensus(self, probs: FloatArray, rank: IntArray) -> DoubtfulLabels:
        """Return the given labels as judged by the consensus of several annotators, not by the model.

        Args:
            probs: probabilities of each class to be right by the consensus, shape (n, k).
            rank: the `rank` of the rows in the consensus, shape (n,).
        """
        wrong, suggestion = _doubts(probs, self.target)
        return replace(self, wrong=wrong, suggestion=suggestion, is_issue=wrong > 0.5, rank=rank)

    @classmethod
    def of_consensus(cls, classes: NDArray[Any], probs: FloatArray, rank: IntArray) -> DoubtfulLabels:
        """Return consensus labels, the most probable classes by `probs`, with the probability that each is wrong."""
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
    source: str = "probs",
) -> DoubtfulLabels:
    r"""Estimate from class probabilities how probable it is that each given label is wrong.

    .. math:: \text{wrong}_i = c \, \big(1 - P(y_i \mid x_i, y_i)\big), \qquad c = \frac{n}{n + 100}

    P is the probability of a right class given the row x and its label y: see :func:`mgce.labels.correction.correct`.
    The factor c, times 0.8 where wrong labels seem to depend on the class, corrects probabilities that are too sure
    with few rows. Probabilities that are too even for their labels are sharpened first: see
    :func:`mgce.labels.sharpened.sharpened`. The share of wrong labels is bounded from above: where classes overlap,
    wrong labels cannot be told from right ones.

    Args:
        probs: class probabilities, shape (n, k), by a model that was not fitted to the row.
        target: given labels, shape (n,), in 0..k-1.
        classes: the classes by index, shape (k,); None for 0 to k-1.
        first: index of the row that stands for all copies of each row, shape (n,); None if there are none.
        X: the rows, shape (n, d), by whose content ties are broken; None if only their probabilities are known.
        source: what the probabilities come from.
    """
    rows, content = np.arange(len(target)), np.argsort(content_order(target, probs if X is None else X))
    correction = correct(sharpened(probs, target), target)
    caution = len(rows) / (len(rows) + FEW) * (BY_CLASS if correction.by_class else 1)
    wrong = (caution * (1 - correction.probs[rows, target])).round(DIGITS)
    suggestion = correction.of_row.round(DIGITS).argmax(1)
    is_distinct = np.ones(len(target), bool) if first is None else first == rows
    return DoubtfulLabels(
        classes=np.arange(probs.shape[1]) if classes is None else classes,
        target=target,
        probs=probs,
        wrong=wrong,
        suggestion=suggestion,
        is_issue=(wrong > 0.5) & (suggestion != target),
        is_distinct=is_distinct,
        rank=np.argsort(np.lexsort((content, probs[rows, target] - probs.max(1)))),
        share=share_of_predictions(target[is_distinct], probs[is_distinct].argmax(1)),
        source=source,
    )


def _doubts(probs: FloatArray, target: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the probability that each consensus label is wrong, and the class to look at instead, each (n,)."""
    rows, others = np.arange(len(probs)), probs.copy()
    wrong = (1 - probs[rows, target]).round(DIGITS)
    others[rows, target] = -1
    return wrong, np.where(wrong < CERTAIN, target, others.argmax(1))
