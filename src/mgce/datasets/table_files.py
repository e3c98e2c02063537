"""Read and write files of tables: text files such as CSV, also compressed by gzip, and formats with types."""

from __future__ import annotations

import gzip
import io
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgce._limits import read_at_most
from mgce._text import printable, spreadsheet_cell
from mgce._validation import expected, unknown_name
from mgce.datasets.excel_files import SUFFIX as EXCEL
from mgce.datasets.excel_files import to_excel
from mgce.datasets.reading import SHEETS, Reading, count_lines
from mgce.datasets.separators import Division, division, text_lines
from mgce.datasets.typed_tables import (
    READERS,
    Asked,
    Reader,
    SheetError,
    read_excel,
    read_python_frame,
    reader_of_content,
)
from mgce.datasets.vectors import with_vectors

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".txt", *READERS)  # suffixes of tables; each may have a further suffix .gz
OTHER_SPREADSHEETS = (".xls", ".xlsb", ".ods", ".numbers")  # which have to be saved as .xlsx first
# The texts that pandas reads as a missing value, from the documentation of `read_csv`.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
STDIN = Path("-")  # the path that stands for standard input, as in other commands of Unix


@dataclass(frozen=True)
class TextFormat:
    r"""The format of a table in a text or Excel file: separator, decimal separator, encoding, sheet.

    Attributes:
        sep: the character between two values; a tab may also be written as the two characters "\t", as on a command
            line. With None, the separator is detected: see :mod:`mgce.datasets.separators`.
        decimal: the decimal separator of numbers, one character.
        encoding: the character encoding, by its name in Python.
        sheet: the sheet of an Excel file; None for the first.
    """

    sep: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and len(self.separator) != 1:
            raise ValueError(expected("sep", r"one character, or \t", self.sep))
        if len(self.decimal) != 1:
            raise ValueError(expected("decimal", "one character", self.decimal))

    @property
    def separator(self) -> str | None:
        """The character between two values, with a written-out tab replaced; None if it is to be detected."""
        return None if self.sep is None else self.sep.replace(r"\t", "\t")


def is_table(path: Path) -> bool:
    """Return whether a file is a table, by the suffix of its name; standard input counts as one."""
    return path == STDIN or _without_gz(path).suffix.lower() in SUFFIXES


def table_name(path: Path) -> str:
    """Return the file name of a table without its folder and suffixes."""
    return "stdin" if path == STDIN else _without_gz(path).stem


def table_file_name(path: Path) -> str:
    """Return the file name of a table without its folder."""
    return "standard input" if path == STDIN else path.name


def read_frame(
    path: Path, name: str, text: Collection[str] = (), classes: Collection[str] = (), form: TextFormat | None = None
) -> pd.DataFrame:
    """Return the table in a file. :func:`read_accounted` returns a report on the file's lines too."""
    return read_accounted(path, name, text, classes, form)[0]


def read_accounted(
    path: Path, name: str, text: Collection[str] = (), classes: Collection[str] = (), form: TextFormat | None = None
) -> tuple[pd.DataFrame, Reading]:
    """Read a table from a file; return it with a report that accounts for every line of the file.

    Args:
        path: the file, or `STDIN`. Its suffix, without a final .gz, determines the format: see `READERS`. Files with
            any other suffix are read as text. On standard input, the first bytes determine the format.
        name: the name of the argument or option, for errors.
        text: columns of a text file whose values stay text as written, so that "007" does not become the number 7.
        classes: columns of classes in a text file, where only an empty value is missing: "NA" and "None" are read as
            classes.
        form: format of a text file; None for the defaults of `TextFormat`.

    Returns:
        The table and the report. Column names are text, and rows are numbered from 0. A named index of a Parquet file
        becomes the first columns, as in CSV.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if the file cannot be read as a table, has no rows, or has two columns of one name.
    """
    import pandas as pd

    if path != STDIN and not path.is_file():
        raise FileNotFoundError(expected(name, "the path of a file that exists", str(path)))
    form = form or TextFormat()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with more values than there are names
            content = _content(path)
            reader = _reader(path, content)
            _check_sheet(path, reader, form)
            if reader is None:
                frame, reading, names = _read_text(content, table_file_name(path), text, classes, form)
            else:
                asked = Asked(table_file_name(path), text, classes, MISSING, form.sheet, form.encoding)
                frame, reading, names = reader(io.BytesIO(content), asked).accounted(asked.file)
    except SheetError:
        raise
    except UnicodeDecodeError as error:
        encoded = f"a table in the encoding {form.encoding}"
        raise ValueError(expected(name, encoded, f"{path.name}, which is in another one; see --encoding")) from error
    except Exception as error:  # for a damaged file, pandas and pyarrow raise exceptions of many types
        reason = (str(error).splitlines() or ["unknown reason"])[0]
        sentence = f"Expected `{name}` to be a table, but {path.name} could not be read: {reason}"
        raise ValueError(printable(sentence)) from error
    return _checked(frame, names, name), reading


def accounted(table: Any, name: str = "table") -> tuple[pd.DataFrame, Reading]:
    """Return a pandas or polars frame in the form in which :func:`read_accounted` returns the table of a file.

    Args:
        table: the frame, or anything else that has a method `to_pandas`; it is not changed.
        name: the name of the argument, for errors.

    Raises:
        TypeError: if `table` is no frame. ValueError: if it has no rows, or two columns of one name.
    """
    frame, reading, names = read_python_frame(table).accounted("frame")
    return _checked(frame.copy(deep=False), names, name), reading


def _checked(frame: pd.DataFrame, names: list[str], name: str) -> pd.DataFrame:
    """Check that a table has columns and rows; return it with column names as text and rows numbered from 0.

    Args:
        frame: the table.
        names: names of its columns as they are written in the file.
        name: the name of the argument, for errors.
    """
    if len(frame) == 0:
        raise ValueError(expected(name, "a table with rows", "none") + sheets_of(frame))
    for column, n in Counter(names).items():
        if column and n > 1:
            sentence = f"Expected `{name}` to have columns of different names, but got {n} columns named {column!r}."
            raise ValueError(printable(sentence) + sheets_of(frame))
    frame.columns = frame.columns.map(str)
    return with_vectors(frame.reset_index(drop=True))


def require_column(frame: pd.DataFrame, name: object, option: str, table: str = "the table") -> None:
    """Raise an error unless the table has a column of this name.

    Args:
        frame: the table.
        name: name of the column.
        option: the name of the argument or option, for the error.
        table: what to call the table.

    Raises:
        ValueError: if there is no such column; the message states the most similar name, and all columns.
    """
    if name not in frame.columns:
        raise ValueError(unknown_name(option, f"a column of {table}", name, frame.columns) + sheets_of(frame))


def sheets_of(frame: pd.DataFrame) -> str:
    """Return a sentence for the end of an error: which sheet of an Excel file was read, and which others it has.

    It begins with a blank. Tables of other files, and of Excel files with one sheet, get no sentence.
    """
    sentence = frame.attrs.get(SHEETS)
    return f" {sentence}" if sentence else ""


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
        rows: numbers of the rows to remove, from 0, as :func:`read_frame` numbers them.
        cells: the name of a column, and its new cells by row number.
        formulas: whether to write cells that a spreadsheet would run as formulas unchanged.
    """
    content = _content(path)
    divided = division(content, form.encoding, form.separator)
    first = next(text_lines(content, form.encoding)) if divided.excel_line else ""
    table = _as_written(content, form, divided)
    name, changed = cells
    if changed:
        place = table.iloc[0].tolist().index(name)
        table.iloc[[row + 1 for row in changed], place] = list(changed.values())
    table = table if formulas else _without_formulas(table)
    kept: str = table.drop(index=[row + 1 for row in rows]).to_csv(
        index=False, header=False, sep=divided.sep, lineterminator="\n"
    )
    return f"{first}{kept}".encode(form.encoding)


def frame_as_written(path: Path, form: TextFormat) -> pd.DataFrame:
    """Return the table of a text file with each cell as the text that the file holds, rows numbered from 0."""
    content = _content(path)
    table = _as_written(content, form, division(content, form.encoding, form.separator))
    return table.iloc[1:].set_axis(table.iloc[0].tolist(), axis=1).reset_index(drop=True)


def _as_written(content: bytes, form: TextFormat, divided: Division) -> pd.DataFrame:
    """Return all cells of a text file as texts; the first row holds the names."""
    import pandas as pd

    whole: dict[str, Any] = {
        "sep": divided.sep,
        "encoding": form.encoding,
        "skiprows": divided.skipped,
        "header": None,
        "index_col": False,
        "dtype": "str",
        "na_filter": False,
        "low_memory": False,
    }
    table: pd.DataFrame = pd.read_csv(io.BytesIO(content), **whole)
    return table


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


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Return a table as the content of a Parquet file."""
    buffer = io.BytesIO()
    frame = frame.copy(deep=False)
    frame.attrs.clear()  # which sheet was read is no part of the table
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _content(path: Path) -> bytes:
    if path == STDIN:
        return read_at_most(sys.stdin.buffer)
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as file:
            return read_at_most(file)
    return path.read_bytes()


def is_text_file(path: Path) -> bool:
    """Return whether a table is a text file with a separator that can be read again."""
    return path != STDIN and _without_gz(path).suffix.lower() not in READERS


def _reader(path: Path, content: bytes) -> Reader | None:
    """Return the function that reads a file of a format with types; None for a text file.

    Raises:
        ValueError: if the file is of a spreadsheet format that is not supported.
    """
    if path == STDIN:
        return reader_of_content(content)
    suffix = _without_gz(path).suffix.lower()
    if suffix in OTHER_SPREADSHEETS:
        raise ValueError(f"save the sheet as .xlsx or .csv, since {suffix} is not read")
    return READERS.get(suffix)


def _check_sheet(path: Path, reader: Reader | None, form: TextFormat) -> None:
    """Raise an error if a sheet is requested of a file that is not an Excel file."""
    if form.sheet is not None and reader is not read_excel:
        raise SheetError(expected("sheet", f"left out, as {table_file_name(path)} is no Excel file", form.sheet))


def _read_text(
    content: bytes, file: str, text: Collection[str], classes: Collection[str], form: TextFormat
) -> tuple[pd.DataFrame, Reading, list[str]]:
    """Return the table of a text file, the report on the file, and the column names as they are written."""
    import pandas as pd

    divided = division(content, form.encoding, form.separator)
    lines, names, blank = count_lines(content, form.encoding, divided)
    options: dict[str, Any] = {"sep": divided.sep, "decimal": form.decimal, "encoding": form.encoding}
    options |= {"dtype": dict.fromkeys(text, "str"), "index_col": False, "low_memory": False}
    options["skiprows"] = divided.skipped
    if classes:
        columns = pd.read_csv(io.BytesIO(content), **options, nrows=0).columns
        missing = {column: [""] if column in classes else list(MISSING) for column in columns}
        options |= {"keep_default_na": False, "na_values": missing}
    try:
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(content), **options)
    except pd.errors.ParserWarning as error:
        row = f"the row that ends on line {lines.first_long}" if lines.first_long else "a row"
        raise ValueError(f"{row} has more values than there are names, {len(names)}") from error
    sentences: tuple[str, ...] = ()
    if form.decimal != ".":
        numbers = frame.select_dtypes("float").columns
        if len(numbers):  # read again as text, where thousands separators can be recognised
            options |= {"usecols": list(numbers), "dtype": "str"}
            sentences = tuple(_perhaps_thousands(pd.read_csv(io.BytesIO(content), **options), form.decimal))
        frame = _with_points(frame, text, form.decimal)
    written = divided.sep, form.decimal, form.encoding
    return frame, Reading(file, *frame.shape, lines, *written, sentences=sentences, rows_before_blank=blank), names


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
