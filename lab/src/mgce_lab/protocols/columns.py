"""Arrange the columns of tables of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def without_empty(cells: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the rows of a table without the columns that are empty in all rows."""
    return [{name: text for name, text in row.items() if any(other[name] for other in cells)} for row in cells]


def filled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table with the same columns in the same order in all rows; missing cells become "".

    Example:
        >>> filled([{"loss": "ce", "last": 1}, {"loss": "mae", "best": 2, "last": 3}])
        [{'loss': 'ce', 'best': '', 'last': 1}, {'loss': 'mae', 'best': 2, 'last': 3}]
    """
    every = dict.fromkeys(name for row in rows for name in row)  # in order, by which sorting leaves what is level
    names = sorted(every, key=lambda name: max(_place(row, name) for row in rows))
    return [{name: row.get(name, "") for name in names} for row in rows]


def _place(row: dict[str, Any], name: str) -> int:
    return list(row).index(name) if name in row else -1
