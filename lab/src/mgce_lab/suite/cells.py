"""A cell of the suite: rows of a table with some labels made wrong, and test rows with right labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mgce.desk.files import preprocessor
from mgce.desk.files.tables import Table
from mgce_lab.suite.noises import wrong_labels

MOST_TEST = 4_000  # test rows: the standard error of an accuracy is then below a point
LEAST_TEST = 1 / 3  # share of a table's rows that are test rows, at least


class Cell(NamedTuple):
    """Rows of a table: as columns for `mgce fit`, as numbers for others."""

    frame: Any  # with the column `label`
    X: Any
    given: Any
    right: Any
    test_frame: Any
    X_test: Any
    test: Any  # right classes of the test rows
    n_classes: int


def drawn(table: Table, size: int, kind: str, rate: float, seed: int) -> Cell | None:
    """Return a cell with `size` training rows; None if the table has too few rows."""
    order = np.random.default_rng(seed).permutation(len(table.target))
    if size > (1 - LEAST_TEST) * len(order):
        return None
    train, test = order[:size], order[size : size + MOST_TEST]
    known = np.unique(table.target[train])  # classes that no training row has would be errors of every method alike
    test = test[np.isin(table.target[test], known)]
    transform = preprocessor(table.features).fit(table.features.iloc[train])
    X, X_test = (np.asarray(transform.transform(table.features.iloc[part])) for part in (train, test))
    right, right_test = (np.searchsorted(known, table.target[part]) for part in (train, test))
    given = wrong_labels(X, right, len(known), kind, rate, seed)
    # Two digits, so that their order as text is that of the classes.
    frame = table.features.iloc[train].assign(label=[f"{label:02d}" for label in given]).reset_index(drop=True)
    return Cell(frame, X, given, right, table.features.iloc[test], X_test, right_test, len(known))
