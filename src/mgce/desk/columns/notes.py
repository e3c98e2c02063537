"""Write notes for the user on columns and labels of a table that look like mistakes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pandas as pd

from mgce.desk.columns.cells import DECIMAL_COMMA, DIGITS, GROUPED, ORDERS, ORDINAL, THOUSANDS
from mgce.desk.columns.kinds import (
    AS_WRITTEN,
    CATEGORY,
    MAX_MISFITS,
    NUMBER,
    TEXT,
    Columns,
    unlike_their_column,
)
from mgce.desk.columns.spellings import alike, near
from mgce.desk.columns.texts import MANY_ROWS, UNIQUE, unread, words_on_average
from mgce.desk.files.reading import cells_with_line_breaks

UNNAMED = r"Unnamed: \d+"  # the names that pandas gives to columns without a name
# Points between thousands cannot be told from decimal ones in fewer numbers. A tenth of the groups end in a zero, which
# a number does not keep.
MIN_WHOLE, MIN_POINTS, SHARE_OF_THREE = 3, 10, 0.75


def notes_on(
    frame: pd.DataFrame,
    selected: pd.DataFrame,
    labels: pd.Series[Any],
    columns: Columns,
    told: Collection[str] = (),
) -> list[str]:
    """Return sentences on all columns and labels of a table that look like mistakes; the table is not changed.

    Args:
        frame: the table as it was read.
        selected: its features, as :meth:`Columns.select` returns them.
        labels: the target as text.
        columns: the columns of the table and their kinds.
        told: columns whose kind the user stated; no note asks whether this kind is right.
    """
    return [
        *_on_formats(frame, selected, columns),
        *cells_with_line_breaks(frame),
        *unlike_their_column(frame, selected, columns.kinds),
        *_on_marks(frame, selected, columns),
        *_on_names(selected),
        *(note for name, kind in columns.kinds.items() if kind == NUMBER for note in _on_points(selected[name])),
        *(note for name in columns.kinds for note in _on_values(selected[name], columns, name in told)),
        *(note for name in columns.kinds for note in _on_copy(selected[name], labels)),
        *alike(labels, "classes"),
    ]


def without_label(n: int) -> list[str]:
    """Report, in one sentence if n > 0, that n rows without a label were left out."""
    rows = "1 row has no label and was" if n == 1 else f"{n:,} rows have no label and were"
    return [f"{rows} left out."] if n else []


def left_out_copies(n_copies: int, n: int) -> list[str]:
    """Report, if n rows include copies of other rows, that the copies were left out."""
    return _on_copies(n_copies, n, "They were left out, so that all figures are for distinct rows.")


def held_out_together(n_copies: int, n: int) -> list[str]:
    """Report, if n rows include copies of other rows, that all copies of a row were held out together or not at all."""
    return _on_copies(
        n_copies,
        n,
        "A row and its copies are held out together, and count as one row in the certificate and the figures, which "
        "are for distinct rows.",
    )


def _on_copies(n_copies: int, n: int, what: str) -> list[str]:
    verb = "is a copy" if n_copies == 1 else "are copies"
    said = f"{n_copies:,} of the {n:,} rows {verb}: equal to another row in all features and the label, more often than"
    return [f"{said} by chance. {what}"] if n_copies else []


def _on_names(selected: pd.DataFrame) -> Iterator[str]:
    """Report columns that had no name in the file, or the same name as another column."""
    for name in selected.columns:
        if re.fullmatch(UNNAMED, name):
            yield (
                f"Column `{name}` has no name in the file. If it numbers the rows, leave it out: rows may be sorted by "
                "class."
            )
        original = re.fullmatch(r"(.+)\.\d+", name)
        if original and original[1] in selected.columns:
            yield f"Columns `{original[1]}` and `{name}` may have had the same name in the file."


def _on_marks(frame: pd.DataFrame, selected: pd.DataFrame, columns: Columns) -> Iterator[str]:
    """Say how to read columns as categories where many rows hold a word that counts as missing."""
    for name, kind in columns.kinds.items():
        cells = frame[name][selected[name].isna() & frame[name].notna()]
        words = kind not in AS_WRITTEN and cells.astype(str).str.contains(r"[^\W\d_]").any()
        if words and len(cells) > MAX_MISFITS * frame[name].notna().sum():
            yield f"If words in column `{name}` are values and not marks of missing ones, pass --category '{name}'."


def _on_formats(frame: pd.DataFrame, selected: pd.DataFrame, columns: Columns) -> Iterator[str]:
    """Report columns whose cells could be read otherwise, and columns of categories that look like numbers or dates."""
    thousands = [name for name, form in columns.formats.items() if form == THOUSANDS]
    for name, kind in columns.kinds.items():
        text, values, form = frame[name].astype(object).map(str), selected[name], columns.formats.get(name)
        if kind == CATEGORY and len(frame) >= MANY_ROWS and (sentence := unread(values, thousands)):
            yield sentence
        pattern = {THOUSANDS: GROUPED, DECIMAL_COMMA: r".*[,.].*"}.get(str(form))
        if pattern is not None:
            for row in np.flatnonzero(text.str.fullmatch(pattern) & values.notna())[:1]:
                cell, value = text.iloc[row].strip(), f"{values.iloc[row]:.15g}"
                how = "decimal commas" if form == DECIMAL_COMMA and "," in cell else "thousands separators"
                yield f"Column `{name}` is read as numbers with {how}, {cell!r} as {value}."
        elif form in (DIGITS, ORDINAL, *ORDERS):
            for row in np.flatnonzero(values.notna())[:1]:
                cell, day = text.iloc[row].strip(), np.datetime64(int(values.iloc[row] // 1), "D")
                yield f"Column `{name}` is read as dates, {cell!r} as {day}."


def _on_points(values: pd.Series[Any]) -> Iterator[str]:
    """Report a column of decimal numbers whose decimal points look like thousands separators.

    In such a column, most numbers that are not whole have exactly three decimals, and all numbers are below 1000. Few
    columns of true decimals look like this.
    """
    numbers = np.unique(values.dropna())
    whole, others = numbers[numbers % 1 == 0], numbers[numbers % 1 != 0]
    if len(whole) < MIN_WHOLE or len(others) < MIN_POINTS or not (np.abs(numbers) < 1000).all():
        return
    steps = np.rint(others * 1000)
    three = np.isclose(others * 1000, steps, rtol=1e-12, atol=0) & (steps % 10 != 0)
    if np.mean(three) > SHARE_OF_THREE and (np.abs(others) >= 1).all():
        yield (
            f"Column `{values.name}` is read with decimal points, as in {others[0]:.3f}. If they stand between "
            "thousands, write it without them."
        )


def _on_values(values: pd.Series[Any], columns: Columns, is_told: bool) -> Iterator[str]:
    """Report a column that is constant or, if the user did not state its kind, may be of another kind or name rows."""
    n, n_values, kind = len(values), values.nunique(), columns.kinds[str(values.name)]
    if n < MANY_ROWS:
        return
    if n_values == 1 and values.notna().all():
        yield f"Column `{values.name}` has the same value in every row."
    elif is_told:
        yield from _on_spellings(values) if kind == CATEGORY else ()
    elif kind == TEXT:
        yield (
            f"Column `{values.name}` is read as text: {n_values:,} different values, of {words_on_average(values):.0f} "
            f"words on average. If its values are categories, pass --category '{values.name}'."
        )
    elif kind == CATEGORY:
        yield from _on_categories(values, n_values)
    elif re.fullmatch(UNNAMED, str(values.name)):
        return  # `_on_names` reports this column
    elif kind == NUMBER and n_values == n and (values % 1 == 0).all():
        yield (
            f"Column `{values.name}` has a different whole number in every row. {if_names(values.name)} If it only "
            f"counts them, pass --drop '{values.name}'."
        )


def if_names(column: object) -> str:
    """Return the advice to pass --id before the review if `column` names the rows."""
    return f"If it names the rows, pass --id '{column}' before you review, since it changes the keys of decisions."


def _on_categories(values: pd.Series[Any], n_values: int) -> Iterator[str]:
    """Report a column of categories if one has several spellings, or if the column looks like names of the rows."""
    yield from _on_spellings(values)
    if n_values > UNIQUE * len(values) and unread(values, []) is None:
        yield (
            f"Column `{values.name}` has {n_values:,} different values in {len(values):,} rows. "
            f"{if_names(values.name)} If it is text to learn from, pass --text '{values.name}'; otherwise --drop "
            f"'{values.name}'."
        )


def _on_spellings(values: pd.Series[Any]) -> Iterator[str]:
    for question in (*alike(values, "categories"), *near(values.value_counts().to_dict(), noun="category")):
        yield f"Column `{values.name}`: {question}"


def _on_copy(values: pd.Series[Any], labels: pd.Series[Any]) -> Iterator[str]:
    """Report a column whose values correspond to the labels one to one: each value has one label, and vice versa."""
    n = labels.nunique()
    if len(labels) >= MANY_ROWS and values.nunique() == n == len(set(zip(values, labels, strict=True))):
        what = f"If it is a copy of `{labels.name}`, leave it out."
        yield f"Column `{values.name}` determines the label of every row. {what}"
