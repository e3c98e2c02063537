"""Judge the labels of a table, by models that had not learnt the row's label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray
from mgce.desk.tables.choice import CORRECTION, unlearnt
from mgce.estimators import LabelCorrectionClassifier, MGCEEmbeddingClassifier
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import completed


@dataclass(frozen=True)
class Counts:
    """Numbers of distinct rows with each given label, and how many of their labels are expected to be wrong."""

    rows: IntArray  # (k,)
    look_wrong: IntArray  # (k,), rows whose label is more probably wrong than right
    expected: FloatArray  # (2,), of wrong labels, among the rows that look wrong and among the others

    @classmethod
    def of(cls, judged: DoubtfulLabels) -> Counts:
        """Count the rows of a judgement."""
        rows, k = judged.is_distinct, len(judged.classes)
        each, looks = (np.bincount(judged.target[some], minlength=k) for some in (rows, rows & judged.is_issue))
        return cls(each, looks, np.array(judged.expected_wrong))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.rows + other.rows, self.look_wrong + other.look_wrong, self.expected + other.expected)


def judge(
    judge: LabelCorrectionClassifier | MGCEEmbeddingClassifier,
    source: str,
    X: NDArray[Any],
    target: IntArray,
    distinct: IntArray,
    first: IntArray,
) -> DoubtfulLabels:
    """Estimate how probably the given label of every row is wrong: see :func:`mgce.labels.doubtful.doubtful_labels`.

    A row that a person has dropped was not learnt from. Its given label has the probabilities q T, of right labels by
    the model and the noise matrix; by heads it has those of the model.

    Args:
        judge: fitted to the distinct rows.
        source: its name.
        X: features of all rows, shape (n, d): n rows, d features.
        target: given labels, shape (n,), as indices of the judge's classes.
        distinct: indices of the distinct rows that were learnt from.
        first: for each row, the index of the distinct row that represents all its copies, shape (n,).
    """
    matrix = judge.transition_ if source == CORRECTION else np.eye(len(judge.classes_))
    probs = completed(unlearnt(judge), distinct, len(X), lambda others: judge.predict_proba(X[others]) @ matrix)
    return doubtful_labels(probs[first], target, classes=judge.classes_, first=first, X=X, source=source)
