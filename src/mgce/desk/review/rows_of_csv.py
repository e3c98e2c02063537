"""Read a CSV file that this package wrote, even if a spreadsheet has saved it again."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from mgce._text import spreadsheet_text
from mgce._validation import expected
from mgce.desk.files.parts import is_parts
from mgce.desk.files.separators import division, long_cells, text_lines
from mgce.desk.files.table_files import read_frame


def rows_of_csv(path: Path, name: str) -> list[list[str]]:
    """Return the rows of a CSV file, the column names first, without the apostrophes that were put before formulas.

    Args:
        path: the file, in UTF-8; or a folder of parts of Parquet with the same columns.
        name: the name of the argument or option, for errors.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if the file is not a CSV file in UTF-8.
    """
    if is_parts(path):
        frame = read_frame(path, name)
        return [[*frame.columns], *map(list, frame.astype(str).itertuples(index=False, name=None))]
    if not path.is_file():
        raise FileNotFoundError(expected(name, "the path of a file that exists", str(path)))
    content = path.read_bytes()
    try:
        with long_cells(content):
            lines = io.StringIO(text_lines(content, "utf-8").read(), newline="")
            divided = division(content, "utf-8")
            rows = [row for row in csv.reader(lines, delimiter=divided.sep) if row][divided.skipped :]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(expected(name, "a CSV file in UTF-8", f"{path.name}, which could not be read")) from error
    return [[spreadsheet_text(cell) for cell in row] for row in rows]


def number(cell: str) -> float:
    """Convert a cell to a number, even if a spreadsheet has written it with a decimal comma.

    Raises:
        ValueError: if the cell holds no number.
    """
    return float(cell.replace(",", "."))
