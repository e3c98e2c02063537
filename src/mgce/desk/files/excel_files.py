"""Write a table as an Excel file, in which no text is a formula."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mgce._validation import expected, not_installed

if TYPE_CHECKING:
    import pandas as pd

SUFFIX = ".xlsx"
# The limits of Excel, from its specification: rows of a sheet, columns, characters of a cell and of a sheet's name.
MOST_ROWS, MOST_COLUMNS, LONGEST, LONGEST_NAME = 1_048_576, 16_384, 32_767, 31
WHOLE = 10**15  # whole numbers from here on are written as text: Excel keeps 15 digits, and the others become 0
SHEET = "Sheet1"  # as Excel names the first sheet


def check_excel(option: str) -> None:
    """Raise an error if the library that writes Excel files is not installed.

    Args:
        option: the name of the option that asks for an Excel file, for the error.

    Raises:
        ValueError: if it is not installed.
    """
    try:
        import openpyxl  # noqa: F401  # needed later
    except ImportError as error:
        raise ValueError(not_installed(f"Excel files, as --{option} asks for, need", "openpyxl", "cli")) from error


def to_excel(frame: pd.DataFrame, sheet: str | None = None) -> bytes:
    """Return a table as the content of an Excel file with one sheet.

    Texts are cells of text, so that Excel runs none as a formula. Missing values are empty cells. Whole numbers of more
    than 15 digits are text, since Excel would round them.

    Args:
        frame: the table.
        sheet: name of the sheet; None for the name that Excel gives the first one.

    Raises:
        ValueError: if the table exceeds a limit of Excel.
    """
    from openpyxl import Workbook

    _check_limits(frame)
    book = Workbook(write_only=True)
    page = book.create_sheet((sheet or SHEET)[:LONGEST_NAME])
    page.append(_cells(page, map(str, frame.columns)))
    # By column: a row of a frame would have one type, and integers would become floats.
    columns = [
        frame.iloc[:, place].astype(object).where(frame.iloc[:, place].notna(), None) for place in _places(frame)
    ]
    for row in zip(*columns, strict=True):
        page.append(_cells(page, row))
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _places(frame: pd.DataFrame) -> range:
    return range(frame.shape[1])


def _check_limits(frame: pd.DataFrame) -> None:
    """Raise an error if a table has more rows, columns or characters in a cell than an Excel file can have."""
    longest = max(
        (len(cell) for name in _places(frame) for cell in frame.iloc[:, name] if isinstance(cell, str)), default=0
    )
    for what, n, most in (
        ("rows", len(frame) + 1, MOST_ROWS),
        ("columns", frame.shape[1], MOST_COLUMNS),
        ("characters in a cell", longest, LONGEST),
    ):
        if n > most:
            fits = f"a table of at most {most:,} {what} for an Excel file; write .csv instead"
            raise ValueError(expected("table", fits, f"{n:,}"))


def _cells(page: Any, values: Iterable[Any]) -> list[Any]:
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    cells = []
    for value in values:
        plain = value.item() if hasattr(value, "item") else value
        plain = plain.to_pydatetime() if hasattr(plain, "to_pydatetime") else plain
        if isinstance(plain, dt.datetime) and plain.tzinfo is not None:
            plain = str(value)  # Excel has no time zones
        if isinstance(plain, int) and abs(plain) >= WHOLE:
            plain = str(plain)
        if plain is not None and not isinstance(plain, bool | int | float | dt.date | dt.time | dt.timedelta):
            plain = ILLEGAL_CHARACTERS_RE.sub("\ufffd", str(plain))
        cell = WriteOnlyCell(page, value=plain)
        if isinstance(plain, str):
            cell.data_type = "s"  # not "f", a formula, nor "e", an error
        cells.append(cell)
    return cells
