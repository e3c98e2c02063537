"""Count the memory that data of Arrow and Parquet takes once each cell is spelled out, before it is unpacked."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._limits import TableSize

# Bytes of a cell in a frame of pandas: a number, or the place of a text; and of one that becomes an object of Python,
# such as a date, a decimal number or a list.
NUMBER, OBJECT = 8, 64
# Encodings of Parquet in which a cell of some bits may stand for a long text.
SHARING = {"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"}
# Rows of a Parquet file that are read at a time: few enough that a batch of ordinary columns takes some megabytes.
PARQUET_ROWS = 10_000
PART = 16  # parts of what a table may take, one of which texts that are only counted may take
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # kinds of messages of Arrow, from its Message.fbs


def memory_of(array: Any) -> int:
    """Return the bytes of an Arrow array and its pandas column; a value that cells share counts for each cell.

    Example:
        >>> import pyarrow as pa
        >>> texts = pa.array(["long" * 1000] * 3)
        >>> memory_of(texts), memory_of(texts.dictionary_encode())
        (24048, 24060)
    """
    import pyarrow.compute as pc
    import pyarrow.types as of

    kind, n = array.type, len(array)
    if hasattr(array, "storage"):
        return memory_of(array.storage)
    if of.is_dictionary(kind):
        places = array.indices.drop_null().to_numpy(zero_copy_only=False)
        return int(array.indices.nbytes + _each(array.dictionary)[places].sum())
    if _is_text(kind):
        return int(_each(array).sum())
    if of.is_run_end_encoded(kind) or of.is_union(kind):
        return n * int(array.nbytes)
    if of.is_list_view(kind) or of.is_large_list_view(kind):  # lists may be the same place of a longer one
        return OBJECT * n + int(pc.sum(pc.list_value_length(array)).as_py() or 0) * int(
            _each(array.values).max(initial=0)
        )
    if of.is_nested(kind):
        return OBJECT * n + sum(map(memory_of, _children(array)))
    simple = of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind) or of.is_timestamp(kind)
    return int(array.nbytes) + (NUMBER if simple else OBJECT) * n


def check_parquet(file: Any, size: TableSize, columns: Collection[str] | None = None) -> None:
    """Raise an error if the columns of a Parquet file would take too much memory, before they are unpacked.

    Args:
        file: the `pyarrow.parquet.ParquetFile`.
        size: the limit on the memory of the table.
        columns: the columns that are read; None for all.

    Raises:
        TooLargeError: if the columns would take more.
    """
    about, rows, texts = file.metadata, PARQUET_ROWS, set()
    total = about.num_rows * NUMBER * (about.num_columns if columns is None else len(columns))
    size.expect(total)
    for group in range(about.num_row_groups):
        for place in range(about.num_columns):
            chunk = about.row_group(group).column(place)
            name = chunk.path_in_schema.partition(".")[0]
            if columns is not None and name not in columns:
                continue
            total += max(NUMBER * chunk.num_values, chunk.total_uncompressed_size)
            size.expect(total)
            # A cell is at most as long as its chunk. A part of the limit at a time leaves room for copies.
            longest = PART * chunk.total_uncompressed_size
            if SHARING & {*chunk.encodings} and chunk.num_values * longest > size.most:
                texts.add(name)
                rows = min(rows, max(1, size.most // longest))
    if texts:
        total = 0
        for batch in file.iter_batches(rows, columns=[*texts]):
            total += sum(map(memory_of, batch.columns))
            size.expect(total)


def check_arrow(content: bytes, size: TableSize) -> None:
    """Raise an error if the batches of an Arrow file or stream would take too much memory, before they are unpacked.

    Args:
        content: the bytes of the file.
        size: the limit on the memory of the table.

    Raises:
        TooLargeError: if the batches would take more. ValueError: if the file is damaged.
    """
    total = 0
    try:
        for message, body in _messages(content):
            total += _unpacked(content, message, body)
            size.expect(total)
    except (struct.error, IndexError) as error:
        raise ValueError("it is no whole Arrow file") from error


def _is_text(kind: Any) -> bool:
    import pyarrow.types as of

    texts = (of.is_string, of.is_binary, of.is_large_string, of.is_large_binary, of.is_fixed_size_binary, _is_view)
    return any(is_of(kind) for is_of in texts)


def _is_view(kind: Any) -> bool:
    return str(kind) in ("string_view", "binary_view")


def _each(array: Any) -> NDArray[np.int64]:
    """Return the bytes of each cell in Arrow and pandas together: exact for text, an upper bound for nested cells."""
    import pyarrow.compute as pc
    import pyarrow.types as of

    if _is_view(array.type):  # a view of 16 bytes begins with the length
        views = np.frombuffer(array.buffers()[1], np.int32)[::4]
        is_valid = array.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.where(is_valid, views[array.offset : array.offset + len(array)], 0)
    elif _is_text(array.type):
        lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
    elif of.is_nested(array.type) or of.is_dictionary(array.type):
        lengths = np.full(len(array), memory_of(array))
    else:
        lengths = np.zeros(len(array))
    return np.asarray(2 * (NUMBER + lengths.astype(np.int64)))


def _children(array: Any) -> list[Any]:
    """Return the arrays that nested cells consist of."""
    import pyarrow.types as of

    if of.is_map(array.type):
        return [array.keys, array.items]
    return list(array.flatten()) if of.is_struct(array.type) else [array.flatten()]


def _messages(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield for each message in an Arrow file or stream the position of the message and that of its body."""
    if content.startswith(b"ARROW1"):
        (length,) = struct.unpack_from("<i", content, len(content) - 10)
        footer = _target(content, len(content) - 10 - length)
        for blocks in (_field(content, footer, 2), _field(content, footer, 3)):
            for place in _vector(content, blocks, 24):
                start, n_metadata = struct.unpack_from("<qi", content, place)
                yield _target(content, start + _prefix(content, start)), start + n_metadata
        return
    place = 0
    while place < len(content):
        prefix = _prefix(content, place)
        (length,) = struct.unpack_from("<i", content, place + prefix - 4)
        if length == 0:
            return
        message = _target(content, place + prefix)
        body_length = _field(content, message, 3)
        yield message, place + prefix + length
        (n_body,) = struct.unpack_from("<q", content, body_length) if body_length else (0,)
        if length < 0 or n_body < 0:
            raise IndexError
        place += prefix + length + n_body


def _unpacked(content: bytes, message: int, body: int) -> int:
    """Return how many bytes the buffers of a compressed message take once they are unpacked; 0 for other messages."""
    kind, header = _field(content, message, 1), _field(content, message, 2)
    if not (kind and header) or content[kind] not in (DICTIONARY_BATCH, RECORD_BATCH):
        return 0
    batch = _target(content, header)
    if content[kind] == DICTIONARY_BATCH:
        batch = _target(content, _field(content, batch, 1))
    if not _field(content, batch, 3):  # not compressed: the buffers lie in the file
        return 0
    total = 0
    for place in _vector(content, _field(content, batch, 2), 16):
        start, length = struct.unpack_from("<qq", content, place)
        if length > 0:
            total += max(0, *struct.unpack_from("<q", content, body + start))
    return total


# Tables of flatbuffers: a table begins with the distance back to the list of the distances of its fields.


def _prefix(content: bytes, place: int) -> int:
    """Return the bytes before a message's metadata: 8 since Arrow 0.15, 4 before."""
    return 8 if content[place : place + 4] == b"\xff" * 4 else 4


def _target(content: bytes, place: int) -> int:
    """Return the position to which the offset that is stored at a position points."""
    (distance,) = struct.unpack_from("<I", content, place)
    return int(place + distance)


def _field(content: bytes, table: int, number: int) -> int:
    """Return the position of field `number` of the FlatBuffers table at position `table`; 0 if the field is missing."""
    (back,) = struct.unpack_from("<i", content, table)
    (size,) = struct.unpack_from("<H", content, table - back)
    if 4 + 2 * number >= size:
        return 0
    (distance,) = struct.unpack_from("<H", content, table - back + 4 + 2 * number)
    return table + distance if distance else 0


def _vector(content: bytes, field: int, width: int) -> range:
    """Return the positions of the items, `width` bytes each, of the FlatBuffers vector to which `field` points."""
    if not field:
        return range(0)
    start = _target(content, field)
    (n,) = struct.unpack_from("<I", content, start)
    return range(start + 4, start + 4 + n * width, width)
