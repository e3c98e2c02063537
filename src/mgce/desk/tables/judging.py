"""Judge the labels of a table, by models that had not learnt the row's label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import IntArray
from mgce.desk.tables.candidates import CORRECTION, HEAD
from mgce.desk.tables.choice import Choice
from mgce.estimators import LabelCorrectionClassifier, MGCEEmbeddingClassifier
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import completed


def judge(
    judge: LabelCorrectionClassifier | MGCEEmbeddingClassifier,
    X: NDArray[Any],
    target: IntArray,
    distinct: IntArray,
    first: IntArray,
) -> DoubtfulLabels:
    """Estimate how probably the given label of every row is wrong: see :func:`mgce.labels.doubtful.doubtful_labels`.

    A row that a person has dropped was not learnt from. Its given label has the probabilities q T, of right labels by
    the model and the noise matrix.

    Args:
        judge: fitted to the distinct rows.
        X: features of all rows, shape (n, d): n rows, d features.
        target: given labels, shape (n,), as indices of the judge's classes.
        distinct: indices of the distinct rows that were learnt from.
        first: for each row, the index of the distinct row that represents all its copies, shape (n,).
    """
    if isinstance(judge, MGCEEmbeddingClassifier):
        probs = completed(judge.oof_proba_, distinct, len(X), lambda others: judge.predict_proba(X[others]))
        return doubtful_labels(probs[first], target, classes=judge.classes_, first=first, X=X, source=HEAD)
    probs = completed(
        judge.left_out_proba_, distinct, len(X), lambda others: judge.predict_proba(X[others]) @ judge.transition_
    )
    return doubtful_labels(probs[first], target, classes=judge.classes_, first=first, X=X, source=CORRECTION)


def judge_by_head(
    choice: Choice, X: NDArray[Any], target: NDArray[np.int64], train: NDArray[np.int64], first: NDArray[np.int64]
) -> DoubtfulLabels:
    """Judge the label of each row by a head that was not fitted to it: of its fold, or of all training rows.

    Args:
        choice: what :func:`mgce.desk.tables.choice.choose_head` returned.
        X: features of all rows, shape (n, d).
        target: given labels, shape (n,).
        train: indices of the training rows.
        first: for each row, the index of the row that represents all its copies, shape (n,).
    """
    assert choice.trial.probs is not None
    probs = completed(choice.trial.probs, train, len(X), lambda others: choice.fitted.predict_proba(X[others]))
    classes = choice.fitted.classes_
    return doubtful_labels(probs[first], target, classes=classes, first=first, X=X, source=choice.trial.model)
