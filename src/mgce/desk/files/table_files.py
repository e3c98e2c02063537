"""Read files of tables: text files such as CSV, also compressed by gzip, and formats with types."""

from __future__ import annotations

import gzip
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgce._limits import read_at_most
from mgce._messages import expected, unknown_name
from mgce._text import printable
from mgce.desk.files.layout import Asked, AskedError, Names
from mgce.desk.files.parts import Parts, is_parts
from mgce.desk.files.reading import SHEETS, Reading
from mgce.desk.files.separators import WESTERN, division
from mgce.desk.files.text_tables import MISSING, TextFormat, cells_as_written, read_text_table
from mgce.desk.files.typed_tables import (
    READERS,
    READS,
    Reader,
    kind_of,
    read_excel,
    read_parts,
    read_python_frame,
    reader_of_content,
)
from mgce.desk.files.vectors import with_vectors

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".txt", *READERS)  # suffixes of tables; each may have a further suffix .gz
OTHER_SPREADSHEETS = (".xls", ".xlsb", ".ods", ".numbers")  # which have to be saved as .xlsx first
JSON = ".json"  # which may hold anything, but rarely lines
GZIP = b"\x1f\x8b"  # how a file begins that gzip has packed
STDIN = Path("-")  # the path that stands for standard input, as in other commands of Unix


def is_table(path: Path) -> bool:
    """Return whether a path is a table: by the suffix of a file, and always for standard input or a folder of parts."""
    return path == STDIN or is_parts(path) or _without_gz(path).suffix.lower() in SUFFIXES


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
    path: Path,
    name: str,
    text: Collection[str] = (),
    classes: Collection[str] = (),
    form: TextFormat | None = None,
    names: Names | None = None,
) -> tuple[pd.DataFrame, Reading]:
    """Read a table from a file; return it with a report that accounts for every line of the file.

    Args:
        path: the file, a folder with parts of Parquet or Arrow, or `STDIN`. The suffix of a file, without a final .gz,
            determines the format: see `READERS`. Files with any other suffix are read as text. On standard input, the
            first bytes determine the format.
        name: the name of the argument or option, for errors.
        text: columns of a text file whose values stay text as written, so that "007" does not become the number 7.
        classes: columns of classes in a text file, where only an empty value is missing: "NA" and "None" are read as
            classes.
        form: format of a text file; None for the defaults of `TextFormat`.
        names: what is known of the row of names in a text or Excel file; None to take it from the other arguments.

    Returns:
        The table and the report. Column names are text, and rows are numbered from 0. A named index of a Parquet file
        becomes the first columns, as in CSV.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if `path` is any other folder, or the file cannot be read as a table, has no rows, or has two
            columns of one name.
    """
    import pandas as pd

    if is_parts(path):
        frame, reading, written = read_parts(Parts.of(path), table_file_name(path))
        return _checked(frame, written, name, text), reading
    if path != STDIN and path.is_dir():
        raise ValueError(expected(name, "a file with a table", f"the folder {path}{tables_in(path)}"))
    if path != STDIN and not path.is_file():
        raise FileNotFoundError(expected(name, "the path of a file that exists", str(path)))
    form = form or TextFormat()
    names = names or Names([*text, *classes], form.header, next(iter(classes), None))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with more values than there are names
            content = content_of(path)
            stored = len(content) if path == STDIN else path.stat().st_size
            reader = _reader(path, content)
            _check_sheet(path, reader, form)
            asked = Asked(table_file_name(path), text, classes, MISSING, form.sheet, form.encoding, stored, names)
            if reader is None:
                frame, reading, written = read_text_table(content, asked, form)
            else:
                frame, reading, written = reader(io.BytesIO(content), asked)
    except AskedError:
        raise
    except UnicodeDecodeError as error:
        encoded = f"a table in the encoding {form.encoding}"
        action = f" Excel in Western Europe writes --encoding {WESTERN}." if form.encoding != WESTERN else ""
        raise ValueError(expected(name, encoded, f"{path.name}, which is in another one") + action) from error
    except Exception as error:  # for a damaged file, pandas and pyarrow raise exceptions of many types
        reason = (str(error).splitlines() or ["unknown reason"])[0]
        sentence = f"Expected `{name}` to be a table, but {path.name} could not be read: {reason}"
        raise ValueError(printable(sentence)) from error
    return _checked(frame, written, name, text), reading


def accounted(table: Any, text: Collection[str] = ()) -> tuple[pd.DataFrame, Reading]:
    """Return a frame of pandas or polars as :func:`read_accounted` returns the table of a file, with a report.

    Args:
        table: the frame, or anything else that has a method `to_pandas`; it is not changed.
        text: columns that are no embeddings, even if their cells are lists of numbers.

    Raises:
        TypeError: if `table` is no frame. ValueError: if it has no rows, or two columns of one name.
    """
    frame, reading, names = read_python_frame(table)
    return _checked(frame.copy(deep=False), names, "table", text), reading


def _checked(frame: pd.DataFrame, names: list[str], name: str, text: Collection[str]) -> pd.DataFrame:
    """Check that a table has columns and rows; return it with column names as text and rows numbered from 0.

    Args:
        frame: the table.
        names: names of its columns as they are written in the file.
        name: the name of the argument, for errors.
        text: columns that are no embeddings.
    """
    if len(frame) == 0:
        action = " Write the names of the columns into one row, and a row for each example below it."
        raise ValueError(expected(name, "a table with rows", "none") + sheets_of(frame) + action)
    for column, n in Counter(names).items():
        if column and n > 1:
            sentence = f"Expected `{name}` to have columns of different names, but got {n} columns named {column!r}."
            raise ValueError(printable(sentence) + sheets_of(frame))
    frame.columns = frame.columns.map(str)
    return with_vectors(frame.reset_index(drop=True), text)


def require_column(frame: pd.DataFrame, name: object, option: str, table: str = "the table") -> pd.Series[Any]:
    """Return the column of this name.

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
    column: pd.Series[Any] = frame[name]
    return column


def sheets_of(frame: pd.DataFrame) -> str:
    """Return a sentence for the end of an error: which sheet of an Excel file was read, and which others it has.

    It begins with a blank. Tables of other files, and of Excel files with one sheet, get no sentence.
    """
    sentence = frame.attrs.get(SHEETS)
    return f" {sentence}" if sentence else ""


def frame_as_written(path: Path, form: TextFormat) -> pd.DataFrame:
    """Return the table of a text file with each cell as the text that the file holds, rows numbered from 0."""
    content = content_of(path)
    divided = division(content, form.encoding, form.separator, Names(row=form.header))
    table = cells_as_written(content, form, divided)
    return table.iloc[1:].set_axis(table.iloc[0].tolist(), axis=1).reset_index(drop=True)


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def content_of(path: Path) -> bytes:
    """Return the bytes of a file, unpacked if gzip has packed it; for `STDIN`, read standard input to its end."""
    if path == STDIN:
        return read_at_most(sys.stdin.buffer)
    with path.open("rb") as stored:
        packed = path.suffix.lower() == ".gz" or stored.read(len(GZIP)) == GZIP
    if packed:
        with gzip.open(path) as file:
            return read_at_most(file)
    return path.read_bytes()


def tables_in(folder: Path) -> str:
    """Return words for an error that name a table in a folder, as Spark writes it; "" if there is none.

    Example:
        >>> tables_in(Path("nowhere"))
        ''
    """
    files = sorted(path for path in folder.rglob("*") if is_table(path) and path.name[0] not in "._" and path.is_file())
    if not files:
        return ""
    one = files[0].relative_to(folder)
    if len(files) == 1:
        return f", which holds {one}; give that file"
    return f" of {len(files):,} tables such as {one}; write them to one file"


def is_text_file(path: Path) -> bool:
    """Return whether a table is a text file with a separator that can be read again."""
    return path != STDIN and _without_gz(path).suffix.lower() not in READERS


def answer_suffix(table: Path) -> str:
    """Return the suffix for a table of predictions: that of the format of `table`, if mgce writes it, otherwise .csv.

    Example:
        >>> [answer_suffix(Path(name)) for name in ("a.xlsm", "a.parquet", "a.tsv", "folder", "-")]
        ['.xlsx', '.parquet', '.csv', '.csv', '.csv']
    """
    return {".xlsx": ".xlsx", ".xlsm": ".xlsx", ".parquet": ".parquet"}.get(table.suffix.lower(), ".csv")


def is_like(out: Path, table: Path) -> bool:
    """Return whether the file `out` may be a changed copy of the file of a table, by the suffixes of both names.

    Example:
        >>> is_like(Path("new.csv"), Path("old.tsv")), is_like(Path("new.xlsx"), Path("old.xlsm"))
        (True, False)
    """
    suffix, own = out.suffix.lower(), _without_gz(table).suffix.lower()
    if table == STDIN or table.is_dir():
        return False
    return (suffix in (".csv", own) and is_text_file(table)) or (suffix == own and READERS.get(own) is read_excel)


def _reader(path: Path, content: bytes) -> Reader | None:
    """Return the function that reads a file whose format has types, such as Excel or Parquet; None for a text file.

    Raises:
        ValueError: if the format of the file is not supported, or is not the one that its name states.
    """
    suffix = "" if path == STDIN else _without_gz(path).suffix.lower()
    reader = reader_of_content(content) if path == STDIN else READERS.get(suffix)
    kind = kind_of(content)
    if kind is not None and not (reader is not None and READS.get(kind[0]) is reader):
        raise ValueError(f"it is {kind[0]}; {kind[1]}")
    if suffix == JSON and re.match(rb"\s*[\[{]", content):
        raise ValueError("it is JSON; write one object a line and name it .jsonl")
    if suffix in OTHER_SPREADSHEETS:
        raise ValueError(f"save the sheet as .xlsx or .csv, since {suffix} is not read")
    return reader


def _check_sheet(path: Path, reader: Reader | None, form: TextFormat) -> None:
    """Raise an error if `form` names a sheet of a file that is no Excel file, or a row of names that it cannot have."""
    if form.header is not None and reader not in (None, read_excel):
        raise AskedError(expected("header", f"left out, as {table_file_name(path)} names its columns", form.header))
    if form.sheet is not None and reader is not read_excel:
        raise AskedError(expected("sheet", f"left out, as {table_file_name(path)} is no Excel file", form.sheet))
