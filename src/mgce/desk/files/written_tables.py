"""Write tables to files: CSV, without formulas that a spreadsheet would run, Parquet and Excel."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgce._text import spreadsheet_cell
from mgce.desk.files.excel_files import SUFFIX as EXCEL
from mgce.desk.files.excel_files import to_excel

if TYPE_CHECKING:
    import pandas as pd


def to_table_file(
    frame: pd.DataFrame, path: Path, digits: int | None = None, *, formulas: bool = False, sheet: str | None = None
) -> bytes:
    """Return a table as the content of a file, in the format that the suffix of its name states.

    Args:
        frame: the table.
        path: the path of the file: .parquet, .xlsx, or anything else for CSV.
        digits: of numbers in a CSV file: see :func:`to_csv`.
        formulas: of a CSV file: see :func:`to_csv`. Texts in other files are no formulas.
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
