"""Estimate one label of each row from the labels of several annotators, and choose the rows to label next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray, as_probs_of, sorted_classes
from mgce._column_types import cells_of, frame_of
from mgce._messages import check_count, expected, listed
from mgce._row_order import content_order
from mgce.labels.annotators import Annotations, Annotator, AnnotatorModel, annotator_model, annotator_table
from mgce.labels.doubtful import DoubtfulLabels
from mgce.labels.independence import Independence, independence, shared_evidence

if TYPE_CHECKING:
    import pandas as pd

FEW_LABELS = 10  # an annotator with fewer is judged by the others, as a note says


@dataclass(frozen=True)
class Consensus:
    """The right label of each row, estimated from the labels of several annotators.

    Attributes:
        doubtful: the consensus labels with the probability of each class to be right, ranked by their doubt.
        annotators: for each annotator with a label, number of labels, estimated accuracy, confused classes.
        n_labels: number of labels of each row, shape (n,).
        model: the estimates that all others are computed from, for the rows sorted by content.
        independent: the estimates before they are weakened by rho, as if all sources erred independently.
        rho: how much labels and classifier are wrong on the same rows: see :func:`find_consensus`.
        notes: sentences on annotators and labels that look like mistakes.
    """

    doubtful: DoubtfulLabels
    annotators: tuple[Annotator, ...]
    n_labels: IntArray
    model: AnnotatorModel
    independent: AnnotatorModel
    rho: float
    notes: tuple[str, ...]

    @property
    def labels(self) -> NDArray[Any]:
        """The consensus label of each row, shape (n,)."""
        return self.doubtful.given

    @property
    def probs(self) -> FloatArray:
        """The probability of each class to be right, shape (n, k)."""
        return self.doubtful.probs

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted, shape (k,)."""
        return self.doubtful.classes

    @property
    def order(self) -> IntArray:
        """The indices of all rows, the most doubtful consensus label first."""
        return self.doubtful.order

    @property
    def quality(self) -> FloatArray:
        """The probability that the consensus label of each row is right, shape (n,)."""
        return np.asarray(self.probs.max(1))

    @cached_property
    def independence(self) -> Independence:
        """The test whether annotators err independently given the right class."""
        return independence(self.independent, self.model)

    def expected_gain(self) -> FloatArray:
        r"""Return by how much one more label of a row would raise the probability that its consensus is right.

        .. math:: g_i = \sum_b \max_c P_{ic}\, T[c, b] - \max_c P_{ic}

        T is the matrix that is pooled over all annotators. No label can change the consensus of a row with g = 0.
        """
        pooled = self.model.pooled
        after = sum((self.probs * pooled[:, b]).max(1) for b in range(len(self.classes)))
        return np.asarray(after - self.probs.max(1))

    def soft_targets(self) -> NDArray[np.float32]:
        """Return the probabilities as targets for a training loop, shape (n, k); zeros in each row without a label.

        A network cannot learn from a row without a label: its consensus is a prediction. A target of zeros adds
        nothing to the loss of such a row. :class:`mgce.IndexedDataset` puts the targets into a data set.

        Example:
            >>> find_consensus([["cat", "cat"], ["dog", "dog"], [None, None]] * 5).soft_targets()[:3].round(2)
            array([[1., 0.],
                   [0., 1.],
                   [0., 0.]], dtype=float32)
        """
        return np.where(self.n_labels[:, None] > 0, self.probs, 0).astype(np.float32)

    def rows_to_label(self, n: int) -> IntArray:
        """Return the n rows with the largest :meth:`expected_gain` from one more label, the largest gain first.

        A row without a label asks for its first label, and a row with labels for a further opinion.

        Args:
            n: number of rows, at most all.

        Raises:
            ValueError: if n is not in 1..number of rows.
        """
        check_count("n", n, minimum=1)
        if n > len(self.probs):
            raise ValueError(expected("n", f"at most {len(self.probs)}, the number of rows", n))
        rank = np.empty(len(self.order), np.int64)
        rank[self.order] = np.arange(len(self.order))
        return np.asarray(np.lexsort((rank, -self.expected_gain().round(12)))[:n])

    def estimated_accuracy(self) -> float:
        """Return the estimated share of right consensus labels: an estimate without a guarantee.

        It is the mean probability of the consensus labels, and assumes that annotators err independently given the
        right class. The test of this assumption misses many dependent errors: docs/annotators.md has the errors of the
        estimate. For a bound that holds, look up the right labels of rows drawn at random.

        Raises:
            ValueError: if the labels contradict this assumption, or cannot test it.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> right = rng.integers(3, size=300)
            >>> wrong = rng.random((300, 4)) < 0.2
            >>> labels = np.where(wrong, (right[:, None] + rng.integers(1, 3, (300, 4))) % 3, right[:, None])
            >>> consensus = find_consensus(labels)
            >>> bool(abs(consensus.estimated_accuracy() - (consensus.labels == right).mean()) < 0.05)
            True
        """
        if self.independence.refuted:
            raise ValueError(f"No estimate for consensus labels without looked-up rows. {self.independence}")
        return float(self.quality.mean())


def find_consensus(labels: Any, probs: Any = None, *, missing: Any = -1, classes: Any = None) -> Consensus:
    r"""Estimate the right label of each row from the labels of several annotators.

    .. math:: P_{ic} \propto \Bigl( q_{ic}^{a} \prod_j T_j[c, y_{ij}]^{w_{ij}} \Bigr)^{1 / (1 + \rho (s_i - 1))}

    q are the probabilities of a classifier, T_j[c, y] is the probability that annotator j labels class c as y, and w is
    below 1 where annotators who err together agree: see :func:`mgce.labels.annotators.annotator_model`. s is the number
    of sources of a row: its labels and the classifier. Rho is above 0 if all sources are wrong on the same hard rows:
    see :func:`mgce.labels.independence.shared_evidence`. All but q and s are estimated from the labels.

    Args:
        labels: a matrix or a DataFrame (n, m) with a row for each example and a column for each annotator. None and
            NaN stand for no label. A row may be without any label.
        probs: class probabilities, shape (n, k), of a classifier that was not trained on the labels of the row. Its
            columns are in the order of `classes`. None if there is no classifier.
        missing: a further value that stands for no label.
        classes: all classes, if some have no label; None for the sorted labels.

    Returns:
        The consensus.

    Raises:
        ValueError: if an argument is not as described, or all labels are of one class.

    Example:
        >>> labels = [["cat", "cat", None], ["dog", "cat", "dog"], ["dog", None, "dog"], ["cat", "cat", "cat"]] * 10
        >>> consensus = find_consensus(labels)
        >>> consensus.labels[:4].tolist()
        ['cat', 'dog', 'dog', 'cat']
        >>> [round(one.estimated_accuracy, 1) for one in consensus.annotators]
        [1.0, 0.7, 1.0]

    Reference: Dawid and Skene, Maximum likelihood estimation of observer error-rates using the EM algorithm, 1979.
    """
    matrix, names, known = read_labels(labels, missing, classes)
    if probs is not None:
        probs = as_probs_of(probs, "probs", len(matrix), len(known), "example")
    order = content_order(matrix, *([] if probs is None else [probs]))
    model = annotator_model(
        Annotations.of(matrix[order], len(known)), None if probs is None else np.asarray(probs)[order]
    )
    return consensus_of(model, order, matrix, names, known)


def read_labels(labels: Any, missing: Any, classes: Any) -> tuple[IntArray, list[str], NDArray[Any]]:
    """Return labels as indices, -1 for none, shape (n, m); the names of the annotators; and the classes."""
    import pandas as pd

    frame = frame_of(labels)
    names = None if frame is None else [str(name) for name in frame.columns]
    cells = np.asarray(labels, dtype=object) if frame is None else _cells(frame)
    if cells.ndim != 2 or 0 in cells.shape:
        what = "of shape (n, m), a row for each example and a column for each annotator"
        raise ValueError(expected("labels", what, cells.shape))
    absent = np.asarray(pd.isna(cells), dtype=bool)
    if missing is not None:
        absent[~absent] = np.asarray(cells[~absent] == missing, dtype=bool)
    given = cells[~absent]
    if not given.size:
        raise ValueError(expected("labels", "a matrix with a label", "none"))
    values = np.array(given.tolist())
    if classes is None:
        known, index = sorted_classes(values)
    else:
        known = np.asarray(classes)
        place = {label: number for number, label in enumerate(known.tolist())}
        unknown = [label for label in given.tolist() if label not in place]
        if unknown:
            raise ValueError(expected("labels", f"of the classes {known.tolist()}", unknown[0]))
        index = np.array([place[label] for label in given.tolist()])
    if len(known) < 2:
        raise ValueError(expected("labels", "of at least 2 classes", f"the class {known[0].item()!r} alone"))
    matrix = np.full(cells.shape, -1, np.int64)
    matrix[~absent] = index
    return matrix, names or [str(number) for number in range(cells.shape[1])], known


def _cells(frame: pd.DataFrame) -> NDArray[Any]:
    """Return the cells of a frame as Python objects, shape (n, m)."""
    columns = [cells_of(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return np.stack(columns, axis=1) if columns else np.empty(frame.shape, dtype=object)


def consensus_of(
    model: AnnotatorModel, order: NDArray[np.intp], matrix: IntArray, names: Sequence[str], classes: NDArray[Any]
) -> Consensus:
    """Return the consensus of `model` in the caller's order of rows: row i of the model is the caller's `order[i]`."""
    n, _, k = model.annotations.shape
    probs = np.empty((n, k))
    weaker, rho = shared_evidence(model)
    probs[order] = weaker.probs
    table = annotator_table(weaker, names, classes)
    notes = _notes(table, matrix)
    found = tuple(one for one in table if one.n_labels)
    n_labels = (matrix >= 0).sum(1)
    doubtful = DoubtfulLabels.of_consensus(classes, probs, np.argsort(order))
    return Consensus(doubtful, found, n_labels, weaker, model, rho, tuple(notes))


def _notes(table: Sequence[Annotator], matrix: IntArray) -> list[str]:
    """Return sentences on annotators and labels that look like mistakes."""
    notes = []
    without = [one.name for one in table if not one.n_labels]
    if without:
        notes.append(f"Left out, without a label: {listed(without, 5)}.")
    few = [one.name for one in table if 0 < one.n_labels < FEW_LABELS]
    if few:
        notes.append(
            f"Fewer than {FEW_LABELS} labels, so that the others mostly decide what is expected: {listed(few, 5)}."
        )
    if len(table) - len(without) == 1:
        notes.append("There is one annotator only: nothing can be compared but labels and the classifier.")
    elif (matrix >= 0).sum(1).max() < 2:
        notes.append("No row has two labels: annotators are compared by the classifier alone.")
    else:
        several = matrix[(matrix >= 0).sum(1) > 1]
        first = several[np.arange(len(several)), (several >= 0).argmax(1)]
        if ((several == first[:, None]) | (several < 0)).all():
            notes.append("All labels of each row agree. Were they given independently?")
    empty = int(((matrix >= 0).sum(1) == 0).sum())
    if empty:
        rows = (
            "1 row has no label: its consensus is"
            if empty == 1
            else f"{empty:,} rows have no label: their consensus is"
        )
        notes.append(f"{rows} the prediction.")
    return notes
