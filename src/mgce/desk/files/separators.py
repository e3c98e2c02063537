"""Find the separator of a text file: the one that Excel's line `sep=;` states, or one that makes rows equally long."""

from __future__ import annotations

import codecs
import csv
import io
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from mgce._limits import TABLE_COLUMNS, TableSize, check_columns

# The separators that are recognised. If rows agree in length for several of them, the first in this tuple is taken:
# text and numbers often hold commas, and rarely the others.
SEPARATORS = ("\t", ";", "|", ",")
# Bytes of memory, while a text is read, for each of its bytes, of its lines and of its values: the text stands in the
# content, in the parser and in its column, and the place of a blank line is an object.
BYTE, LINE, CELL = 3, 64, 24
LONG = 8  # bytes for each byte of a line, of which there are copies while the separator is found
SAMPLE = 1_000  # first lines, from which the separator is found: hundreds of rows, read in milliseconds
AGREEING = 0.5  # share of the rows that must have as many values as there are names: some files have short rows
EXCEL_LINE = re.compile(r'"?sep=(.)"?\1*\s*', re.IGNORECASE)  # Excel's first line; programs may pad it with separators


@dataclass(frozen=True)
class Division:
    """How each line of a text file is split into values."""

    sep: str
    excel_line: bool  # whether the first line is Excel's `sep=;`, which is not part of the table

    @property
    def skipped(self) -> int:
        """The number of lines before the table: 1 if the file begins with Excel's line `sep=;`, otherwise 0."""
        return int(self.excel_line)


def check_text(content: bytes, sep: str | None, stored: int) -> None:
    """Raise an error if a text file has too many lines, values or columns for memory, before it is divided.

    Args:
        content: the bytes of the file.
        sep: the separator; None for those that are recognised.
        stored: the size of the file on disk.

    Raises:
        TooLargeError: if it has.
    """
    separators = [one.encode() for one in (SEPARATORS if sep is None else [sep])]
    lines = content.count(b"\n") + content.count(b"\r")
    size = TableSize(stored)
    size.add(BYTE * len(content) + LINE * lines)
    size.add(CELL * (lines + max(map(content.count, separators))))
    begin = 0
    while 0 <= begin < len(content):  # lines that are shorter have not as many values
        end = content.find(b"\n", begin + TABLE_COLUMNS)
        first = max(begin, content.rfind(b"\n", begin, begin + TABLE_COLUMNS) + 1)
        last = len(content) if end < 0 else end
        if last - first > TABLE_COLUMNS:
            size.expect(LONG * (last - first))
            parts = content[first:last].split(b"\r")
            check_columns(1 + max(part.count(one) for part in parts for one in separators))
        begin = end if end < 0 else end + 1


def division(content: bytes, encoding: str, sep: str | None = None) -> Division:
    r"""Find the separator by which the lines of a text file are split into values.

    Args:
        content: the bytes of the file.
        encoding: the character encoding of the file.
        sep: the separator; None to find it.

    Example:
        >>> division(b"Income (USD, net)\tage\n1\t2\n", "utf-8").sep
        '\t'
    """
    with text_lines(content, encoding) as lines:
        sample = list(islice(lines, SAMPLE))
    line = EXCEL_LINE.fullmatch(sample[0]) if sample else None
    if sep is None:
        sep = line[1] if line else max(reversed(SEPARATORS), key=lambda sep: _rank(sep, sample))
    return Division(sep, line is not None)


def text_lines(content: bytes, encoding: str) -> io.TextIOWrapper:
    """Open the content of a text file for reading line by line: line ends are kept, a byte order mark is removed."""
    name = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    return io.TextIOWrapper(io.BytesIO(content), name, newline="")


def _rank(sep: str, sample: list[str]) -> tuple[bool, bool, int]:
    """Return a sort key of a candidate separator; the candidate with the largest key is the most likely separator.

    A row with more values than column names cannot be read. So a separator that produces such rows ranks below a
    separator that produces none.
    """
    rows: list[list[str]] = []
    with suppress(csv.Error):  # after an unclosed quote, the rest may be one value that is too long
        rows.extend(row for row in csv.reader(sample, delimiter=sep) if row)
    if not rows:
        return False, False, 0
    n_names, n_agreeing = len(rows[0]), sum(len(row) == len(rows[0]) for row in rows[1:])
    if n_names > 1 and n_agreeing > 0 and n_agreeing >= AGREEING * len(rows[1:]):
        return True, max(map(len, rows[1:])) <= n_names, SEPARATORS[::-1].index(sep)
    return False, False, n_names
