"""Compute keys that identify the rows of a table even after its file was sorted, edited or saved by a spreadsheet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mgce._text import spreadsheet_text
from mgce.review.keys import DIGITS, example_keys, number_text


def row_keys(frame: pd.DataFrame, target: str, id: str | None = None) -> list[str]:
    """Return for each row a key that depends neither on the row's label nor on the order of rows and columns.

    If a column names the rows and has a different value in every row, the key is made from this column. Otherwise it
    is made from all cells except the label. Empty cells are ignored, so a new column without values changes no key.

    Args:
        frame: the table.
        target: the column of the labels.
        id: the column that names the rows, if any.
    """
    labels = _texts(frame[target])
    if id is not None and frame[id].notna().all() and frame[id].is_unique:
        return example_keys(([text] for text in _texts(frame[id])), labels)
    names = sorted(name for name in frame.columns if name != target)
    columns = [_texts(frame[name]) for name in names]
    rows = zip(*columns, strict=True) if columns else [()] * len(frame)
    plain = [spreadsheet_text(name) for name in names]
    named = ([part for name, text in zip(plain, row, strict=True) if text for part in (name, text)] for row in rows)
    return example_keys(named, labels)


def _texts(column: pd.Series[Any]) -> list[str]:
    """Return the cells as texts that do not depend on the type with which the column was read."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        numbers = column.to_numpy(dtype=float, na_value=np.nan)
        return ["" if number != number else f"{number:.{DIGITS}g}" for number in numbers.tolist()]
    present = column.notna()
    # Of a day without a time, only the day, as other programs write no midnight; and no apostrophe before a formula.
    return [
        number_text(spreadsheet_text(str(cell).removesuffix(" 00:00:00"))) if there else ""
        for cell, there in zip(column, present, strict=True)
    ]
