"""Find the rows of a table that are most like others: what a person compares a row with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce.desk.columns.kinds import Columns
from mgce.desk.review.suspect_file import PICTURE, Suspect
from mgce.desk.tables.text_features import transformer
from mgce.features.feature_files import read_features

NEAREST = 5  # rows beside a row: as many as a person compares at a glance
LABEL = " "  # the column of labels beside the cells; no column of a file is named like it


def neighbours(suspects: Sequence[Suspect], rows: Sequence[Suspect], features: Path) -> list[list[Suspect]]:
    """Return for some rows of a table the rows that are most like them, nearest first; [] if they cannot be compared.

    Rows are compared by all columns except the label, or by the features of their pictures. Pictures are compared with
    those of `rows` alone, since a page shows no other pictures.

    Args:
        suspects: all rows of the table.
        rows: the rows whose neighbours are wanted.
        features: a file that may hold the features of pictures, by the names of the rows.
    """
    of_pictures = any(name == PICTURE for name, _ in rows[0].cells)
    others = rows if of_pictures else suspects
    try:
        values = _of_pictures(others, features) if of_pictures else _of_cells(others)
    except ValueError:  # a column that no model learnt from may hold anything, such as infinite numbers
        return []
    if values is None or len(others) < 2 or not np.isfinite(values).all():
        return []
    from sklearn.neighbors import NearestNeighbors

    place = {one.key: number for number, one in enumerate(others)}
    own = [place[one.key] for one in rows]
    n = min(NEAREST + 1, len(others))
    search = NearestNeighbors(n_neighbors=n, algorithm="brute").fit(values)
    found = search.kneighbors(values[own], return_distance=False)
    return [[others[i] for i in near if i != self][: n - 1] for self, near in zip(own, found.tolist(), strict=True)]


def _of_cells(rows: Sequence[Suspect]) -> NDArray[np.float32] | None:
    """Return the cells of rows as numbers, as a model of the table reads them; None if there is nothing to compare."""
    frame = pd.DataFrame([dict(one.cells[1:]) for one in rows]).replace("", None).assign(**{LABEL: "label"})
    columns = Columns.of(frame, LABEL)
    if not columns.kinds:
        return None
    selected = columns.select(frame)
    values = transformer(selected, columns.kinds, 0, by_meaning=False).fit_transform(selected)
    return np.asarray(values, dtype=np.float32)


def _of_pictures(rows: Sequence[Suspect], features: Path) -> NDArray[np.float32] | None:
    """Return the features of rows, scaled to unit length; None if there is no file of features, or it lacks a row."""
    found = read_features(features) if features.is_file() else None
    if found is None or found.names is None:
        return None
    place = {name: number for number, name in enumerate(found.names.tolist())}
    if any(one.name not in place for one in rows):
        return None
    values = np.asarray(found.values[[place[one.name] for one in rows]], dtype=np.float32)
    return np.asarray(values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12))
