"""Put the features of a file beside the rows of a table, as a column of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mgce._column_types import texts
from mgce._messages import expected
from mgce.desk.files.vectors import vectors
from mgce.features.feature_files import Features, read_features

COLUMN = "embedding"  # the name of the column


def read_all(paths: Sequence[Path]) -> Features:
    """Read the files of features of one table, such as the shards of `mgce embed`, in this order.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if one is damaged, or they are of several encoders or widths, or only some name their rows.
    """
    first, *others = (read_features(path) for path in paths)
    for one, path in zip(others, paths[1:], strict=True):
        if first.card is not None:
            first.card.require(one.card)
        if one.values.shape[1] != first.values.shape[1] or (one.names is None) != (first.names is None):
            what = f"files of {first.values.shape[1]:,} features, all of which name their rows, or none"
            raise ValueError(expected("embeddings", what, f"{path} with {one.values.shape[1]:,}"))
    if not others:
        return first
    names = None if first.names is None else np.concatenate([one.names for one in (first, *others)])
    return replace(first, values=np.concatenate([one.values for one in (first, *others)]), names=names)


def beside(frame: pd.DataFrame, features: Features, id: str | None) -> tuple[pd.DataFrame, str | None, list[str]]:
    """Return a table with its embeddings, which are matched by name if the features have names.

    Args:
        frame: the table, with rows numbered from 0.
        features: the features of its rows; if matched by name, there may be more features than rows.
        id: the column of the names; None to look for a column whose values are names of features.

    Returns:
        The table; the column by which names were matched, or None; and notes for the user.

    Raises:
        ValueError: if a row has no features, or if several features have one name.
    """
    if COLUMN in frame.columns:
        raise ValueError(expected("table", f"a table without a column {COLUMN!r}, beside a file of embeddings", "one"))
    column = None if features.names is None else id or column_of_names(frame, features.names)
    notes = []
    if column is None:
        if len(frame) != len(features.values):
            what = f"a file of features for each of the {len(frame):,} rows of the table"
            got = f"{len(features.values):,}, without names that match a column"
            raise ValueError(expected("embeddings", what, got))
        place = np.arange(len(frame))
        notes.append("Embeddings and rows were matched by their order, as no column of the table names the embeddings.")
    else:
        place = _places(frame[column], features.names)
        unused = len(features.values) - len(np.unique(place))
        if unused:
            notes.append(f"{unused:,} of the {len(features.values):,} embeddings belong to no row of the table.")
    cells = pd.Series(vectors(features.values[place]), index=frame.index, dtype=object)
    return frame.assign(**{COLUMN: cells}), column, notes


def as_table(features: Features, id: str | None) -> pd.DataFrame:
    """Return features alone as a table, with their names in the column `id`, or in one called `name`."""
    columns: dict[str, Any] = {} if features.names is None else {id or "name": features.names.astype(object)}
    return pd.DataFrame({**columns, COLUMN: pd.Series(vectors(features.values), dtype=object)})


def column_of_names(frame: pd.DataFrame, names: Any) -> str | None:
    """Return the text column with the most values that name a row of the features; None if no value does."""
    known = set(names.tolist())
    others = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    found = {name: int(frame[name].astype(str).isin(known).sum()) for name in others}
    best = max(found, key=lambda name: found[name], default=None)
    return best if best is not None and found[best] else None


def _places(column: pd.Series[Any], names: Any) -> Any:
    """Return for each row, named by `column`, the index of its features, named by `names`.

    Raises:
        ValueError: if two features have one name, or if no features have the name of a row.
    """
    index = pd.Index(names)
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise ValueError(expected("embeddings", "features of different names", f"{twice!r} more than once"))
    place = index.get_indexer(pd.Index(texts(column)))
    missing = place < 0
    if missing.any():
        what = f"features for every value of column `{column.name}`"
        got = f"none for {int(missing.sum()):,} rows, such as {str(column.iloc[int(missing.argmax())])!r}"
        raise ValueError(expected("embeddings", what, got))
    return place
