"""Divide rows into parts and folds, and predict each row by a model that was not trained on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray, as_probs
from mgce._messages import check_count, expected

Train = Callable[[IntArray, IntArray], Any]  # from rows to train on and others to the others' probabilities
Fold = tuple[NDArray[Any], NDArray[Any]]  # rows to train on, and others


def out_of_fold(train: Train, folds: Iterable[Fold], shape: tuple[int, int], *, unseen: float = np.nan) -> FloatArray:
    """Return for each of n rows the probabilities of a model that was trained without it, shape (n, k).

    Args:
        train: trains on rows and returns the probabilities of others, shape (number of others, k).
        folds: pairs of row numbers: rows to train on, and rows to predict.
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
    """Return one fold for each number in `fold`: the rows of this number are predicted, all others are trained on.

    Args:
        fold: the number of the fold of each row, shape (n,).
    """
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in np.unique(fold)]


def checked_train(train: Train, n_classes: int) -> Train:
    """Wrap a caller's function that trains; the wrapper raises an error unless the function returns probabilities.

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


def hold_out(
    rows: IntArray, index: IntArray, share: float, random_state: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Split a training set at random; return the rows to keep and the rows to hold out.

    The same share of each class is held out, unless a class has a single row, or one part would have fewer rows than
    there are classes.

    Args:
        rows: row numbers, at least 2 of them.
        index: the class index of each of these rows.
        share: share of the rows to hold out, in (0, 1). At least one row is held out, and at least one is kept.
        random_state: generator that draws the split.
    """
    from sklearn.model_selection import train_test_split

    size = min(max(1, round(share * rows.size)), rows.size - 1)
    counts = np.unique(index, return_counts=True)[1]
    enough = counts.min() >= 2 and counts.size <= min(size, rows.size - size)
    train, held_out = train_test_split(
        rows, test_size=size, random_state=random_state, stratify=index if enough else None
    )
    return train, held_out


def stratified_split(rows: IntArray, target: IntArray, size: float, seed: int, name: str) -> tuple[IntArray, IntArray]:
    """Split row numbers at random into two parts with the same proportions of classes.

    Args:
        rows: row numbers to split.
        target: class indices of all rows, shape (n,).
        size: share of the rows that go into the second part, in (0, 1).
        seed: seed of the split.
        name: name of the data set, for the error.

    Raises:
        ValueError: if a class has too few rows for such a split.

    Example:
        >>> first, second = stratified_split(np.arange(8), np.array([0, 1] * 4), 0.5, 0, "letters")
        >>> sorted((second % 2).tolist())
        [0, 0, 1, 1]
    """
    from sklearn.model_selection import train_test_split

    try:
        first, second = train_test_split(rows, test_size=size, random_state=seed, stratify=target[rows])
    except ValueError as error:
        what = "a data set with enough rows of every class for training, validation and test"
        raise ValueError(expected("dataset", what, f"{name}: {error}")) from None
    return first, second
