"""Compute keys that identify the rows of a table even after its file was sorted, edited or saved by a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from mgce._column_types import cells_of
from mgce._limits import CHUNK_ROWS
from mgce._text import spreadsheet_text
from mgce.desk.review.keys import DIGITS, example_keys, is_long, number_text


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
        names, is_named = [id], False
    else:
        names, is_named = sorted(name for name in frame.columns if name != target), True

    plain = [spreadsheet_text(name) for name in names]

    def content(table: pd.DataFrame, *, exact: bool = False) -> Iterator[Sequence[str]]:
        for first in range(0, len(table), CHUNK_ROWS):
            some = table.iloc[first : first + CHUNK_ROWS]
            columns = [_texts(some[name], exact=exact) for name in names]
            for row in zip(*columns, strict=True) if columns else [()] * len(some):
                named = (part for name, text in zip(plain, row, strict=True) if text for part in (name, text))
                yield [*named] if is_named else row

    return example_keys(content(frame), labels, lambda places: [*content(frame.iloc[places], exact=True)])


def _texts(column: pd.Series[Any], *, exact: bool = False) -> list[str]:
    """Return the cells as texts that do not depend on the type with which the column was read.

    Args:
        column: the cells.
        exact: whether different cells have different texts; otherwise texts are in standard form.
    """
    cells = cells_of(column)
    if column.dtype.kind in "iuf":
        form = _exact_number if exact else _number
        return ["" if number != number else form(number) for number in cells.tolist()]
    # Of a day without a time, only the day, as other programs write no midnight; and no apostrophe before a formula.
    texts = (spreadsheet_text(str(cell).removesuffix(" 00:00:00")) for cell in cells)
    whole = (text if exact else number_text(text) for text in texts)
    return [text if there else "" for text, there in zip(whole, column.notna(), strict=True)]


def _number(number: float) -> str:
    return str(int(number)) if isinstance(number, int) or is_long(number) else f"{number:.{DIGITS}g}"


def _exact_number(number: float) -> str:
    return repr(int(number) if number == number // 1 else number)
