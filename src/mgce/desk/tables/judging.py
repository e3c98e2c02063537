"""Judge the labels of a table, by models that had not learnt the row's label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import IntArray
from mgce.desk.tables.choice import CORRECTION, unlearnt
from mgce.estimators import LabelCorrectionClassifier, MGCEEmbeddingClassifier
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import completed


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
