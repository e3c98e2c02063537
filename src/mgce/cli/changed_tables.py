"""Write the table that a command has read to a new file, with some rows removed and some labels changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from mgce.datasets.table_files import is_text_file
from mgce.datasets.text_tables import TextFormat
from mgce.datasets.written_tables import text_changed, to_csv, to_table_file


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
        same = {str(label): label for label in frame[target].dropna().unique()}
        column = frame[target].astype(object)
        column.iloc[list(labels)] = [same.get(label, label) for label in labels.values()]
        frame = frame.assign(**{target: column.astype(frame[target].dtype)})
    return frame.drop(index=list(rows))
