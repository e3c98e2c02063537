"""Read tables from text files such as CSV."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mgce._column_types import of_values
from mgce._messages import check_count, expected
from mgce.desk.files.layout import Asked, around
from mgce.desk.files.reading import Reading, count_lines, on_marks
from mgce.desk.files.separators import Division, check_text, division

if TYPE_CHECKING:
    import pandas as pd

# The texts that pandas reads as a missing value, from the documentation of `read_csv`.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)


@dataclass(frozen=True)
class TextFormat:
    r"""The format of a table in a text or Excel file: separator, decimal separator, encoding, sheet.

    Attributes:
        sep: the character between two values; a tab may also be written as the two characters "\t", as on a command
            line. With None, the separator is detected: see :mod:`mgce.desk.files.separators`.
        decimal: the decimal separator of numbers, one character.
        encoding: the character encoding, by its name in Python.
        sheet: the sheet of an Excel file; None to find it.
        header: the row with the names of the columns, from 1, as a spreadsheet counts; None to find it.
    """

    sep: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    sheet: str | None = None
    header: int | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and len(self.separator) != 1:
            raise ValueError(expected("sep", r"one character, or \t", self.sep))
        if len(self.decimal) != 1:
            raise ValueError(expected("decimal", "one character", self.decimal))
        if self.header is not None:
            check_count("header", self.header)

    @property
    def separator(self) -> str | None:
        """The character between two values, with a written-out tab replaced; None if it is to be detected."""
        return None if self.sep is None else self.sep.replace(r"\t", "\t")


def read_text_table(content: bytes, asked: Asked, form: TextFormat) -> tuple[pd.DataFrame, Reading, list[str]]:
    """Return the table of a text file, the report on the file, and the column names as they are written.

    Args:
        content: the bytes of the file.
        asked: what the caller knows of the table.
        form: the format of the file.

    Raises:
        ValueError: if the table is too large for memory, or if a row has more values than there are names.
    """
    import pandas as pd

    check_text(content, form.separator, asked.stored)
    divided = division(content, form.encoding, form.separator, asked.names)
    text, classes = asked.text, asked.classes
    lines, names, blank, marks = count_lines(content, form.encoding, divided, MISSING)
    options: dict[str, Any] = {"sep": divided.sep, "decimal": form.decimal, "encoding": form.encoding}
    options |= {"dtype": dict.fromkeys(text, "str"), "index_col": False, "low_memory": False}
    options |= {"skiprows": divided.skipped, "nrows": divided.rows}
    if divided.names:
        options |= {"names": [name or f"Unnamed: {place}" for place, name in enumerate(divided.names)], "header": 0}
    if classes:
        columns = pd.read_csv(io.BytesIO(content), **{**options, "nrows": 0}).columns
        missing = {column: [""] if column in classes else list(MISSING) for column in columns}
        options |= {"keep_default_na": False, "na_values": missing}
    try:
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(content), **options)
    except pd.errors.ParserWarning as error:
        row = f"the row that ends on line {lines.first_long}" if lines.first_long else "a row"
        raise ValueError(f"{row} has more values than there are names, {len(names)}") from error
    rounded = [name for name in frame.columns.difference([*text]) if _is_rounded(frame[name])]
    if rounded:
        again = pd.read_csv(io.BytesIO(content), **{**options, "usecols": rounded, "dtype": "str"})
        frame = frame.assign(**{name: _whole_again(again[name], frame[name]) for name in rounded})
    sentences = around(1 + divided.above, divided.title, divided.groups, lines.below, divided.remark)
    sentences += on_marks(marks, classes)
    if form.decimal != ".":
        numbers = frame.select_dtypes("float").columns
        if len(numbers):  # read again as text, where thousands separators can be recognised
            options |= {"usecols": list(numbers), "dtype": "str"}
            sentences += _perhaps_thousands(pd.read_csv(io.BytesIO(content), **options), form.decimal)
        frame = _with_points(frame, text, form.decimal)
    how = divided.sep, form.decimal, form.encoding
    reading = Reading(asked.file, *frame.shape, lines, *how, sentences=tuple(sentences))
    return frame, replace(reading, rows_before_blank=blank, header=1 + divided.above), names


def _is_rounded(column: pd.Series[Any]) -> bool:
    """Return whether a missing value may have made pandas round whole numbers, or read unsigned ones as texts."""
    if column.dtype.kind == "f":
        return bool((column.abs() >= 2**53).any())  # whole numbers of which a float holds only some
    return column.dtype.kind == "O" and bool((column == "").any())  # a missing value as a text is what that leaves


def _whole_again(written: pd.Series[Any], column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as whole numbers if its cells are written so and fit 64 bits; otherwise as pandas read it."""
    cells = written.dropna()
    if cells.str.fullmatch(r"\s*[-+]?\d+\s*").all():
        whole = of_values([None if cell != cell else int(cell) for cell in written])
        column = whole if whole.dtype.kind in "iu" else column
    return written if column.dtype.kind == "O" else column


def cells_as_written(content: bytes, form: TextFormat, divided: Division) -> pd.DataFrame:
    """Return all cells of a text file as texts; the first row holds the names."""
    import pandas as pd

    options: dict[str, Any] = {"sep": divided.sep, "encoding": form.encoding, "skiprows": divided.skipped}
    options |= {"header": None, "index_col": False, "dtype": "str", "na_filter": False, "low_memory": False}
    table: pd.DataFrame = pd.read_csv(io.BytesIO(content), **options)
    return table


def _perhaps_thousands(cells: pd.DataFrame, decimal: str) -> Iterator[str]:
    """Yield a sentence on each column in which every decimal separator could also be a thousands separator."""
    for name in cells:
        text = cells[name].dropna().astype("str")
        text = text[text.str.contains(decimal, regex=False)]
        if len(text) and text.str.fullmatch(rf"\s*[-+]?[1-9]\d{{0,2}}\{decimal}\d{{3}}\s*").all():
            cell = text.iloc[0].strip()
            yield (
                f"In column `{name}`, {cell!r} is read as {cell.replace(decimal, '.')}, since {decimal!r} was given as "
                "decimal. If it separates thousands there, leave that out."
            )


def _with_points(frame: pd.DataFrame, text: Collection[str], decimal: str) -> pd.DataFrame:
    """Exchange the decimal separator and the point in numbers of columns that pandas has left as text.

    Pandas leaves a column as text if a value is not a number, such as "unknown", or has points between thousands.
    Points between thousands become commas. If a point is decimal in any cell of a column, its numbers with points are
    unchanged.
    """
    from pandas.api.types import is_string_dtype

    # Text of any kind: pandas 2 has no dtype "str" by which to select it.
    for name in frame.columns[[is_string_dtype(dtype) for dtype in frame.dtypes]].difference(list(text)):
        cells = frame[name].astype("str")
        points, grouped, numbers = (
            cells.str.fullmatch(rf"\s*[-+]?{pattern}\s*", na=False).astype(bool)
            for pattern in (
                r"\d*\.\d+",
                rf"[1-9]\d{{0,2}}(?:\.\d{{3}})+(?:\{decimal}\d*)?",
                rf"[\d'\u2019\s]*\{decimal}\d+",
            )
        )
        if not (points & ~grouped).any():
            numbers |= grouped
        frame[name] = frame[name].where(~numbers, frame[name].str.translate(str.maketrans(f"{decimal}.", ".,")))
    return frame
