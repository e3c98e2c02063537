"""How a text file divides its lines: by what Excel's line `sep=;` names, or what gives its rows an equal length."""

from __future__ import annotations

import codecs
import csv
import io
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

# Characters between two values that are recognised. Of two at which the rows agree, the first is taken: text and
# numbers hold commas often, the others hardly ever.
SEPARATORS = ("\t", ";", "|", ",")
SAMPLE = 1_000  # lines from which the separator is told: enough for hundreds of rows, read in milliseconds
AGREEING = 0.5  # share of the rows that must have as many values as there are names: some files end rows too early
EXCEL_LINE = re.compile(r'"?sep=(.)"?\1*\s*', re.IGNORECASE)  # Excel's first line; a program may have filled it up


@dataclass(frozen=True)
class Division:
    """How the lines of a text file are divided."""

    sep: str
    excel_line: bool  # whether the first line is Excel's line `sep=;`, which belongs to no table

    @property
    def skipped(self) -> int:
        """Number of lines before the table."""
        return int(self.excel_line)


def division(content: bytes, encoding: str, sep: str | None = None) -> Division:
    r"""Tell how the lines of a text file are divided.

    Args:
        content: the file.
        encoding: its character encoding.
        sep: the separator, if it is known.

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
    """Return the lines of a text file with their ends as they are, without the mark that some files begin with."""
    name = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    return io.TextIOWrapper(io.BytesIO(content), name, newline="")


def _rank(sep: str, sample: list[str]) -> tuple[bool, bool, int]:
    """Return what makes a separator likelier than another, the most important first.

    A row of more values than there are names cannot be read: with such rows, a separator is taken for want of others.
    """
    rows: list[list[str]] = []
    with suppress(csv.Error):  # a quote that is not closed may have made too long a value of the rest
        rows.extend(row for row in csv.reader(sample, delimiter=sep) if row)
    if not rows:
        return False, False, 0
    n_names, n_agreeing = len(rows[0]), sum(len(row) == len(rows[0]) for row in rows[1:])
    if n_names > 1 and n_agreeing > 0 and n_agreeing >= AGREEING * len(rows[1:]):
        return True, max(map(len, rows[1:])) <= n_names, SEPARATORS[::-1].index(sep)
    return False, False, n_names
