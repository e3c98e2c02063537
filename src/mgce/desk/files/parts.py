"""Read tables of several files, as Spark, Dask and DuckDB write them: folders of Parquet or Arrow, by row groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgce._arrow_sizes import PARQUET_ROWS, check_parquet
from mgce._limits import TableSize, TooLargeError
from mgce._messages import NAMED, expected, listed
from mgce._text import printable

FORMATS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc"}  # pyarrow's names, by the suffix of a part
PART = "part-{:05}-of-{:05}.parquet"  # the name of a part by its number, from 0, and their number: one is missed
ROWS_AT_ONCE = 50_000  # rows that are read at a time: 256 columns of them are 100 MB


def part_files(path: Path) -> list[Path]:
    """Return the files that a table consists of: those in a folder, sorted, or one Parquet or Arrow file; else none.

    Files and folders whose names begin with a point or an underscore, such as `_SUCCESS` of Spark, are no parts.
    """
    if not path.is_dir():
        return [path] if path.suffix.lower() in FORMATS and path.is_file() else []
    inside = (one for one in path.rglob("*") if one.suffix.lower() in FORMATS and not one.is_dir())
    return sorted(one for one in inside if not any(part[0] in "._" for part in one.relative_to(path).parts))


def is_parts(path: Path) -> bool:
    """Return whether a path is a folder with Parquet or Arrow files, the parts of a table."""
    return path.is_dir() and bool(part_files(path))


def check_whole(option: str, path: Path) -> None:
    """Raise an error if a folder lacks a part: names like `PART` state how many parts there are."""
    names = {file.name for file in part_files(path)}
    numbers = {int(found[1]) for name in names if (found := re.fullmatch(r"part-\d+-of-(\d+)\.parquet", name))}
    missing = sorted({PART.format(part, n) for n in numbers for part in range(n)} - names)
    if missing:
        raise ValueError(
            expected(option, "a folder with all its parts", f"{path.name} without {listed(missing, NAMED)}")
        )


def check_outside(option: str, path: Path, table: Path) -> None:
    """Raise an error if a path to write to lies in the folder of a table, where the output may be read as a part."""
    if table.is_dir() and path.resolve().is_relative_to(table.resolve()):
        raise ValueError(expected(option, f"a path outside the folder {table} of the table", str(path)))


@dataclass(frozen=True)
class Unit:
    """Some neighbouring rows of a table: a row group of Parquet, or a file of Arrow."""

    fragment: Any  # of pyarrow's dataset: it can be sent to another process, which then reads the rows
    schema: Any  # of the table
    first: int  # the number of its first row in the table, from 0
    rows: int

    @property
    def name(self) -> str:
        """The name of the file that holds the rows."""
        return Path(self.fragment.path).name

    def batches(self) -> Iterator[tuple[int, Any]]:
        """Yield the number of the first row of each batch of rows, and the batch as a table of Arrow.

        Raises:
            ValueError: if the file is damaged.
        """
        import pyarrow as pa

        first = self.first
        try:
            for batch in self.fragment.to_batches(schema=self.schema, batch_size=ROWS_AT_ONCE, use_threads=False):
                batch.validate(full=True)  # finds, for one, text that is not UTF-8
                yield first, pa.Table.from_batches([batch], self.schema)
                first += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self.name, error) from error


@dataclass(frozen=True)
class Parts:
    """A table in one or several files, whose rows are read when they are needed."""

    path: Path
    files: list[Path]
    schema: Any  # of all of them together, with the columns that folders such as `year=2024` stand for
    units: list[Unit]
    notes: list[str]  # on parts without rows

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(unit.rows for unit in self.units)

    @property
    def source(self) -> str:
        """The number of parts and their format, in words."""
        n = len(self.files)
        return f"{n:,} part{'s' * (n != 1)} of {'Parquet' if self.files[0].suffix.lower() == '.parquet' else 'Arrow'}"

    @classmethod
    def of(cls, path: Path) -> Parts:
        """Open all parts of a table, and check that they belong together; read no row.

        Raises:
            ValueError: if a part cannot be read, or has other columns than the first.
        """
        import pyarrow.dataset as ds

        files = part_files(path)
        if not files:
            raise ValueError(expected("table", "a Parquet or Arrow file, or a folder of such files", str(path)))
        kinds = {FORMATS[file.suffix.lower()] for file in files}
        if len(kinds) > 1:
            raise ValueError(expected("table", "a folder with parts of one format", "Parquet beside Arrow"))
        schema = _common_schema(path, files, kinds == {"parquet"})
        form: Any = "ipc"
        if kinds == {"parquet"}:  # Spark's dates (INT96) may lie outside the range of nanoseconds
            form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
        options = {"partitioning": "hive", "partition_base_dir": str(path)} if path.is_dir() else {}
        found = ds.dataset([str(file) for file in files], format=form, **options)
        for field in found.schema:
            if field.name not in schema.names:  # a column that the names of folders stand for
                schema = schema.append(field)
        units, empty, first = [], [], 0
        for fragment, file in zip(found.get_fragments(), files, strict=True):
            if not fragment.count_rows():
                empty.append(str(file.relative_to(path)) if path.is_dir() else file.name)
                continue
            for one in fragment.split_by_row_group() if kinds == {"parquet"} else [fragment]:
                rows = one.row_groups[0].num_rows if kinds == {"parquet"} else one.count_rows()
                units.append(Unit(one, schema, first, rows))
                first += rows
        if not units:
            raise ValueError(expected("table", "a table with rows", f"{len(files):,} parts without any"))
        notes = [f"{len(empty):,} of the {len(files):,} parts have no rows: {listed(empty, NAMED)}."] if empty else []
        return cls(path, files, schema, units, notes)

    def batches(self) -> Iterator[Any]:
        """Yield all rows as tables of Arrow."""
        for unit in self.units:
            for _, table in unit.batches():
                yield from table.to_batches(PARQUET_ROWS)


def unreadable(name: str, error: Exception) -> ValueError:
    """Return an error that names the part of a table that cannot be read."""
    reason = (str(error).splitlines() or ["unknown reason"])[0]
    return ValueError(printable(f"Expected `table` to be parts that can be read, but {name} could not be: {reason}"))


def _common_schema(path: Path, files: list[Path], is_parquet: bool) -> Any:
    """Return a schema that fits all parts: a column may hold whole numbers in one part, and be empty in another.

    Raises:
        ValueError: if a part cannot be read, has two columns of one name, or has other columns than the first part.
            Also if the types of a column cannot be united.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    names: list[str] = []
    fields: dict[str, Any] = {}
    beginning = ""  # the name of the first part
    for file in files:
        name = str(file.relative_to(path)) if path.is_dir() else file.name
        try:
            own = _parquet_schema(file) if is_parquet else ds.dataset(file, format="ipc").schema
        except (OSError, pa.ArrowException, TooLargeError) as error:
            raise unreadable(name, error) from error
        if (twice := next((one for one in own.names if own.names.count(one) > 1), None)) is not None:
            what = "parts whose columns have different names"
            raise ValueError(printable(expected("table", what, f"two columns {twice!r} in {name}")))
        if not beginning:
            beginning, names, fields, metadata = name, own.names, {field.name: field for field in own}, own.metadata
        if sorted(own.names) != sorted(names):
            lacks = [f"no column {column!r}" for column in names if column not in own.names]
            what = (lacks or [f"other columns ({listed([one for one in own.names if one not in names], NAMED)})"])[0]
            sentence = f"Expected `table` to be parts of the same columns as {beginning}, but {name} has {what}."
            raise ValueError(printable(sentence))
        for field in own:
            try:
                fields[field.name] = _united(fields[field.name], field)
            except pa.ArrowException as error:
                before = fields[field.name].type
                what = f"parts with one type of values in column `{field.name}`, such as {before} in {beginning}"
                raise ValueError(printable(expected("table", what, f"{field.type} in {name}"))) from error
    return pa.schema(fields.values(), metadata)


def _parquet_schema(file: Path) -> Any:
    """Return the schema of a Parquet file, and refuse one whose cells take much more memory than the file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
        check_parquet(opened, TableSize(file.stat().st_size))
        return opened.schema_arrow


def _united(one: Any, other: Any) -> Any:
    """Return an Arrow field that can hold the values of two fields; coded texts stay coded only if the types agree."""
    import pyarrow as pa

    if one.type.equals(other.type):
        return one
    kinds = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one.type, other.type))
    schemas = [pa.schema([one.with_type(kind)]) for kind in kinds]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0)
