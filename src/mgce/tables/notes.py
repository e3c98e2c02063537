"""What a table's owner should know before trusting a fit to it: columns and labels that look like mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mgce.tables.columns import CATEGORY, NUMBER, Columns, unlike_their_column

if TYPE_CHECKING:
    import pandas as pd

# Share of the rows with a value of their own from which on a column of categories looks like names of the rows: texts
# that people type, and names of people, repeat themselves more often.
UNIQUE = 0.9
MANY_ROWS = 20  # below, values that are all different or all equal say little
DECIMAL_COMMA = r"\s*[-+]?\d+,\d+\s*"
OTHER_DATE = r"\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b.*"


def notes_on(frame: pd.DataFrame, selected: pd.DataFrame, labels: pd.Series[Any], columns: Columns) -> list[str]:
    """Give a sentence for each thing in a table that looks like a mistake; none of them is mended.

    Args:
        frame: the table as read.
        selected: its features, as :meth:`Columns.select` gives them.
        labels: the target as text.
        columns: the kinds of the columns.
    """
    return [
        *unlike_their_column(frame, selected, columns.kinds),
        *_on_names(selected),
        *(sentence for name in columns.kinds for sentence in _on_values(selected[name], columns.kinds[name])),
        *(_on_copy(selected[name], labels) for name in columns.kinds if _tells_labels(selected[name], labels)),
        *_on_labels(labels),
    ]


def without_label(n: int) -> list[str]:
    """Say in a sentence, if there are any, how many rows without a label were left out."""
    rows = "1 row has no label and was" if n == 1 else f"{n:,} rows have no label and were"
    return [f"{rows} left out."] if n else []


def _on_names(selected: pd.DataFrame) -> Iterator[str]:
    for name in selected.columns:
        if re.fullmatch(r"Unnamed: \d+", name):
            yield (
                f"Column `{name}` has no name in the file. If it numbers the rows, leave it out: rows may be sorted by "
                "class."
            )
        original = re.fullmatch(r"(.+)\.\d+", name)
        if original and original[1] in selected.columns:
            yield f"Columns `{original[1]}` and `{name}` may have had the same name in the file."


def _on_values(values: pd.Series[Any], kind: str) -> Iterator[str]:
    """Look at one column: is it constant, a name of the rows, or of a form that was not understood?"""
    n, n_values = len(values), values.nunique()
    if n < MANY_ROWS:
        return
    if n_values == 1 and values.notna().all():
        yield f"Column `{values.name}` has the same value in every row."
    elif kind == CATEGORY:
        yield from _on_categories(values, n_values)
    elif kind == NUMBER and n_values == n and (values % 1 == 0).all():
        yield (
            f"Column `{values.name}` has another whole number in every row. If it counts or names them, pass it as the "
            "id, or leave it out."
        )


def _on_categories(values: pd.Series[Any], n_values: int) -> Iterator[str]:
    different = values.drop_duplicates().dropna().astype("str")
    if different.str.fullmatch(DECIMAL_COMMA).mean() > 1 / 2:
        yield (
            f"Column `{values.name}` looks like numbers with a decimal comma, but is taken as categories. See "
            "--decimal."
        )
    elif different.str.fullmatch(OTHER_DATE).mean() > 1 / 2:
        yield (
            f"Column `{values.name}` looks like dates, and is taken as categories: dates are known by their form, "
            "2024-05-31."
        )
    elif n_values > UNIQUE * len(values):
        yield (
            f"Column `{values.name}` has {n_values:,} different values in {len(values):,} rows. If it names them, pass "
            "it as the id, or leave it out."
        )


def _tells_labels(values: pd.Series[Any], labels: pd.Series[Any]) -> bool:
    """Tell whether each value comes with one label, and each label with one value."""
    n = labels.nunique()
    return bool(len(labels) >= MANY_ROWS and values.nunique() == n == len(set(zip(values, labels, strict=True))))


def _on_copy(values: pd.Series[Any], labels: pd.Series[Any]) -> str:
    return f"Column `{values.name}` tells the label of every row. If it is a copy of `{labels.name}`, leave it out."


def _on_labels(labels: pd.Series[Any]) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for label in sorted(labels.unique()):
        alike.setdefault(" ".join(label.split()).casefold(), []).append(label)
    for same in alike.values():
        if len(same) > 1:
            yield f"The classes {', '.join(map(repr, same))} differ in case or spaces only. Are they one?"
