"""Read a sheet of an Excel file into columns, with notes on what a person does not see, or a table does not have."""

from __future__ import annotations

import difflib
import io
import posixpath
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

from mgce._limits import TableSize, check_zip
from mgce._messages import listed, not_installed, unknown_name
from mgce._text import printable
from mgce.desk.files.excel_xml import CELL, Cells, Dates, FirstCells, Range, Sheet, Tags, Texts, column_letters, is_true
from mgce.desk.files.layout import (
    Asked,
    AskedError,
    above_names,
    around,
    counted,
    names_at,
    place_of,
    rows_of_table,
    title_of,
)

# Numbers of the formats of dates and times that a file does not spell out, and those of East Asia, from the
# specification (ECMA-376, 18.8.30).
DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}


class Workbook:
    """An Excel file: the names of its sheets, and a method that reads one."""

    def __init__(self, content: IO[bytes], stored: int) -> None:
        """Read the list of sheets.

        Args:
            content: the file.
            stored: its size in bytes.

        Raises:
            ImportError: if openpyxl is not installed. ValueError: if the file is no Excel file.
        """
        try:
            import openpyxl  # noqa: F401  # knows the formats of dates
        except ImportError as error:
            raise ImportError(not_installed("Excel files need", "openpyxl", "cli")) from error
        self.size = TableSize(stored)
        self._archive = ZipFile(content)
        check_zip(self._archive)
        self.paths: dict[str, str] = {}  # from the name of a sheet to that of the part of the file that holds it
        self._visible: list[str] = []
        self._since_1904 = False
        self._others: dict[str, str] = {}
        self._read_sheets()

    @property
    def sheets(self) -> list[str]:
        """The names of the sheets of cells, hidden sheets last; sheets of charts have no cells.

        Raises:
            ValueError: if the file has no sheet of cells.
        """
        if not self.paths:
            raise ValueError("it has no sheet of cells")
        return sorted(self.paths, key=lambda name: name not in self._visible)

    def sheet(self, title: str, kind: type[Cells] = Cells) -> Sheet:
        """Return the cells of a sheet, or of its first rows if `kind` is `FirstCells`."""
        cells = self.cells(title, kind)
        for number in [number for number, row in cells.sheet.rows.items() if not row]:
            del cells.sheet.rows[number]
        cells.sheet.rows = dict(sorted(cells.sheet.rows.items()))
        self.size.add(CELL * len(cells.sheet.rows) * cells.sheet.width)
        return cells.sheet

    def cells(self, title: str, kind: Callable[..., Cells]) -> Cells:
        """Read the cells of a sheet, and return the reader, which holds them."""
        cells = kind(title, self.size, self._texts, Dates(self._formats, self._since_1904))
        with self._archive.open(self.paths[title]) as file:
            cells.read(file)
        return cells

    def fill_merged(self, sheet: Sheet, header: int) -> tuple[int, list[Range]]:
        """Copy the value of each range of merged cells to the cells of the range that have no value.

        A file stores the value in the first cell only. Ranges in the row of column names stay as they are: two columns
        may not have one name. Rows without a value of their own stay blank.

        Args:
            sheet: the sheet.
            header: the number of the row of names.

        Returns:
            The number of ranges in which a cell was filled, and the ranges in the row of names.
        """
        numbers, width, filled, names = [*sheet.rows], sheet.width, 0, []
        for first, left, last, right in sheet.merged:
            if numbers and first <= header <= last and right > left:
                names.append((first, left, last, right))
            anchor = sheet.rows.get(first, ())
            if not numbers or first <= header or len(anchor) < left or anchor[left - 1] is None:
                continue
            begin, end = bisect_left(numbers, first), bisect_right(numbers, last)
            places = range(left - 1, min(right, width))
            self.size.add(CELL * (end - begin) * len(places))
            filled += any([_fill(sheet.rows[number], places, anchor[left - 1]) for number in numbers[begin:end]])
        return filled, names

    def _read_sheets(self) -> None:
        """Read which sheets there are, and which part of the file holds each of them."""
        book = "xl/workbook.xml"
        for kind, target in self._relations("_rels/.rels").values():
            book = target.lstrip("/") if kind == "officeDocument" else book
        folder, name = posixpath.split(book)
        relations = self._relations(f"{folder}/_rels/{name}.rels")
        listed: list[tuple[str, str, str]] = []

        def start(tag: str, values: dict[str, str]) -> None:
            if tag == "workbookPr":
                self._since_1904 = is_true(values.get("date1904"))
            elif tag == "sheet":
                key = next((value for name, value in values.items() if name.endswith(" id")), "")
                listed.append((values.get("name", ""), key, values.get("state", "visible")))

        if book not in self._archive.namelist():
            raise ValueError(f"it is no Excel file: it holds no {book}")
        self._read(book, Tags(self.size, start))
        parts = {
            key: (kind, posixpath.normpath(posixpath.join("/", folder, path))[1:])
            for key, (kind, path) in relations.items()
        }
        for title, key, state in listed:
            kind, path = parts.get(key, ("", ""))
            if kind == "worksheet":
                self.paths[title] = path
                self._visible += [title] if state == "visible" else []
        self._others = dict(parts.values())

    def _relations(self, path: str) -> dict[str, tuple[str, str]]:
        """Return by id the kind and the path of each part of the file that the relations at `path` name."""
        found: dict[str, tuple[str, str]] = {}

        def start(tag: str, values: dict[str, str]) -> None:
            if tag == "Relationship":
                kind = values.get("Type", "").rpartition("/")[2]
                found[values.get("Id", "")] = (kind, values.get("Target", "").replace("\\", "/"))

        self._read(path, Tags(self.size, start))
        return found

    def _read(self, path: str, part: Tags | Texts) -> None:
        """Let `part` read the part of the file at `path`, if the file has such a part."""
        if path in self._archive.namelist():
            with self._archive.open(path) as file:
                part.read(file)

    @cached_property
    def _texts(self) -> list[str]:
        """Return the texts that cells refer to by their number."""
        texts = Texts(self.size)
        self._read(self._others.get("sharedStrings", ""), texts)
        return texts.texts

    @cached_property
    def _formats(self) -> list[tuple[bool, bool]]:
        """Return for each style of a cell whether it shows a date, and whether it shows a duration."""
        from openpyxl.styles.numbers import is_date_format, is_timedelta_format

        codes: dict[str, str] = {}
        styles: list[str] = []
        section = ""

        def start(tag: str, values: dict[str, str]) -> None:
            nonlocal section
            if tag in ("numFmts", "cellXfs", "cellStyleXfs", "dxfs"):
                section = tag
            elif tag == "numFmt" and section == "numFmts":
                codes[values.get("numFmtId", "")] = values.get("formatCode", "")
            elif tag == "xf" and section == "cellXfs":
                styles.append(values.get("numFmtId", "0"))

        self._read(self._others.get("styles", ""), Tags(self.size, start))
        kinds = {
            number: (is_date_format(codes[number]), is_timedelta_format(codes[number]))
            if number in codes
            else (int(number) in DATE_FORMATS, int(number) == 46)  # [h]:mm:ss, a duration
            for number in set(styles)
        }
        return [kinds[number] for number in styles]


def _fill(row: list[Any], places: range, value: Any) -> bool:
    """Set the empty cells in these places of a row to a value; return whether there were empty cells."""
    row.extend([None] * (places.stop - len(row)))
    empty = [place for place in places if row[place] is None]
    for place in empty:
        row[place] = value
    return bool(empty)


# What Excel shows in place of a value that it cannot compute, as a text.
EXCEL_ERRORS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!")


@dataclass(frozen=True)
class SheetTable:
    """The columns of a sheet, and what the reading report says about them."""

    title: str
    names: list[str]  # as they stand in the sheet; "" for a column without a name
    columns: dict[str, list[Any]]  # each under a name of its own
    notes: list[str]
    others: str  # a sentence that names the sheet that was read and the others; "" if there are no others
    rows_before_blank: tuple[int, ...]  # as `Reading` has them
    header: int  # the number of the row of names


def sheet_table(content: io.BytesIO, asked: Asked) -> SheetTable:
    """Read the table in the sheet that was asked for, or else in the first sheet with most of the wanted names."""
    book = Workbook(content, asked.stored)
    if asked.sheet is not None:
        _require_sheet(book, asked.sheet, asked.file)
    title, others = _chosen_sheet(book, asked)
    sheet = book.sheet(title)
    place = place_of(sheet.rows, asked.names)
    header, *numbers = [*sheet.rows][place:] or [1]
    filled, in_names = book.fill_merged(sheet, header)
    every = [*sheet.rows.values()]
    written = names_at(every, place) if every else []
    written += [""] * (sheet.width - len(written))
    n = len(numbers) if asked.names.label is None else rows_of_table(every[place + 1 :], written, asked.names.label)
    cells, below = every[place + 1 :][:n], every[place + 1 + n :]
    told = around(header, *above_names(every, place), len(below), title_of(below))
    blank = [*_blank(sheet)]
    left_out = {*[*sheet.rows][:place], *numbers[n:]}
    for number in left_out:
        del sheet.rows[number]
    sheet.formulas = [number for number in sheet.formulas if number not in left_out]
    del numbers[n:]
    columns: dict[str, list[Any]] = {}
    for place, name in enumerate(written):
        key = name or f"Unnamed: {place}"
        while key in columns:  # an error says so, once everything is read
            key += "'"
        columns[key] = [row[place] if place < len(row) else None for row in cells]
    notes = [others] if others and asked.sheet is None else []
    notes += map(printable, (*told, *blank, *_hidden(sheet), *_merged(sheet, filled, in_names)))
    notes += map(printable, _without_value(sheet, columns))
    # The names stand on line 1 and row i on line i + 2, but for the blank lines above it.
    above = [number - row - 2 for row, number in enumerate(numbers)]
    before = tuple(row for row, (last, now) in enumerate(pairwise([0, *above])) for _ in range(now - last))
    return SheetTable(title, written, columns, notes, others, before, header)


def check_sheet(path: Path, name: str) -> None:
    """Raise an error if an Excel file can be read and has no sheet of this name."""
    try:
        book = Workbook(io.BytesIO(path.read_bytes()), path.stat().st_size)
    except Exception:  # whatever is wrong with the file is said when its cells are read
        return
    _require_sheet(book, name, path.name)


def _require_sheet(book: Workbook, name: str, file: str) -> None:
    if name not in book.sheets:
        raise AskedError(unknown_name("sheet", f"a sheet of {file}", name, book.sheets))


def _chosen_sheet(book: Workbook, asked: Asked) -> tuple[str, str]:
    """Return the name of the sheet to read, and a sentence that names it and the others; "" if there are no others.

    If no sheet was asked for, it is the first with most of the names of label columns, then of other wanted names. If
    no sheet has such a name, it is the sheet with the name most like that of a label column.
    """
    title, why = book.sheets[0], ""
    if asked.sheet is not None:
        title = asked.sheet
    elif len(book.sheets) > 1 and asked.names.wanted:
        columns = {name: _names(book.sheet(name, FirstCells), asked) for name in book.sheets}
        found = {name: (len(has & {*asked.classes}), len(has & {*asked.names.wanted})) for name, has in columns.items()}
        best = max(found.values())
        title, *also = (name for name in found if found[name] == best)
        # Of labels, unless another wanted column alone was found.
        may = [asked.names.wanted] if best[1] and not best[0] else [asked.classes, asked.names.wanted]
        one = next((each for each in map(list, may) if len(each) == 1), None)
        names = f"the column {one[0]!r}" if one else "most of the wanted columns"
        if best == (0, 0):  # an error follows, which asks for the nearest column of the sheet
            title = _nearest_sheet(columns, asked.classes) or title
            why = f", since no sheet has {names}"
        elif also:
            have = "has" if len(also) == 1 else "have"
            why = f", the first with {names}, which {listed([*map(repr, also)])} {have} too"
        else:
            why = f", the only one with {names}"
    others = [name for name in book.sheets if name != title]
    if not others:
        return title, ""
    add = f"--sheet {shlex.quote(others[0]) if len(others) == 1 else 'NAME'}"
    also_has = f"The file also has {listed([*map(repr, others)])}: to read another, add {add}."
    return title, printable(f"Sheet {title!r} was read{why}. {also_has}")


def _names(sheet: Sheet, asked: Asked) -> set[str]:
    """Return the names of the columns of a sheet."""
    rows = [*sheet.rows.values()]
    try:
        return {*names_at(rows, place_of(sheet.rows, asked.names))} if rows else set()
    except AskedError:
        return set()


def _nearest_sheet(columns: Mapping[str, set[str]], wanted: Collection[str]) -> str | None:
    """Return the first sheet with the column whose name is most like a wanted name; None if no name is alike."""
    sheet_of = {name.strip().casefold(): sheet for sheet in reversed([*columns]) for name in columns[sheet]}
    near = (difflib.get_close_matches(name.strip().casefold(), sheet_of, n=1) for name in wanted)
    return next((sheet_of[name] for names in near for name in names), None)


def _blank(sheet: Sheet) -> Iterator[str]:
    """Yield a sentence on the blank rows above the last row."""
    numbers = [*sheet.rows]
    blank = numbers[-1] - len(numbers) if len(numbers) > 1 else 0
    if blank > 0:
        yield f"{counted(blank, 'blank row')} of sheet {sheet.title!r} {_was(blank)} left out."


def _hidden(sheet: Sheet) -> Iterator[str]:
    """Yield a sentence on rows, and one on columns, that Excel does not show."""
    rows = len(sheet.hidden_rows & {*[*sheet.rows][1:]})
    places = [place for place, is_hidden in enumerate(sheet.hidden_columns[: sheet.width], 1) if is_hidden]
    if rows:
        by = "; the sheet has a filter" if sheet.filtered else ""
        yield f"Excel hides {counted(rows, 'row')} of sheet {sheet.title!r}, which {_was(rows)} read too{by}."
    if places:
        letters, noun = listed([*map(column_letters, places)]), "column" if len(places) == 1 else "columns"
        yield f"Excel hides {noun} {letters} of sheet {sheet.title!r}, which {_was(len(places))} read too."


def _merged(sheet: Sheet, filled: int, in_names: list[Range]) -> Iterator[str]:
    """Yield a sentence on merged cells that got the value of their range, and one on merged names of columns."""
    if filled:
        ranges = counted(filled, "range")
        yield f"Sheet {sheet.title!r} has {ranges} of merged cells, whose value was read into each of their cells."
    if in_names:
        first, left, last, right = in_names[0]
        place = f"{column_letters(left)}{first}:{column_letters(right)}{last}"
        yield (
            f"The names of columns in sheet {sheet.title!r} have merged cells ({place}, for one); only the first cell "
            "of each has a name."
        )


def _without_value(sheet: Sheet, columns: dict[str, list[Any]]) -> Iterator[str]:
    """Yield sentences on cells that count as missing although they hold something, such as an error."""
    if sheet.formulas:
        what = "count as missing. Open the file in a spreadsheet, and save it."
        yield f"Sheet {sheet.title!r} has {counted(len(sheet.formulas), 'formula')} without a stored value. They {what}"
    typed = [value for values in columns.values() for value in values if value in EXCEL_ERRORS]
    if errors := [*sheet.errors, *typed]:
        hold = "cell holds" if len(errors) == 1 else "cells hold"
        yield f"{len(errors):,} {hold} an error of Excel ({errors[0][:20]}, for one), which counts as missing."
    if sheet.no_dates:
        have = "cell has" if len(sheet.no_dates) == 1 else "cells have"
        number = sheet.no_dates[0][:20]
        yield (
            f"{len(sheet.no_dates):,} {have} the format of a date, but a number that is none ({number}, for one), "
            "which counts as missing."
        )


def _was(n: int) -> str:
    return "was" if n == 1 else "were"
