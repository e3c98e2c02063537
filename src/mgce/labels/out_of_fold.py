"""Predict each row by a model that was not trained on it, whatever trains the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray, as_probs
from mgce._validation import check_count, expected

Train = Callable[[IntArray, IntArray], Any]  # from rows to train on and others to the others' probabilities
Fold = tuple[IntArray, IntArray]  # rows to train on, and others


def out_of_fold(train: Train, folds: Iterable[Fold], shape: tuple[int, int], *, unseen: float = np.nan) -> FloatArray:
    """Return for each of n rows the probabilities of a model that was trained without it, shape (n, k).

    Args:
        train: trains on rows and returns the probabilities of others, shape (number of others, k).
        folds: rows to train on, and others.
        shape: n and k.
        unseen: the probability of each class in rows that are in no fold.
    """
    probs = np.full(shape, unseen)
    for rows, others in folds:
        probs[others] = train(rows, others)
    return probs


def completed(known: NDArray[Any], rows: IntArray, n: int, predict: Callable[[IntArray], Any]) -> FloatArray:
    """Return the probabilities of n rows: those of `rows` out of fold, and predictions for all others.

    Args:
        known: probabilities of the rows that a model was trained on, out of fold, shape (len(rows), k).
        rows: indices of these rows.
        n: number of all rows.
        predict: from indices of other rows to their probabilities, by a model that was trained on `rows`.
    """
    probs = np.empty((n, known.shape[1]))
    probs[rows] = known
    others = np.setdiff1d(np.arange(n), rows)
    if others.size:
        probs[others] = predict(others)
    return probs


def stratified_folds(target: IntArray, n_folds: int, random_state: Any) -> list[Fold]:
    """Return shuffled folds that each have about the same share of each class.

    Args:
        target: the class of each row, shape (n,).
        n_folds: number of folds, at least 2.
        random_state: seed of the folds.
    """
    from sklearn.model_selection import StratifiedKFold

    check_count("n_folds", n_folds, 2)
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(target, target))


def folds_of(fold: IntArray) -> list[Fold]:
    """Return the folds in which the rows of each number are predicted, and all others are trained on.

    Args:
        fold: the number of the fold of each row, shape (n,).
    """
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in np.unique(fold)]


def checked_train(train: Train, n_classes: int) -> Train:
    """Return a caller's function that trains, such that it raises an error unless it returns probabilities.

    Args:
        train: the function.
        n_classes: number k of classes.
    """

    def checked(rows: IntArray, others: IntArray) -> FloatArray:
        found = as_probs(train(rows, others), "rows")
        if found.shape != (len(others), n_classes):
            what = f"a function that returns probabilities of shape ({len(others)}, {n_classes}) here"
            raise ValueError(expected("rows", what, found.shape))
        return found

    return checked
