"""Find the separator of a text file: the one that Excel's line `sep=;` states, or one that makes rows equally long."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice

from mgce._arrow_sizes import OBJECT
from mgce._limits import TABLE_COLUMNS, TableSize, check_columns
from mgce.desk.files.layout import (
    LAST_ROWS,
    Names,
    above_names,
    may_be_below,
    names_at,
    place_of,
    place_of_names,
    rows_of_table,
    title_of,
)

# The separators that are recognised. If rows agree in length for several of them, the first in this tuple is taken:
# text and numbers often hold commas, and rarely the others.
SEPARATORS = ("\t", ";", "|", ",")
# Bytes of memory, while a text is read, for each of its bytes and of its values: the text stands in the content, in the
# parser and in its column. The place of a blank line is an object.
BYTE, CELL = 3, 24
LONG = 8  # bytes for each byte of a line, of which there are copies while the separator is found
SAMPLE = 1_000  # first lines, from which the separator is found: hundreds of rows, read in milliseconds
AGREEING = 0.5  # share of the rows that must have as many values as there are names: some files have short rows
WESTERN = "cp1252"  # the encoding in which Excel saves CSV in Western Europe
EXCEL_LINE = re.compile(r'"?sep=(.)"?\1*\s*', re.IGNORECASE)  # Excel's first line; programs may pad it with separators


@dataclass(frozen=True)
class Division:
    """How each line of a text file is split into values, and which of them hold the table."""

    sep: str
    excel_line: bool  # whether the first line is Excel's `sep=;`, which is not part of the table
    above: int = 0  # rows above the names, such as a title, blank ones too
    names: tuple[str, ...] = ()  # of the columns, where they are not those of one row
    rows: int | None = None  # of the table, where totals or remarks stand below; None for all
    title: str = ""  # what stands above the names
    groups: str = ""  # a sentence on names of groups in the row above the names
    remark: str = ""  # what stands below the table

    @property
    def skipped(self) -> int:
        """The number of rows before the names, with Excel's line `sep=;`."""
        return self.above + self.excel_line


def check_text(content: bytes, sep: str | None, stored: int) -> None:
    """Raise an error if a text file has too many lines, values or columns for memory, before it is divided.

    Args:
        content: the bytes of the file.
        sep: the separator; None to check all separators that are recognised.
        stored: the size of the file on disk.

    Raises:
        TooLargeError: if the file has too many.
    """
    separators = [one.encode() for one in (SEPARATORS if sep is None else [sep])]
    lines = content.count(b"\n") + content.count(b"\r")
    size = TableSize(stored)
    size.add(BYTE * len(content) + OBJECT * lines)
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


def division(content: bytes, encoding: str, sep: str | None = None, asked: Names | None = None) -> Division:
    r"""Find the separator by which the lines of a text file are split into values, and where its table is.

    Args:
        content: the bytes of the file.
        encoding: the character encoding of the file.
        sep: the separator; None to find it.
        asked: what is known of the row of names; None for the first row of the file.

    Example:
        >>> division(b"Income (USD, net)\tage\n1\t2\n", "utf-8").sep
        '\t'
    """
    with text_lines(content, encoding) as lines:
        sample = list(islice(lines, SAMPLE))
    line = EXCEL_LINE.fullmatch(sample[0]) if sample else None
    sample = sample[line is not None :]
    asked = asked or Names()
    if sep is None:
        sep = line[1] if line else max(reversed(SEPARATORS), key=lambda sep: _rank(_rows(sep, sample), sep, asked))
    rows = {number: row for number, row in enumerate(_rows(sep, sample), 1) if any(cell.strip() for cell in row)}
    place = place_of(rows, asked)
    found = Division(sep, line is not None)
    if not rows:
        return found
    filled = [*rows.values()]
    own, names = filled[place], names_at(filled, place)
    title, groups = above_names(filled, place)
    # Blank lines at the beginning are none above the names: whoever reads the table leaves them out.
    found = replace(
        found,
        above=[*rows][place] - 1 if place else 0,
        names=() if names == own else tuple(names),
        title=title,
        groups=groups,
    )
    return _above_totals(content, encoding, found, names, asked.label)


def _above_totals(content: bytes, encoding: str, found: Division, names: list[str], label: str | None) -> Division:
    """Return the division; if totals or remarks stand below the table, state the number of the table's rows in it."""
    if label is None:
        return found
    with text_lines(content, encoding) as lines:
        last = _rows(found.sep, list(deque(lines, LAST_ROWS)))
    if not may_be_below(next((row for row in reversed(last) if row), []), names, label):
        return found
    with text_lines(content, encoding) as lines, suppress(csv.Error):
        every = islice(_reader(found.sep, lines), found.skipped, None)
        body = [row for row in every if len(row) > 1 or any(cell.strip() for cell in row)][1:]
        n = rows_of_table(body, names, label)
        return replace(found, rows=n, remark=title_of(body[n:])) if n < len(body) else found
    return found


def _reader(sep: str, lines: Iterable[str]) -> Iterator[list[str]]:
    return csv.reader((line.replace("\0", "\ufffd") for line in lines), delimiter=sep)


def _rows(sep: str, sample: list[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    with suppress(csv.Error):  # after an unclosed quote, the rest may be one value that is too long
        rows.extend(_reader(sep, sample))
    return rows


@contextmanager
def long_cells(content: bytes) -> Iterator[None]:
    """Let `csv` read cells as long as the content within the block: an unclosed quote makes one cell of many lines."""
    limit = csv.field_size_limit()
    csv.field_size_limit(max(limit, min(len(content), 2**31 - 1)))  # the largest limit on every platform
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def text_lines(content: bytes, encoding: str) -> io.TextIOWrapper:
    """Open the content of a text file for reading line by line: line ends are kept, a byte order mark is removed."""
    name = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    return io.TextIOWrapper(io.BytesIO(content), name, newline="")


def encoding_of(content: bytes) -> str:
    """Return the encoding of a text that is in UTF-8, or was saved by Excel in Western Europe."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return WESTERN
    return "utf-8"


def _rank(rows: list[list[str]], sep: str, asked: Names) -> tuple[int, bool, bool, int]:
    """Return a sort key of a candidate separator; the candidate with the largest key is the most likely separator.

    A row with more values than column names cannot be read. So a separator that produces such rows ranks below a
    separator that produces none. The number of wanted names that a separator produces decides before all else.
    """
    rows = [row for row in rows[(asked.row or 1) - 1 :] if any(row)]
    rows = rows if asked.row else rows[place_of_names(rows, asked.wanted) :]
    if not rows:
        return 0, False, False, 0
    found = len({*asked.wanted} & {*rows[0]})
    n_names, n_agreeing = len(rows[0]), sum(len(row) == len(rows[0]) for row in rows[1:])
    if n_names > 1 and n_agreeing > 0 and n_agreeing >= AGREEING * len(rows[1:]):
        return found, True, max(map(len, rows[1:])) <= n_names, SEPARATORS[::-1].index(sep)
    return found, False, False, n_names
