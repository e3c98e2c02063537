"""What a table's owner should know before trusting a fit to it: columns and labels that look like mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mgce.tables.columns import CATEGORY, NUMBER, Columns

if TYPE_CHECKING:
    import pandas as pd

UNIQUE = 0.9  # share of different values from which on a column of categories looks like names of the rows
MANY_ROWS = 20  # below, values that are all different or all equal say little


def notes_on(frame: pd.DataFrame, selected: pd.DataFrame, labels: pd.Series[Any], columns: Columns) -> list[str]:
    """Give a sentence for each thing in a table that looks like a mistake; none of them is mended.

    Args:
        frame: the table as read.
        selected: its features, as :meth:`Columns.select` gives them.
        labels: the target as text.
        columns: the kinds of the columns.
    """
    return [
        *_on_values(frame, selected, columns),
        *_on_names(selected),
        *_on_information(selected, labels, columns),
        *_on_labels(labels),
    ]


def _on_values(frame: pd.DataFrame, selected: pd.DataFrame, columns: Columns) -> Iterator[str]:
    for name, kind in columns.kinds.items():
        others = frame[name][selected[name].isna() & frame[name].notna()] if kind != CATEGORY else frame[name][:0]
        if len(others):
            rows = f"{len(others):,} row{'s' * (len(others) > 1)}"
            yield (
                f"Column `{name}` holds {kind}s, but something else in {rows} ({str(others.iloc[0])!r}, for one), which "
                "counts as missing."
            )


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


def _on_information(selected: pd.DataFrame, labels: pd.Series[Any], columns: Columns) -> Iterator[str]:
    if len(selected) < MANY_ROWS:
        return
    for name, kind in columns.kinds.items():
        values = selected[name]
        n_values = values.nunique()
        if n_values == 1 and values.notna().all():
            yield f"Column `{name}` has the same value in every row."
        elif kind == CATEGORY and n_values > UNIQUE * len(values):
            yield (
                f"Column `{name}` has {n_values:,} different values in {len(values):,} rows. If it names them, pass it "
                "as the id, or leave it out."
            )
        if n_values == labels.nunique() and len(set(zip(values, labels, strict=True))) == n_values:
            yield f"Column `{name}` tells the label of every row. If it is a copy of the target, leave it out."
        elif (
            kind == NUMBER
            and n_values == len(values)
            and (values.is_monotonic_increasing and (values.diff()[1:] == 1).all())
        ):
            yield f"Column `{name}` counts the rows. If they are sorted by class, leave it out."


def _on_labels(labels: pd.Series[Any]) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for label in sorted(labels.unique()):
        alike.setdefault(" ".join(label.split()).casefold(), []).append(label)
    for same in alike.values():
        if len(same) > 1:
            yield f"The classes {', '.join(map(repr, same))} differ in case or spaces only. Are they one?"
