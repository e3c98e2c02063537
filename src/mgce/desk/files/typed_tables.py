"""Tell the format of a file, and read tables from formats with types: Parquet, Arrow, Excel, JSON lines, frames."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from mgce._arrow_sizes import OBJECT, PARQUET_ROWS, check_arrow, check_parquet, memory_of
from mgce._column_types import frame_of, of_arrow, of_values, plain
from mgce._limits import TABLE_CELLS, TableSize, TooLargeError, check_columns
from mgce.desk.files.excel_tables import EXCEL_ERRORS, sheet_table
from mgce.desk.files.layout import Asked
from mgce.desk.files.parts import Parts
from mgce.desk.files.reading import SHEETS, Reading, on_marks

if TYPE_CHECKING:
    import pandas as pd

PARQUET, ARROW, EXCEL, ZIP = "a Parquet file", "an Arrow file", "an Excel file", "a zip archive"
_SAVE = "save its table as .xlsx or .csv"
_UNPACK = "unpack it first"
# By how a file begins: what it is, and what to do about it.
_BEGINNINGS = {
    b"PAR1": (PARQUET, "name it .parquet"),
    b"ARROW1": (ARROW, "name it .arrow"),
    b"\x1f\x8b": ("packed by gzip", "name it .csv.gz, or unpack it"),
    b"BZh": ("packed by bzip2", _UNPACK),
    b"\xfd7zXZ\0": ("packed by xz", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("packed by Zstandard", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"Rar!": ("a RAR archive", _UNPACK),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an Excel file of before 2007, or one with a password", _SAVE),
    b"%PDF": ("a PDF file", _SAVE),
    b"SQLite format 3\0": ("a SQLite database", _SAVE),
    b"\x89HDF": ("an HDF5 file", _SAVE),
    b"\x93NUMPY": ("a NumPy array", "give it as features beside a table"),
}
# By a member of an archive.
_MEMBERS = {
    "xl/workbook.xml": (EXCEL, "name it .xlsx"),
    "xl/workbook.bin": ("a binary Excel file", _SAVE),
    "content.xml": ("a sheet of OpenDocument", _SAVE),
}
# By how a text begins, after the mark of its encoding.
_TEXTS = {
    re.compile(rb"(?:\xef\xbb\xbf)?\s*" + beginning): what
    for beginning, what in (
        (rb"\[\s*\{", ("a JSON array", "write one object a line and name it .jsonl")),
        (rb"(?s:<!--.*?-->\s*)?<(?i:!doctype html|html|head|body|table|div|meta)\b", ("an HTML page", _SAVE)),
        (rb"<\?xml\b", ("an XML file", _SAVE)),
    )
}


def kind_of(content: bytes) -> tuple[str, str] | None:
    """Return the format of a file in words, with advice; None for text with separators and for unknown formats.

    Example:
        >>> kind_of(b'[{"a": 1}]'), kind_of(b"a,b")
        (('a JSON array', 'write one object a line and name it .jsonl'), None)
    """
    if content.startswith(b"PK\x03\x04"):
        return _archive(content)
    texts = (what for beginning, what in _TEXTS.items() if beginning.match(content))
    return next(texts, None) or next((what for first, what in _BEGINNINGS.items() if content.startswith(first)), None)


def _archive(content: bytes) -> tuple[str, str]:
    try:
        with ZipFile(io.BytesIO(content)) as archive:
            names = {*archive.namelist()}
    except BadZipFile:
        return "a damaged zip archive", _UNPACK
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive", "give it as features beside a table"
    return next((what for name, what in _MEMBERS.items() if name in names), (ZIP, _UNPACK))


# Bytes that a line of JSON counts as, for its time; and a byte of a line, whose shortest value, `[],`, is an object.
JSON_LINE, JSON_BYTE = 256, 24


# A table, the report on how it was read, and the names of its columns as they stand in the file; "" for no name.
Read = tuple["pd.DataFrame", Reading, list[str]]


def read_parquet(content: io.BytesIO, asked: Asked) -> Read:
    """Read a Parquet file in batches of rows.

    A small file can contain a long text that is repeated in millions of rows. So the memory of the cells is estimated
    first, and counted once more while they are read.
    """
    import pyarrow.parquet as pq

    # Spark's dates (INT96) may lie outside the range of nanoseconds.
    with pq.ParquetFile(content, coerce_int96_timestamp_unit="us") as file:
        size = TableSize(asked.stored)
        check_parquet(file, size)
        return _of_batches(file.iter_batches(PARQUET_ROWS), file.schema_arrow, size, asked.file, "Parquet")


def read_parts(parts: Parts, name: str) -> Read:
    """Read all rows of a table in several files; `name` is what the report calls it."""
    size = TableSize(sum(file.stat().st_size for file in parts.files))
    return _of_batches(parts.batches(), parts.schema, size, name, parts.source, parts.notes)


def read_arrow(content: io.BytesIO, asked: Asked) -> Read:
    """Read an Arrow file or an Arrow stream; Feather files since version 2 are Arrow files."""
    import pyarrow as pa

    size = TableSize(asked.stored)
    check_arrow(content.getvalue(), size)
    if content.getvalue().startswith(b"ARROW1"):
        with pa.ipc.open_file(content) as file:
            batches = map(file.get_batch, range(file.num_record_batches))
            return _of_batches(batches, file.schema, size, asked.file, "Arrow")
    with pa.ipc.open_stream(content) as stream:
        return _of_batches(stream, stream.schema, size, asked.file, "Arrow")


def read_excel(content: io.BytesIO, asked: Asked) -> Read:
    """Read a sheet of an Excel file: a row of column names, and cells with the values that Excel last computed."""
    table = sheet_table(content, asked)
    frame = _typed(table.columns, asked, EXCEL_ERRORS)
    frame.attrs[SHEETS] = table.others
    words = {*asked.missing} - {"", *EXCEL_ERRORS}
    texts = ((cell, name) for name, cells in table.columns.items() for cell in cells if isinstance(cell, str))
    notes = [*table.notes, *on_marks(Counter(one for one in texts if one[0] in words), asked.classes)]
    frame, reading, names = _read(frame, asked.file, f"sheet {table.title!r} of Excel", notes, table.names)
    reading = replace(reading, rows_before_blank=table.rows_before_blank, header=table.header, sheet=table.title)
    return frame, reading, names


def read_json_lines(content: io.BytesIO, asked: Asked) -> Read:
    """Read a file with one JSON object on each line; keys are column names, and null is a missing value."""
    size = TableSize(asked.stored)
    columns: dict[str, list[Any]] = {}
    widths: dict[int, int] = {}  # how many keys an object has, by the number of its line
    for number, line in enumerate(io.TextIOWrapper(content, asked.encoding), 1):
        if line.strip():
            size.expect(JSON_BYTE * len(line))
            pairs = _object(line.lstrip("\ufeff"), number)
            size.add(sum(OBJECT + 2 * len(cell) for cell in pairs.values() if isinstance(cell, str)))
            size.add(JSON_LINE + OBJECT * len(pairs))
            _append(columns, pairs, len(widths))
            check_columns(len(columns))
            size.expect(OBJECT * len(widths) * len(columns))
            widths[number] = len(pairs)
    for values in columns.values():
        values.extend([None] * (len(widths) - len(values)))
    short = [number for number, width in widths.items() if width < len(columns)]
    notes = []
    if short:
        lack = "1 line lacks" if len(short) == 1 else f"{len(short):,} lines lack"
        notes.append(f"{lack} keys that others have (line {short[0]}, for one); these values count as missing.")
    columns = {name: _lists_as_text(values) for name, values in columns.items()}
    return _read(_typed(columns, replace(asked, missing=())), asked.file, "JSON lines", notes)


def _append(columns: dict[str, list[Any]], pairs: dict[str, Any], row: int) -> None:
    """Append the values of an object, which is row `row`, to their columns, after None for rows without a value."""
    for name, value in pairs.items():
        values = columns.setdefault(name, [])
        values.extend([None] * (row - len(values)))
        values.append(value)


def read_python_frame(table: Any) -> Read:
    """Convert a frame of pandas or polars, or any object with a method `to_pandas`, to a table.

    Raises:
        TypeError: if `table` is no such frame.
    """
    frame, source = frame_of(table), type(table).__module__.split(".")[0]
    if frame is None:
        raise TypeError(f"Expected `table` to be a frame of pandas or polars, but got {type(table).__name__!r}.")
    if frame.index.name is None and frame.index.dtype.kind in "iu":  # the numbers of rows, some left out before
        frame = frame.reset_index(drop=True)
    frame, notes = _with_index(frame)
    return _read(frame, "frame", source, notes)


Reader = Callable[[io.BytesIO, Asked], Read]
# By the last suffix of a file's name.
READERS: dict[str, Reader] = {
    ".parquet": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
    ".xlsx": read_excel,
    ".xlsm": read_excel,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
}
# By what a content is; an Excel file may have its parts under other names.
READS = {PARQUET: read_parquet, ARROW: read_arrow, EXCEL: read_excel, ZIP: read_excel}


def reader_of_content(content: bytes) -> Reader | None:
    """Return the function that reads a file, chosen by its content; None for a text file with a separator."""
    kind = kind_of(content)
    return READS.get(kind[0]) if kind else read_json_lines if content.startswith(b"{") else None


def _read(frame: pd.DataFrame, file: str, source: str, notes: Collection[str], names: list[str] | None = None) -> Read:
    """Return a table with the report: `source` is its format in words, and `names` are the column names in the file."""
    reading = Reading(file, *frame.shape, source=source, sentences=tuple(notes))
    return frame, reading, [*map(str, frame.columns)] if names is None else names


def _of_batches(
    batches: Iterable[Any], schema: Any, size: TableSize, file: str, source: str, notes: Collection[str] = ()
) -> Read:
    """Combine batches of Arrow into a table; count the memory of their cells, and stop if that is too much."""
    import pyarrow as pa
    from pyarrow.types import is_nested

    check_columns(len(schema))
    kept, rows = [], 0
    for batch in batches:
        rows += batch.num_rows
        cells = rows * max(1, len(schema))
        if cells > TABLE_CELLS:
            raise TooLargeError(f"{cells:,} cells, more than {TABLE_CELLS:,}")
        batch.validate()
        size.expect(sum(memory_of(column) for column in batch.columns if not is_nested(column.type)))
        batch.validate(full=True)  # finds, for one, text that is not UTF-8, which would only fail when it is used
        kept.append(batch)
        size.add(sum(map(memory_of, batch.columns)))
    frame, on_index = _with_index(of_arrow(pa.Table.from_batches(kept, schema)))
    return _read(frame, file, source, [*notes, *on_index])


def _with_index(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Turn a named index into columns, as in CSV; return the table, and a note if an unnamed index is left out."""
    import pandas as pd

    if isinstance(frame.index, pd.RangeIndex) and frame.index.name is None:
        return frame, []
    named = [level for level, name in enumerate(frame.index.names) if name is not None]
    all_named = len(named) == frame.index.nlevels
    if named:
        frame = plain(frame.reset_index(level=named, allow_duplicates=True))
    if all_named:
        return frame, []
    sentence = (
        "The index of the file has no name, and so is no column of the table. If it holds something to learn, name it."
    )
    return frame.reset_index(drop=True), [sentence]


def _object(line: str, number: int) -> dict[str, Any]:
    """Return the JSON object in one line of a file; raise an error if the line is no object."""
    try:
        value = json.loads(line, object_pairs_hook=_without_doubles)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"line {number} is no JSON object") from error
    if not isinstance(value, dict):
        raise ValueError(f"line {number} is no JSON object")
    # A list or an object in a cell stays as it would be written, but for lists of numbers, which may be vectors.
    return {
        key: json.dumps(cell) if isinstance(cell, dict) or (isinstance(cell, list) and not _is_vector(cell)) else cell
        for key, cell in value.items()
    }


def _is_vector(cell: list[Any]) -> bool:
    return bool(cell) and {*map(type, cell)} <= {int, float}


def _lists_as_text(cells: list[Any]) -> list[Any]:
    """Return the cells of a column, with lists as JSON texts unless all cells are vectors of one length."""
    lengths = {len(cell) if isinstance(cell, list) else 0 for cell in cells if cell is not None}
    if len(lengths) == 1:
        return cells
    return [json.dumps(cell) if isinstance(cell, list) else cell for cell in cells]


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has two values of one key")
    return found


def _typed(columns: dict[str, list[Any]], asked: Asked, errors: Collection[str] = ()) -> pd.DataFrame:
    """Return a frame of columns of Python values, with the types that pandas infers.

    Args:
        columns: the values of each column, by its name.
        asked: which columns become text, and which texts stand for missing values.
        errors: texts that stand for missing values in every column.
    """
    import pandas as pd

    def column(name: str, values: list[Any]) -> pd.Series[Any]:
        missing = {*errors, *(("",) if name in asked.classes else asked.missing)}
        kept = [None if isinstance(value, str) and value in missing else value for value in values]
        if name not in asked.text:
            return of_values(kept)
        return pd.Series([None if value is None else str(value) for value in kept], dtype=object)

    return pd.DataFrame({name: column(name, values) for name, values in columns.items()})
