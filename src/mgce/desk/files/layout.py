"""Find where a sheet or a text file holds its table: under which title and row of names, and above which totals."""

from __future__ import annotations

import datetime as dt
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any

from mgce._messages import NAMED, expected, listed

# Rows at the beginning among which the names of columns are looked for, and at the end among which totals are: titles
# and remarks of office files take fewer.
FIRST_ROWS, LAST_ROWS = 30, 5
SHOWN = 40  # characters of a cell that a note shows: enough to find the cell
Row = Sequence[Any]


@dataclass(frozen=True)
class Names:
    """What is known of the row that names the columns.

    Attributes:
        wanted: names of columns that the row should hold; if there are none, it is the first row.
        row: the number of the row, from 1, as a spreadsheet shows it; None to find it.
        label: the column of labels: a last row without a label may be a total; None to take no row for a total.
    """

    wanted: Collection[str] = ()
    row: int | None = None
    label: str | None = None


@dataclass(frozen=True)
class Asked:
    """The caller's options for reading the cells of a table."""

    file: str  # the name of the file
    text: Collection[str] = ()  # columns whose values become text
    classes: Collection[str] = ()  # columns where no text stands for a missing value
    missing: Collection[str] = ()  # texts that stand for a missing value elsewhere, in formats that people type
    sheet: str | None = None  # of an Excel file; None to find it
    encoding: str = "utf-8"  # of JSON lines
    stored: int = 0  # bytes of the file on disk, before it is unpacked
    names: Names = field(default_factory=Names)


def around(row: int, title: str, groups: str, below: int, remark: str) -> list[str]:
    """Return sentences on what stands around a table: above the row of its names, and in the rows below it."""
    said = []
    if title or groups:
        under = f", below {title!r}" if title else ""
        said.append(f"The names of the columns are in row {row}{under}. --header states another row.")
    if groups:
        said.append(groups)
    if below:
        rows = "The last row was" if below == 1 else f"The last {below:,} rows were"
        said.append(f"{rows} left out as {f'a total or a remark ({remark!r})' if remark else 'empty'}.")
    return said


class AskedError(ValueError):
    """The error for a sheet or a row of names that was asked for and does not exist."""


def place_of(rows: Mapping[int, Row], asked: Names) -> int:
    """Return the index of the row that names the columns: the row that was asked for, or else the row that is found.

    Args:
        rows: the first rows of a file that have a value, by their number from 1.
        asked: what is known of the row.

    Raises:
        AskedError: if the row that was asked for has no value.
    """
    if asked.row is None:
        return place_of_names([*rows.values()][:FIRST_ROWS], asked.wanted)
    if asked.row not in rows:
        raise AskedError(expected("header", "the number of a row that names the columns", asked.row))
    return [*rows].index(asked.row)


def place_of_names(rows: Sequence[Row], wanted: Collection[str]) -> int:
    """Return the index of the row that names the columns.

    It is the row with most of the wanted names. If several rows are equal in this, it is the first of them with at
    least half as many values as the fullest row. If the names go on in the next row, it is the next row.

    Args:
        rows: the first rows of a file that have a value.
        wanted: names of columns.

    Example:
        >>> place_of_names([["Claims"], ["no", "outcome"], [1, "paid"]], ["outcome"])
        1
    """
    first = rows[:FIRST_ROWS]
    if not first or not wanted:
        return 0
    hits = [len({*wanted} & {*names_at(rows, place)}) for place in range(len(first))]
    half = max(map(_filled, first)) / 2
    full = [place for place, row in enumerate(first) if _filled(row) >= half]
    best = [place for place, n in enumerate(hits) if n == max(hits)]
    place = next((place for place in best if place in full), best[0])
    return place + 1 if _goes_on(rows, place) else place


def names_at(rows: Sequence[Row], place: int) -> list[str]:
    """Return the names of the columns in a row, "" for none.

    If the row above holds several texts, missing names are taken from it. Equal names then get the name of their group
    in front, which stands above the first column of the group.
    """
    own = [_text(cell) for cell in rows[place]]
    above = [_text(cell) for cell in rows[place - 1]] if _has_groups(rows, place) else []
    if not above:
        return own
    width = max(len(own), len(above))
    own, above = (row + [""] * (width - len(row)) for row in (own, above))
    names = [name or over for name, over in zip(own, above, strict=True)]
    count, group = Counter(names), ""
    for column, over in enumerate(above):
        group = over or group
        if count[own[column]] > 1 and own[column] and group:
            names[column] = f"{group} {own[column]}"
    return names


def rows_of_table(rows: Iterable[Row], names: Sequence[str], label: str | None) -> int:
    """Return how many of the rows under the names belong to the table; totals and remarks at the end do not.

    A row at the end is no part of the table if it is empty. A row with a text, but no label, is no part either if it
    holds one value alone, or the sum of the numbers above a cell.

    Args:
        rows: the rows under the names.
        names: the names of the columns.
        label: the name of the column of labels, which need not be there; None if no row may be a total.

    Example:
        >>> rows_of_table([["a", 1], ["b", 2], ["Total", 3]], ["y", "n"], "label")
        2
    """
    last: deque[Row] = deque(maxlen=LAST_ROWS)
    sums: dict[int, float] = {}
    n = 0
    for row in rows:
        n += 1
        if len(last) == LAST_ROWS:
            _add(sums, last[0])
        last.append(row)
    kept = n - len(last)
    for number, row in enumerate(last, kept + 1):
        if not _is_below(row, sums, names, label):
            kept = number
            _add(sums, row)
    return max(kept, min(n, 1))


def above_names(rows: Sequence[Row], place: int) -> tuple[str, str]:
    """Return the title above a row of names, and a sentence on names of groups in the row above it; "" for none."""
    if not _has_groups(rows, place):
        return title_of(rows[:place]), ""
    groups = listed([repr(text) for text in map(_text, rows[place - 1]) if text], NAMED)
    does = (
        "was left out" if names_at(rows, place)[: len(rows[place])] == [*map(_text, rows[place])] else "completes them"
    )
    return title_of(rows[: place - 1]), f"The row above the names ({groups}) {does}."


def title_of(rows: Iterable[Row]) -> str:
    """Return the first text in some rows, shortened for a note."""
    texts = (_text(cell) for row in rows for cell in row if not _is_empty(cell))
    text = next(texts, "")
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _has_groups(rows: Sequence[Row], place: int) -> bool:
    """Return whether the row above a row of names has names too; one text alone is a title."""
    return place > 0 and sum(map(bool, map(_text, rows[place - 1]))) > 1


def may_be_below(row: Row, names: Sequence[str], label: str | None) -> bool:
    """Return whether a last row may be a total or remark: it has no label or, without a label column, is half empty."""
    if label in names:
        place = names.index(label)
        return place >= len(row) or _is_empty(row[place])
    return len(names) <= 2 or _filled(row) <= len(names) / 2


def _is_below(row: Row, sums: dict[int, float], names: Sequence[str], label: str | None) -> bool:
    """Return whether a row at the end of a table is a total or a remark, given the sum of each column above it."""
    if not _filled(row):
        return True
    words = any(isinstance(cell, str) and not _is_empty(cell) and not _is_number(cell) for cell in row)
    if not words or not may_be_below(row, names, label):
        return False
    if _filled(row) == 1 and len(names) > 2:
        return True
    found = ((column, number_of(cell)) for column, cell in enumerate(row))
    return any(
        number is not None and sums.get(column) and isclose(number, sums[column], rel_tol=1e-6)
        for column, number in found
    )


def _add(sums: dict[int, float], row: Row) -> None:
    for column, cell in enumerate(row):
        number = number_of(cell)
        if number is not None:
            sums[column] = sums.get(column, 0.0) + number


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def were(n: int, noun: str) -> str:
    """Return a number with its noun, and "was" or "were"."""
    return f"{counted(n, noun)} {'was' if n == 1 else 'were'}"


def _goes_on(rows: Sequence[Row], place: int) -> bool:
    """Return whether the next row goes on with names: it fills gaps, has numbers below it, and leaves cells empty."""
    if len(rows) < place + 3:
        return False
    own, below, data = rows[place : place + 3]
    if any(map(_is_number, below)):
        return False
    fills = any(not _is_empty(cell) and _is_empty([*own, *below][column]) for column, cell in enumerate(below))
    numbers = any(_is_number(cell) and not _is_empty(name) for name, cell in zip(below, data, strict=False))
    return fills and numbers and any(map(_is_empty, below))


def number_of(cell: Any) -> float | None:
    """Return the number in a cell, also one written as text; None if there is none."""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell)
    try:
        return float(cell) if isinstance(cell, str) else None
    except ValueError:
        return None


def _is_number(cell: Any) -> bool:
    return number_of(cell) is not None or isinstance(cell, dt.date | dt.time)


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _filled(row: Row) -> int:
    return sum(not _is_empty(cell) for cell in row)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
