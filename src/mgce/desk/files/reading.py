"""Count every line of a file that was read as a table, and report signs that lines were lost."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mgce._messages import NAMED, listed
from mgce.desk.files.layout import SHOWN, counted
from mgce.desk.files.separators import Division, long_cells, text_lines

if TYPE_CHECKING:
    import pandas as pd

# The attribute of a frame from an Excel file: a sentence for errors that names the sheet read and the others, or "".
SHEETS = "sheets"
LINE_BREAK = r"\r\n|\r|\n"


@dataclass(frozen=True)
class Lines:
    """The number of lines of a text file, in all and by what they hold, and of cells and rows that may be damaged."""

    total: int
    excel: int  # Excel's line `sep=;`: 0 or 1
    above: int  # lines above the names, such as a title
    names: int  # lines that hold the column names: more than one if a name holds a line break
    rows: int
    below: int  # lines below the table, such as totals
    blank: int
    in_cells: int  # lines that begin inside a cell, after a line break in it
    broken_cells: int  # cells that hold line breaks
    short_rows: int  # rows with fewer values than there are names
    first_short: int  # the line on which the first short row ends; 0 if there is none
    first_long: int  # the line on which the first row with more values than names ends; 0 if there is none


@dataclass(frozen=True)
class Reading:
    """A report on a file that was read as a table: numbers of rows, columns and lines, the format, and notes."""

    file: str
    rows: int  # of the table
    columns: int
    lines: Lines | None = None  # None for Parquet and others whose rows are no lines
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    source: str | None = None  # the format of a table whose cells have types, in words
    sentences: tuple[str, ...] = ()  # notes on content of the file that the table lacks or may misread
    # Blank lines of a file with lines, by the number of rows before each; None for Parquet.
    rows_before_blank: tuple[int, ...] | None = None
    classes: int = 0  # folders of pictures, if the rows are pictures in such folders
    header: int | None = None  # the number of the row of names in a spreadsheet; None for a file without such a row
    sheet: str | None = None  # the sheet of an Excel file

    @property
    def notes(self) -> list[str]:
        """Sentences for the user on content of the file that may be lost or misread."""
        return [*self.sentences, *(_on_lines(self.file, self.rows, self.lines) if self.lines else ())]

    def __str__(self) -> str:
        """Return the numbers of rows, columns and lines in one sentence."""
        if self.classes:
            pictures, folders = counted(self.rows, "picture"), counted(self.classes, "folder")
            return f"{self.file}: {pictures} in {folders}, one for each class."
        rows = f"{self.file}: {counted(self.rows, 'row')} of {counted(self.columns, 'column')}"
        if self.lines is None:
            return f"{rows}, from {self.source}."
        n = self.lines
        others = {"inside cells": n.in_cells, "blank": n.blank, "for Excel": n.excel}
        others |= {"above the names": n.above, "below the table": n.below}
        parts = [counted(self.rows, "row"), f"{n.names} of names"]
        parts += [f"{count:,} {what}" for what, count in others.items() if count]
        return f"{rows}, divided by {self.separator!r}; {counted(n.total, 'line')}: {', '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """Return the report on the file as plain values for JSON."""
        return {name: value for name, value in asdict(self).items() if name not in ("rows_before_blank", "header")}

    def spreadsheet_lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the line number that a spreadsheet shows for each row; None if the file has no lines.

        A spreadsheet counts lines from 1, and includes the line of names and blank lines. A row with line breaks inside
        cells is one line. Excel's line `sep=;` is not counted.

        Args:
            rows: numbers of rows, from 0.
        """
        if self.rows_before_blank is None:
            return None
        return np.asarray(rows + 2 + np.searchsorted(self.rows_before_blank, rows, side="right"), dtype=np.int64)


# How many cells of a column hold a word that counts as missing, by word and column.
Marks = Mapping[tuple[str, str], int]


def count_lines(
    content: bytes, encoding: str, divided: Division, missing: Collection[str] = ()
) -> tuple[Lines, list[str], tuple[int, ...], Marks]:
    """Count the lines of a text file by what they contain: names, rows, blanks, or parts of cells.

    Python's `csv` reader does the counting, independently of pandas. If the two find different numbers of rows, lines
    were lost.

    Args:
        content: the bytes of the file.
        encoding: the character encoding of the file.
        divided: how each line is split into values, and which lines hold the table.
        missing: words that count as missing.

    Returns:
        The counts; the column names; for each blank line, the number of rows before it; and for each of these words and
        each column, the number of cells that hold the word.
    """
    names: list[str] = []
    words, marks = {*missing} - {""}, Counter[tuple[str, str]]()
    before_blank: list[int] = []
    n = dict.fromkeys(("names", "rows", "below", "blank", "in_cells", "broken_cells", "short_rows"), 0)
    first_short = first_long = before = 0
    with long_cells(content), text_lines(content, encoding) as lines:
        reader = csv.reader((line.replace("\0", "\ufffd") for line in lines), delimiter=divided.sep)
        for _ in islice(reader, divided.skipped):
            before = reader.line_num
        above = before - divided.excel_line
        before_blank += [0] * divided.above  # a spreadsheet counts these rows as it counts blank ones
        for row in reader:
            taken, before = reader.line_num - before, reader.line_num
            if len(row) < 2 and not "".join(row).strip():
                n["blank"] += taken
                before_blank.append(n["rows"])
            elif not names:
                names, n["names"] = list(divided.names or row), taken
            elif n["rows"] == divided.rows:
                n["below"] += taken
            else:
                n["rows"] += 1
                if not words.isdisjoint(row):
                    marks.update((cell, name) for cell, name in zip(row, names, strict=False) if cell in words)
                if taken > 1:
                    n["in_cells"] += taken - 1
                    n["broken_cells"] += sum("\n" in cell or "\r" in cell for cell in row)
                if len(row) < len(names):
                    n["short_rows"] += 1
                    first_short = first_short or before
                elif len(row) > len(names) and any(row[len(names) :]):
                    first_long = first_long or before
    excel = int(divided.excel_line)
    counted = Lines(before, excel, above, **n, first_short=first_short, first_long=first_long)
    return counted, names, tuple(before_blank), marks


def on_marks(marks: Marks, classes: Collection[str]) -> list[str]:
    """Say, in one sentence, which words count as missing in which columns; nothing if there are none.

    Args:
        marks: how often each word is in each column.
        classes: columns of classes, where the words are classes.

    Example:
        >>> on_marks({("n/a", "income"): 14, ("NULL", "income"): 1, ("n/a", "class"): 2}, ["class"])
        ['`n/a` and `NULL` count as missing: 15 cells of `income`.']
    """
    by_word, by_column = Counter[str](), Counter[str]()
    for (word, name), n in marks.items():
        if name not in classes:
            by_word[f"`{word}`"] += n
            by_column[name] += n
    if not by_word:
        return []
    *words, last = (word for word, _ in by_word.most_common())
    verb, said = ("count", f"{', '.join(words)} and {last}") if words else ("counts", last)
    columns = [f"{counted(n, 'cell')} of `{name}`" for name, n in by_column.most_common()]
    return [f"{said} {verb} as missing: {listed(columns, NAMED)}."]


def cells_with_line_breaks(frame: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on columns whose name or cells have line breaks.

    Such cells can come from quotes that open a cell and are never closed. All lines from such a quote to the next quote
    become one cell. Cells of Excel have no quotes, so there is no sentence on cells of an Excel file.

    Args:
        frame: the table that was read.
    """
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place].dropna()
        if len(f"{name}".splitlines()) > 1:
            yield f"The name of column `{name}` holds a line break."
        if SHEETS in frame.attrs or is_numeric_dtype(column) or is_datetime64_any_dtype(column):
            continue
        text = column.astype(object).map(str)
        broken = text[text.str.contains(r"[\r\n]").astype(bool)]
        if len(broken):
            breaks = counted(int(broken.str.count(LINE_BREAK).sum()), "line break")
            cells = "1 cell holds" if len(broken) == 1 else f"{len(broken):,} cells hold"
            yield (
                f"In column `{name}`, {cells} {breaks} (that of data row {row_number(broken, 0)}, "
                f"for one: {broken.iloc[0][:SHOWN]!r}). If they hold rows, a closing quote is missing there."
            )


def row_number(column: pd.Series[Any], position: int) -> int:
    """Return the number of a row in the original file, from 1, even if rows before it were left out of the table."""
    label = column.index[position]
    return 1 + (int(label) if isinstance(label, int | np.integer) else position)


def _on_lines(file: str, rows: int, lines: Lines) -> Iterator[str]:
    """Yield sentences on rows with too few values, and on lines that were lost."""
    if lines.short_rows:
        have = "1 row has" if lines.short_rows == 1 else f"{lines.short_rows:,} rows have"
        yield (
            f"{have} fewer values than there are names (the one that ends on line {lines.first_short}, for one); the "
            "rest counts as missing."
        )
    if lines.rows != rows:
        yield f"The lines of {file} do not add up: they hold {counted(lines.rows, 'row')}, and {rows:,} were read."
