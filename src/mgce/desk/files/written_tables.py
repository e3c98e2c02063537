"""Write tables to files, in which no text is a formula that a spreadsheet would run: CSV, Parquet and Excel."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgce._messages import expected, not_installed
from mgce._text import spreadsheet_cell

if TYPE_CHECKING:
    import pandas as pd

EXCEL = ".xlsx"
LONGEST, LONGEST_NAME = 32_767, 31  # characters of a cell and of a sheet's name, from the specification of Excel
WHOLE = 10**15  # whole numbers from here on are written as text: Excel keeps 15 digits, and the others become 0
SHEET = "Sheet1"  # as Excel names the first sheet


def check_excel(option: str) -> None:
    """Raise an error if the library that writes Excel files is not installed.

    Args:
        option: the name of the option that asks for an Excel file, for the error.

    Raises:
        ValueError: if the library is not installed.
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
    columns = (column.astype(object).where(column.notna(), None) for _, column in frame.items())
    for row in zip(*columns, strict=True):
        page.append(_cells(page, row))
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _check_limits(frame: pd.DataFrame) -> None:
    """Raise an error if a table has more rows, columns or characters in a cell than an Excel file can have."""
    from openpyxl.xml.constants import MAX_COLUMN, MAX_ROW

    longest = max((len(cell) for _, column in frame.items() for cell in column if isinstance(cell, str)), default=0)
    for what, n, most in (
        ("rows", len(frame) + 1, MAX_ROW),
        ("columns", frame.shape[1], MAX_COLUMN),
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


def to_table_file(
    frame: pd.DataFrame, path: Path, digits: int | None = None, *, formulas: bool = False, sheet: str | None = None
) -> bytes:
    """Return a table as the content of a file, in the format that the suffix of its name states.

    Args:
        frame: the table.
        path: the path of the file: .parquet, .xlsx, or anything else for CSV.
        digits: significant digits of numbers in a CSV file: see :func:`to_csv`.
        formulas: whether a CSV file may have formulas: see :func:`to_csv`. Texts in other files are no formulas.
        sheet: the name of the sheet of an Excel file.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return to_parquet(frame)
    return to_excel(frame, sheet) if suffix == EXCEL else to_csv(frame, digits, formulas=formulas)


def to_csv(frame: pd.DataFrame, digits: int | None = 6, *, formulas: bool = False) -> bytes:
    """Return a table as the content of a CSV file.

    Args:
        frame: the table.
        digits: significant digits of every number; None for all.
        formulas: whether to write texts and names unchanged. By default, an apostrophe is put before texts and names
            that a spreadsheet would run as a formula.
    """
    float_format = None if digits is None else f"%.{digits}g"
    frame = frame if formulas else _without_formulas(frame)
    return frame.to_csv(index=False, float_format=float_format, lineterminator="\n").encode()


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with an apostrophe before each text or column name that a spreadsheet would run as a formula."""
    import pandas as pd

    def cell(value: Any) -> Any:
        return spreadsheet_cell(value) if isinstance(value, str) else value

    safe = frame.set_axis(range(frame.shape[1]), axis=1)  # names may be duplicated
    for place, dtype in enumerate(frame.dtypes):
        if dtype.kind not in "biufcmM":
            safe[place] = pd.Series(list(map(cell, safe[place])), index=frame.index, dtype=object)
    return safe.set_axis([cell(name) for name in frame.columns], axis=1)


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Return a table as the content of a Parquet file."""
    buffer = io.BytesIO()
    frame = frame.copy(deep=False)
    frame.attrs.clear()  # which sheet was read is no part of the table
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
