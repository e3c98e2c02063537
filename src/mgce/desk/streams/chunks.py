"""Divide the rows of a table into chunks by their content: each chunk is a random sample, and fits the memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._messages import expected
from mgce.desk.files.parts import Parts, Unit
from mgce.desk.files.table_files import accounted
from mgce.desk.tables.rows import Split, require_columns
from mgce.desk.tables.text_features import transformer

ROW = "mgce: number of the row"  # the column that chunks have beside those of the table
FIXED_BYTES = 1_250_000_000  # that libraries and the kernel regression take, measured as those of `RowBytes`
MOST_ROWS = 50_000  # of a chunk: the first one is fitted to twice, and no tree learns more than 100,000 rows anyway
HEAD_ROWS = 500  # by which the memory of a row is estimated
FEWEST_ROWS = 1_000  # of a chunk: a model of fewer says little


class RowBytes(NamedTuple):
    """The bytes of a row at the peak of a fit, measured on 20,000 to 100,000 rows of 20 and 256 columns.

    Attributes:
        cells: bytes for each byte of the row's cells.
        feature: bytes for each feature of the row.
        of_class: bytes for each class of the table.
    """

    cells: int = 3
    feature: int = 64
    of_class: int = 600


def parse_memory(text: str) -> int:
    """Return the bytes that a text such as 2GB or 500 MB stands for.

    Raises:
        ValueError: if the text is no number of bytes, or the memory is too little for the libraries.

    Example:
        >>> parse_memory("2GB"), parse_memory("1500 MB")
        (2000000000, 1500000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if not found:
        raise ValueError(expected("memory", "a number of bytes such as 2GB or 1500MB", text))
    power = "KMGT".index(found[2].upper()) + 1 if found[2] else 0
    size = int(float(found[1]) * (1024**power if found[3] else 1000**power))
    if size <= FIXED_BYTES:
        raise ValueError(
            expected("memory", f"more than {FIXED_BYTES // 10**6} MB, which libraries and models take", text)
        )
    return size


def n_chunks(parts: Parts, split: Split, memory: int) -> int:
    """Return into how many chunks to divide a table, so that a fit to one chunk takes at most `memory` bytes.

    Raises:
        ValueError: if the memory is too small.
    """
    _, table = next(parts.units[0].batches())
    frame = accounted(table.slice(0, HEAD_ROWS))[0]
    require_columns(frame, split)
    columns = split.columns(frame)
    selected, width = columns.select(frame), len(frame.columns)
    if columns.kinds:  # no column may have a value in the first rows
        width = transformer(selected, columns.kinds, split.seed).fit_transform(selected).shape[1]
    k = frame[split.target].nunique()
    cells = frame.memory_usage(deep=True).sum() / len(frame)
    # Heads of embeddings keep them in float32, and grow no tree.
    each = RowBytes(feature=32, of_class=60) if columns.width else RowBytes()
    row = each.cells * cells + each.feature * width + each.of_class * k
    rows = int((memory - FIXED_BYTES) / row)
    if rows < min(FEWEST_ROWS, parts.rows):
        least = math.ceil((FIXED_BYTES + FEWEST_ROWS * row) / 10**8) / 10
        raise ValueError(
            expected("memory", f"at least {least:g}GB for rows of {row:,.0f} bytes", f"{memory / 1e9:g}GB")
        )
    return -(-parts.rows // min(rows, MOST_ROWS))


@dataclass(frozen=True)
class Chunks:
    """A table divided into chunks, whose files lie in a folder that all processes reach."""

    folder: Path
    n: int
    by: tuple[str, ...]  # columns by whose content rows are divided: rows that are equal in them stay together
    rows: int  # of the table
    numbers: tuple[int, ...] = ()  # of the chunks in the names of their files, if some have no rows: see `with_rows`

    @classmethod
    def of(cls, folder: Path, n: int, parts: Parts, split: Split) -> Chunks:
        """Return the division of a table into n chunks, before any file of a chunk is written."""
        if ROW in parts.schema.names:
            raise ValueError(expected("table", "one without a column of this name", ROW))
        left_out = (split.target, *split.unlearnt)
        by = (split.groups,) if split.groups else tuple(name for name in parts.schema.names if name not in left_out)
        if not by:
            raise ValueError(expected("table", "a table with a column beside the target", "none"))
        return cls(folder, n, by, parts.rows)

    def scatter(self, numbered: tuple[int, Unit]) -> None:
        """Write the rows of a unit, given with its number, to one file for each chunk; replace earlier files."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        number, unit = numbered
        paths: dict[int, Path] = {}
        with ExitStack() as stack:
            writers: dict[int, Any] = {}
            for first, table in unit.batches():
                _check_finite(table, self.by, first, unit.name)
                place = chunk_of(table, self.by, self.n)
                table = table.append_column(ROW, pa.array(np.arange(first, first + len(table))))
                for chunk in np.unique(place).tolist():
                    if chunk not in writers:
                        paths[chunk] = self.folder / f"{chunk}-{number:06}.part"
                        writers[chunk] = stack.enter_context(
                            pq.ParquetWriter(paths[chunk], table.schema, compression="lz4")
                        )
                    writers[chunk].write_table(table.take(np.flatnonzero(place == chunk)))
        for path in paths.values():  # so that what a lost worker has half written is not read
            path.replace(path.with_suffix(".parquet"))

    def with_rows(self) -> Chunks:
        """Return the chunks that have rows, numbered anew: if few rows differ, some planned chunks are empty.

        Raises:
            ValueError: if fewer than two chunks have rows.
        """
        numbers = sorted({int(path.name.split("-")[0]) for path in self.folder.glob("*.parquet")})
        if len(numbers) < 2:
            what = "of rows, or of groups of them, that differ: they are divided by their content"
            raise ValueError(expected("table", what, "equal ones"))
        return replace(self, n=len(numbers), numbers=tuple(numbers))

    def frame(self, chunk: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """Return the rows of a chunk, and their numbers in the table from 0."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        number = self.numbers[chunk] if self.numbers else chunk
        table = pa.concat_tables([pq.read_table(path) for path in sorted(self.folder.glob(f"{number}-*.parquet"))])
        frame = accounted(table.drop_columns([ROW]))[0]
        return frame, table[ROW].to_numpy()


def _check_finite(table: Any, names: Sequence[str], first: int, part: str) -> None:
    """Raise an error for an infinite number in the columns `names` now, not after hours of learning."""
    import pyarrow as pa

    for name in names:
        if pa.types.is_floating(table.schema.field(name).type):
            infinite = np.flatnonzero(np.isinf(table[name].to_numpy()))
            if infinite.size:
                got = f"an infinite one in row {first + int(infinite[0]) + 1:,} of the table, in {part}"
                raise ValueError(expected(name, "a column of finite or missing numbers", got))


def chunk_of(table: Any, by: Sequence[str], n: int) -> NDArray[np.int64]:
    """Return the chunk of each row of an Arrow table: a hash of the cells in the columns `by`, as a number below n."""
    import pyarrow as pa

    # Of truth values, pandas makes other cells where one of them is missing.
    kinds = [pa.int8() if pa.types.is_boolean(table.schema.field(name).type) else None for name in by]
    some = [table[name] if kind is None else table[name].cast(kind) for name, kind in zip(by, kinds, strict=True)]
    frame = accounted(pa.table(dict(zip(map(str, range(len(by))), some, strict=True))))[0]
    try:
        each = pd.util.hash_pandas_object(frame, index=False)
    except TypeError:  # lists of several lengths, or structures: no object of Python that has a hash
        hashed = frame.apply(lambda column: column.map(str) if column.dtype == object else column)
        each = pd.util.hash_pandas_object(hashed, index=False)
    prints = pd.util.hash_array(each.to_numpy())
    return np.asarray((prints >> np.uint64(33)).astype(np.int64) * n >> 31)
