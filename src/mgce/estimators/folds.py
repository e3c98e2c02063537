"""Hold out rows of a training set, and make folds of a cross-validation that can each train a classifier."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, check_cv, train_test_split

from mgce import _validation
from mgce._arrays import FloatArray, IntArray
from mgce._row_order import content_order

Fold = tuple[NDArray[Any], NDArray[Any]]  # rows to train on, rows to test on


def checked_folds(
    cv: Any, X: Any, classes: NDArray[Any], index: IntArray, weight: FloatArray, **to_split: Any
) -> list[Fold]:
    """Return the folds of a cross-validation; require two classes of positive weight in each training part.

    Args:
        cv: None, an integer, a splitter, or an iterable of (train, test) indices, as in scikit-learn.
        X: n rows of d features, shape (n, d).
        classes: the labels of the k classes, shape (k,).
        index: the class of each row, as an index into `classes`, shape (n,).
        weight: weight of each row, not negative, shape (n,).
        to_split: further arguments of the splitter's `split`, besides rows and labels.
    """
    y = classes[index]
    splitter = check_cv(cv, y, classifier=True)
    counts = np.bincount(index)
    if isinstance(splitter, StratifiedKFold) and splitter.n_splits > counts.max():
        most = f"at most {counts.max()}, the number of rows of the largest class in `y`"
        raise ValueError(_validation.expected("cv", most, splitter.n_splits))
    if cv is None or isinstance(cv, Integral):
        folds = _shuffled_folds(splitter, X, y)
    else:
        folds = list(splitter.split(X, y, **to_split))
    for number, (train, _) in enumerate(folds, 1):
        present = np.bincount(index[train], weight[train], minlength=classes.size) > 0
        if present.sum() < 2:
            lost = int(np.flatnonzero(~present & (np.bincount(index, weight) > 0))[0])
            what = "folds that train on at least 2 classes each (use fewer folds, or more rows of the class)"
            rows = "1 row" if counts[lost] == 1 else f"{counts[lost]} rows"
            got = f"fold {number} of {len(folds)} without the class {classes[lost].item()!r}, of {rows} in all"
            raise ValueError(_validation.expected("cv", what, got))
    return folds


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
    size = min(max(1, round(share * rows.size)), rows.size - 1)
    counts = np.unique(index, return_counts=True)[1]
    enough = counts.min() >= 2 and counts.size <= min(size, rows.size - size)
    train, held_out = train_test_split(
        rows, test_size=size, random_state=random_state, stratify=index if enough else None
    )
    return train, held_out


def _shuffled_folds(splitter: Any, X: Any, y: NDArray[Any]) -> list[Fold]:
    """Return folds of shuffled rows; the shuffled order does not depend on the order of the caller's rows.

    Without shuffling, sorted rows would give folds that differ in distribution. The folds hold indices into the rows as
    the caller ordered them.
    """
    order = content_order(X, y)
    order = order[np.random.default_rng(0).permutation(order.size)]
    return [(np.sort(order[train]), np.sort(order[test])) for train, test in splitter.split(X[order], y[order])]
