"""Write the table that a command has read to a new file, with some rows removed and some labels changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from mgce._column_types import cells_of, texts
from mgce.desk.files.table_files import is_text_file
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.files.written_tables import text_changed, to_csv, to_table_file


def changed_table(
    table: Path,
    frame: pd.DataFrame,
    rows: Collection[int],
    labels: Mapping[int, str],
    target: str,
    out: Path,
    form: TextFormat,
    *,
    formulas: bool,
) -> tuple[bytes, list[str]]:
    """Return a file's content: the table with some rows removed and some labels changed.

    Also return a note if an apostrophe was put before formulas. If the table was read from a text file that can be read
    again, all other cells stay exactly as written in that file.
    """
    if out.suffix.lower() != ".csv":
        return to_table_file(_changed_frame(frame, rows, labels, target), out, sheet=form.sheet), []
    if table.is_dir() or not is_text_file(table):
        changed = _changed_frame(frame, rows, labels, target)
        as_they_are, safe = (to_csv(changed, None, formulas=raw) for raw in (True, False))
    else:
        as_they_are, safe = (text_changed(table, form, rows, (target, labels), formulas=raw) for raw in (True, False))
    if formulas or safe == as_they_are:
        return as_they_are, []
    what = "cells that begin with =, +, -, @ or a tab got an apostrophe in front, so that no spreadsheet runs them"
    return safe, [f"In {out}, {what}. --formulas leaves them as they are."]


def _changed_frame(frame: pd.DataFrame, rows: Collection[int], labels: Mapping[int, str], target: str) -> pd.DataFrame:
    """Return the table with some rows removed and labels changed; the type of the label column is kept if possible."""
    if labels:
        frame = frame.assign(**{target: _relabelled(frame[target], labels)})
    return frame.drop(index=list(rows))


def _relabelled(column: pd.Series[Any], labels: Mapping[int, str]) -> pd.Series[Any]:
    """Return a column with some labels changed; it becomes text if its type has no value that is written like a label.

    Args:
        column: the labels.
        labels: the new labels as texts, by row number.
    """
    rows, wanted, cells, dtype = list(labels), texts(column), cells_of(column), column.dtype
    wanted.iloc[rows] = list(labels.values())
    known = dict(zip(texts(column), cells, strict=True))
    new = [label for label in dict.fromkeys(labels.values()) if label not in known]
    if new and not (_of_one_type(dtype) or {*map(type, column.dropna())} <= {str}):
        return wanted  # a file has no column of dates and texts
    try:
        if isinstance(dtype, pd.CategoricalDtype) and new:
            added = pd.Index(new).astype(dtype.categories.dtype)
            known |= dict(zip(new, added, strict=True))
            dtype = pd.CategoricalDtype(dtype.categories.union(added, sort=False), dtype.ordered)
        cells[rows] = [known.get(label, label) for label in labels.values()]
        found = pd.Series(cells, index=column.index, name=column.name).astype(dtype)
    except (TypeError, ValueError):  # no number, date or truth value is written like this
        return wanted
    return found if texts(found).equals(wanted) else wanted


def _of_one_type(dtype: Any) -> bool:
    """Return whether all values of a column are of one type, and not any objects."""
    return not pd.api.types.is_object_dtype(dtype.categories if isinstance(dtype, pd.CategoricalDtype) else dtype)
