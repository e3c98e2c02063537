"""Files of tables: CSV and its relatives, packed by gzip or not, and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgce._limits import EXPANDED_BYTES, TABLE_CELLS, TooLargeError, read_at_most
from mgce._validation import expected

if TYPE_CHECKING:
    import pandas as pd

PARQUET_ROWS = 10_000  # read at a time
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")  # of files that are taken for tables; those of text also with .gz
SEPARATORS = (",", ";", "\t", "|")
# What pandas takes for a missing value, as its page on `read_csv` lists it.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
STDIN = Path("-")  # the path that stands for standard input, as for other commands


@dataclass(frozen=True)
class TextFormat:
    r"""How a table is written as text.

    Attributes:
        sep: the character between two values, or "\t" as two characters, as a shell hands it over; None for the one of
            , ; | and tab that divides the first line into most names.
        decimal: the character before the decimals of a number.
        encoding: of the characters, as Python spells it.
    """

    sep: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.sep is not None and len(self.sep.replace(r"\t", "\t")) != 1:
            raise ValueError(expected("sep", r"one character, or \t", self.sep))
        if len(self.decimal) != 1:
            raise ValueError(expected("decimal", "one character", self.decimal))


def is_table(path: Path) -> bool:
    """Tell by its name whether a file is a table; standard input is one."""
    return path == STDIN or _without_gz(path).suffix.lower() in SUFFIXES


def table_name(path: Path) -> str:
    """Name a table after its file, without what the name ends in."""
    return "stdin" if path == STDIN else _without_gz(path).stem


def read_frame(
    path: Path, name: str, text: Collection[str] = (), classes: str | None = None, form: TextFormat | None = None
) -> pd.DataFrame:
    """Read a table as columns whose names are text.

    Args:
        path: the file: Parquet if its suffix is .parquet, else text, packed if the last suffix is .gz; or `STDIN`.
        name: what errors call it.
        text: columns of a text file whose values stay text as written, so that "007" does not become the number 7.
        classes: one of them, in which only an empty value is a missing one: "NA" and "None" are classes.
        form: how a text file is written.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if it cannot be read as a table, or has no rows.
    """
    import pandas as pd

    if path != STDIN and not path.is_file():
        raise FileNotFoundError(expected(name, "the path of a file that exists", str(path)))
    form = form or TextFormat()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more fields in a row than names
            if path.suffix.lower() == ".parquet":
                frame = _read_parquet(path)
            else:
                frame = _read_text(_content(path), text, classes, form)
    except UnicodeDecodeError as error:
        what = f"a table in the encoding {form.encoding}"
        raise ValueError(expected(name, what, f"{path.name}, which is in another one; see --encoding")) from error
    except Exception as error:  # pandas and pyarrow raise whatever they meet in a damaged file
        reason = (str(error).splitlines() or ["unknown reason"])[0]
        raise ValueError(f"Expected `{name}` to be a table, but {path.name} could not be read: {reason}") from error
    if len(frame) == 0:
        raise ValueError(expected(name, "a table with rows", "none"))
    frame.columns = frame.columns.map(str)
    return frame.reset_index(drop=True)


def to_csv(frame: pd.DataFrame) -> bytes:
    """Write a table as CSV, with six digits of every number."""
    return frame.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()


def to_parquet(frame: pd.DataFrame) -> bytes:
    """Write a table as Parquet."""
    buffer = io.BytesIO()
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


def _read_text(content: bytes, text: Collection[str], classes: str | None, form: TextFormat) -> pd.DataFrame:
    import pandas as pd

    sep = _separator(content, form.encoding) if form.sep is None else form.sep.replace(r"\t", "\t")
    options: dict[str, Any] = {"sep": sep, "decimal": form.decimal, "encoding": form.encoding}
    options |= {"dtype": dict.fromkeys(text, "str"), "index_col": False, "low_memory": False}
    if classes is not None:
        names = pd.read_csv(io.BytesIO(content), **options, nrows=0).columns
        missing = {column: [""] if column == classes else list(MISSING) for column in names}
        options |= {"keep_default_na": False, "na_values": missing}
    frame: pd.DataFrame = pd.read_csv(io.BytesIO(content), **options)
    return frame if form.decimal == "." else _with_points(frame, text, form.decimal)


def _separator(content: bytes, encoding: str) -> str:
    """Give the separator that divides the first line into most names; a comma where none does."""
    with io.TextIOWrapper(io.BytesIO(content), encoding) as lines:
        first = next((line for line in lines if line.strip()), "")
    return max(SEPARATORS, key=lambda sep: len(next(csv.reader([first], delimiter=sep), [])))


def _with_points(frame: pd.DataFrame, text: Collection[str], decimal: str) -> pd.DataFrame:
    """Write numbers with a point also in columns that pandas has left as text, because of a word among them."""
    for name in frame.select_dtypes(include=["object", "str"]).columns.difference(list(text)):
        numbers = frame[name].astype("str").str.fullmatch(rf"\s*[-+]?\d*\{decimal}\d+\s*").fillna(False).astype(bool)
        pointed = frame[name].where(~numbers, frame[name].str.replace(decimal, ".", regex=False))
        frame[name] = pointed
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file a few rows at a time, so that what it repeats cannot fill the memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        cells = file.metadata.num_rows * max(1, file.metadata.num_columns)
        if cells > TABLE_CELLS:
            raise TooLargeError(f"{cells:,} cells, more than {TABLE_CELLS:,}")
        batches, size = [], 0
        for batch in file.iter_batches(PARQUET_ROWS):
            batch.validate(full=True)  # text that is no UTF-8, for one, which would fail only where it is used
            batches.append(batch)
            size += batch.nbytes
            if size > 8 * cells + EXPANDED_BYTES:
                raise TooLargeError(f"more than {EXPANDED_BYTES:,} bytes of text when unpacked")
        frame: pd.DataFrame = pa.Table.from_batches(batches, file.schema_arrow).to_pandas()
    return frame
