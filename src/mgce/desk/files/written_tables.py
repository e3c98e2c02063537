"""Write tables to files: CSV, without formulas that a spreadsheet would run, Parquet and Excel."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgce._text import spreadsheet_cell
from mgce.desk.files.excel_files import SUFFIX as EXCEL
from mgce.desk.files.excel_files import to_excel
from mgce.desk.files.separators import division, text_lines
from mgce.desk.files.table_files import content_of
from mgce.desk.files.text_tables import TextFormat, cells_as_written

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


def text_changed(
    path: Path,
    form: TextFormat,
    rows: Collection[int] = (),
    cells: tuple[str, Mapping[int, str]] = ("", {}),
    *,
    formulas: bool = False,
) -> bytes:
    """Return the content of a text file after removing rows and replacing cells; all other cells stay as written.

    Unless `formulas` is true, a cell that a spreadsheet would run as a formula gets an apostrophe in front.

    Args:
        path: the original file.
        form: the format of the original file and of the returned content.
        rows: numbers of the rows to remove, from 0, as :func:`mgce.desk.files.table_files.read_frame` numbers them.
        cells: the name of a column, and its new cells by row number.
        formulas: whether to write cells that a spreadsheet would run as formulas unchanged.
    """
    content = content_of(path)
    divided = division(content, form.encoding, form.separator)
    first = next(text_lines(content, form.encoding)) if divided.excel_line else ""
    table = cells_as_written(content, form, divided)
    name, changed = cells
    if changed:
        place = table.iloc[0].tolist().index(name)
        table.iloc[[row + 1 for row in changed], place] = list(changed.values())
    table = table if formulas else _without_formulas(table)
    kept: str = table.drop(index=[row + 1 for row in rows]).to_csv(
        index=False, header=False, sep=divided.sep, lineterminator="\n"
    )
    return f"{first}{kept}".encode(form.encoding)
