"""Split rows into two parts at random, with the same proportions of classes in both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mgce._validation import expected

Rows = NDArray[np.int64]


def stratified_split(rows: Rows, target: Rows, size: float, seed: int, name: str) -> tuple[Rows, Rows]:
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
