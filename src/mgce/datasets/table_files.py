"""Files of tables: CSV and its relatives, packed by gzip or not, and Parquet."""

from __future__ import annotations

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
SEPARATORS = (",", ";", "\t", "|")
# What pandas takes for a missing value, as its page on `read_csv` lists it.
MISSING = (
    *("", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
STDIN = Path("-")  # the path that stands for standard input, as for other commands


@dataclass(frozen=True)
class TextFormat:
    """How a table is written as text.

    Attributes:
        sep: what stands between two values; None for the one of , ; | and tab that the first line has most often.
        decimal: what stands before the decimals of a number.
        encoding: of the characters, as Python spells it.
    """

    sep: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"


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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more fields in a row than names
            if path.suffix.lower() == ".parquet":
                frame = _read_parquet(path)
            else:
                frame = _read_text(_content(path), text, classes, form or TextFormat())
    except Exception as error:  # pandas and pyarrow raise whatever they meet in a damaged file
        reason = (str(error).splitlines() or ["unknown reason"])[0]
        raise ValueError(f"Expected `{name}` to be a table, but {path.name} could not be read: {reason}") from error
    if len(frame) == 0:
        raise ValueError(expected(name, "a table with rows", "none"))
    frame.columns = frame.columns.map(str)
    return frame.reset_index(drop=True)


def _content(path: Path) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read()
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as file:
            return read_at_most(file)
    return path.read_bytes()


def _read_text(content: bytes, text: Collection[str], classes: str | None, form: TextFormat) -> pd.DataFrame:
    import pandas as pd

    first = content.split(b"\n", 1)[0].decode(form.encoding, errors="replace")
    sep = max(SEPARATORS, key=first.count) if form.sep is None else form.sep
    options: dict[str, Any] = {"sep": sep, "decimal": form.decimal, "encoding": form.encoding}
    options |= {"dtype": dict.fromkeys(text, "str"), "index_col": False, "low_memory": False}
    if classes is not None:
        names = pd.read_csv(io.BytesIO(content), **options, nrows=0).columns
        missing = {column: [""] if column == classes else list(MISSING) for column in names}
        options |= {"keep_default_na": False, "na_values": missing}
    return pd.read_csv(io.BytesIO(content), **options)


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
            batches.append(batch)
            size += batch.nbytes
            if size > 8 * cells + EXPANDED_BYTES:
                raise TooLargeError(f"more than {EXPANDED_BYTES:,} bytes of text when unpacked")
        frame: pd.DataFrame = pa.Table.from_batches(batches, file.schema_arrow).to_pandas()
    return frame
