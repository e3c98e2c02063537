"""Limit the memory that reading a file may need: the limits, each with its reason, and functions that enforce them.

The size of a compressed file says little about the memory that its content needs. A megabyte of gzip may hold a
gigabyte, a megabyte of xz seven, and an array of a few bytes may claim any shape. So every reader of this package
checks sizes before it builds objects.
"""

from __future__ import annotations

from typing import Protocol
from zipfile import ZipFile

# Bytes that a file may hold once it is unpacked; for a moment twice as many are in memory. The largest that this
# package reads are the images of CIFAR-100, 154 MB; the largest that it writes are checkpoints, 300 MB for a ResNet-50
# with its momentum.
EXPANDED_BYTES = 1 << 29
# Cells of a table with types, however large its file: 2 GB as float64, and several times as much while a model is
# fitted to them.
TABLE_CELLS = 250_000_000
# Memory that a table of a small file may take while it is read; with 0.4 GB of libraries, 2 GB in all.
TABLE_BYTES = 3 << 29
# Times its size that a larger file may become: a text of ten equal columns, packed, becomes 100 times its size.
TABLE_EXPANSION = 100
# Columns of a table. Each takes about 10 kB in pandas and a millisecond in a fit. The widest tables that people
# measure, genes and their variants, have some ten thousands.
TABLE_COLUMNS = 50_000
# Members of an archive: a model file of a table has dozens, a Pipeline of a hundred steps some thousands.
MEMBERS = 20_000
# Rows that are predicted at once: a hundred columns of them, 6.5 MB, stay in a processor's cache, and 4,096 columns
# take 268 MB in float64.
CHUNK_ROWS = 8192


class Readable(Protocol):
    """A binary file, or an object that decompresses a binary file while it is read."""

    def read(self, size: int, /) -> bytes: ...


class TooLargeError(ValueError):
    """The error for a file whose content would need more memory than a limit allows."""


class TableSize:
    """Count the memory that the cells of a table take while they are read; raise an error before it is too much.

    Cells count as what they become: a text that a thousand cells share counts a thousand times.

    Example:
        >>> TableSize(stored=2_000).add(3_000_000_000)
        Traceback (most recent call last):
        mgce._limits.TooLargeError: its table takes more than 1.6 GB of memory, so split the file
    """

    def __init__(self, stored: int) -> None:
        """Set the limit by the size of the file as it is stored, in bytes."""
        self.most = max(TABLE_BYTES, TABLE_EXPANSION * stored)
        self.taken = 0

    def add(self, size: int) -> None:
        """Add `size` bytes to those that the table takes.

        Raises:
            TooLargeError: if the sum exceeds the limit.
        """
        self.expect(size)
        self.taken += size

    def expect(self, size: int) -> None:
        """Raise an error if `size` more bytes would exceed the limit.

        Raises:
            TooLargeError: if the sum would exceed the limit.
        """
        if self.taken + size > self.most:
            raise TooLargeError(f"its table takes more than {self.most / 1e9:.1f} GB of memory, so split the file")


def check_columns(n: int) -> None:
    """Raise an error if a table has too many columns.

    Raises:
        TooLargeError: if n exceeds `TABLE_COLUMNS`.
    """
    if n > TABLE_COLUMNS:
        raise TooLargeError(f"it has {n:,} columns, more than {TABLE_COLUMNS:,}")


def read_at_most(file: Readable, limit: int = EXPANDED_BYTES) -> bytes:
    """Return the content of a file that is decompressed while it is read; stop reading beyond the limit.

    Raises:
        TooLargeError: if the content is longer than `limit` bytes.

    Example:
        >>> import gzip, io
        >>> read_at_most(gzip.open(io.BytesIO(gzip.compress(b"abc"))), limit=3)
        b'abc'
    """
    parts, left = [], limit + 1
    while left > 0 and (part := file.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise TooLargeError(f"more than {limit:,} bytes when unpacked")
    return b"".join(parts)


def check_zip(archive: ZipFile, *, members: int = MEMBERS, limit: int = EXPANDED_BYTES) -> None:
    """Require a zip file to have few enough members, with a small enough total size when decompressed.

    The sizes are those in the directory of the zip file. `zipfile` never returns more bytes of a member than its size.

    Raises:
        TooLargeError: if the zip file has more members, or more bytes, than the limits allow.
    """
    infos = archive.infolist()
    if len(infos) > members:
        raise TooLargeError(f"{len(infos):,} members, more than {members:,}")
    total = sum(info.file_size for info in infos)
    if total > limit:
        raise TooLargeError(f"{total:,} bytes when unpacked, more than {limit:,}")
