"""Read a CSV file that this package wrote, even if a spreadsheet has saved it again."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from math import nan
from pathlib import Path

from mgce._messages import expected
from mgce._text import spreadsheet_text
from mgce.desk.files.parts import check_whole, is_parts
from mgce.desk.files.separators import division, encoding_of, long_cells, text_lines
from mgce.desk.files.table_files import read_frame


def rows_of_csv(path: Path, name: str) -> list[list[str]]:
    """Return the rows of a CSV file, the column names first, without the apostrophes that were put before formulas.

    Args:
        path: the file, in UTF-8 or as Excel in Western Europe saves it; or a folder of parts of Parquet with the same
            columns.
        name: the name of the argument or option, for errors.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if the file is not a CSV file, or the folder lacks a part.
    """
    if is_parts(path):
        check_whole(name, path)
        frame = read_frame(path, name)
        return [[*frame.columns], *map(list, frame.astype(str).itertuples(index=False, name=None))]
    if not path.is_file():
        raise FileNotFoundError(expected(name, "the path of a file that exists", str(path)))
    content = path.read_bytes()
    try:
        encoding = encoding_of(content)
        with long_cells(content):
            lines = io.StringIO(text_lines(content, encoding).read(), newline="")
            divided = division(content, encoding)
            rows = [row for row in csv.reader(lines, delimiter=divided.sep) if row][divided.skipped :]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(expected(name, "a CSV file", f"{path.name}, which could not be read")) from error
    return [[spreadsheet_text(cell) for cell in row] for row in rows]


def one_of(cells: Mapping[str, str], column: str, values: Collection[str], name: str, place: str) -> str:
    """Return the cell of a column, after checking that it holds one of the texts `values`.

    Args:
        cells: the cells of a row by the names of their columns.
        column: the name of the column.
        values: the texts that the cell may hold, at least two.
        name: the name of the argument or option, for errors.
        place: where the row is, for errors.

    Raises:
        ValueError: if the cell holds something else.
    """
    if cells[column] not in values:
        *some, last = (value or "nothing" for value in values)
        raise _misfit(cells, column, f"{', '.join(some)} or {last}", name, place)
    return cells[column]


def count_in(cells: Mapping[str, str], column: str, name: str, place: str) -> int:
    """Return the whole number from 1 in the cell of a column; arguments and errors are those of :func:`one_of`."""
    value = _number(cells[column])
    if not (value >= 1 and value % 1 == 0):
        raise _misfit(cells, column, "a whole number from 1", name, place)
    return int(value)


def probability_in(cells: Mapping[str, str], column: str, name: str, place: str) -> float:
    """Return the probability in the cell of a column; arguments and errors are those of :func:`one_of`."""
    value = _number(cells[column])
    if not 0 <= value <= 1:
        raise _misfit(cells, column, "a number in [0, 1]", name, place)
    return value


def _misfit(cells: Mapping[str, str], column: str, what: str, name: str, place: str) -> ValueError:
    """Return the error on a cell: what was expected in which column, what the cell holds, and where it is."""
    return ValueError(
        expected(name, f"a file with {what} in the column {column}", f"{cells[column] or 'nothing'} in {place}")
    )


def _number(cell: str) -> float:
    """Return the number in a cell, even if a spreadsheet has written it with a decimal comma; NaN for another text."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return nan
