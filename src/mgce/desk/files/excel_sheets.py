"""Read a sheet of an Excel file, with the formats and texts that its cells refer to, and with its merged cells."""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import IO, Any
from zipfile import ZipFile

from mgce._limits import TableSize, check_zip
from mgce._validation import not_installed
from mgce.desk.files.excel_xml import CELL, Cells, Dates, Range, Sheet, Tags, Texts, is_true

# Numbers of the formats of dates and times that a file does not spell out, and those of East Asia, from the
# specification (ECMA-376, 18.8.30).
DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
HOURS = {46}  # of them [h]:mm:ss, a duration


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
        self._paths: dict[str, str] = {}
        self._visible: list[str] = []
        self._since_1904 = False
        self._others: dict[str, str] = {}
        self._read_sheets()

    @property
    def sheets(self) -> list[str]:
        """The names of the sheets of cells; sheets of charts have none."""
        return [*self._paths]

    @property
    def first(self) -> str:
        """The name of the first sheet that Excel shows.

        Raises:
            ValueError: if the file has no sheet of cells.
        """
        if not self._paths:
            raise ValueError("it has no sheet of cells")
        return next((name for name in self._paths if name in self._visible), self.sheets[0])

    def sheet(self, title: str) -> Sheet:
        """Return the cells of a sheet."""
        cells = self.cells(title, Cells)
        for number in [number for number, row in cells.sheet.rows.items() if not row]:
            del cells.sheet.rows[number]
        cells.sheet.rows = dict(sorted(cells.sheet.rows.items()))
        self.size.add(CELL * len(cells.sheet.rows) * cells.sheet.width)
        return cells.sheet

    def path(self, title: str) -> str:
        """Return the name of the part of the file that holds a sheet."""
        return self._paths[title]

    def cells(self, title: str, kind: Callable[..., Cells]) -> Cells:
        """Return what reads the cells of a sheet, after it has read them."""
        cells = kind(title, self.size, self._texts(), Dates(self._formats(), self._since_1904))
        with self._archive.open(self._paths[title]) as file:
            cells.read(file)
        return cells

    def fill_merged(self, sheet: Sheet, header: int) -> tuple[int, list[Range]]:
        """Copy the value of each range of merged cells to those of its cells that have none.

        A file stores the value in the first cell only. Ranges in the row of column names stay as they are: two columns
        may not have one name. Rows without a value of their own stay blank.

        Args:
            sheet: the sheet.
            header: the number of the row of names.

        Returns:
            The number of ranges of which a cell was filled, and the ranges in the row of names.
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
        """Read which sheets there are, and in which part each is."""
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

        with self._part(book) as file:
            self._parse(file, start)
        parts = {
            key: (kind, posixpath.normpath(posixpath.join("/", folder, path))[1:])
            for key, (kind, path) in relations.items()
        }
        for title, key, state in listed:
            kind, path = parts.get(key, ("", ""))
            if kind == "worksheet":
                self._paths[title] = path
                self._visible += [title] if state == "visible" else []
        self._others = dict(parts.values())

    def _relations(self, path: str) -> dict[str, tuple[str, str]]:
        """Return the kind and the path of each part that a part refers to."""
        found: dict[str, tuple[str, str]] = {}

        def start(tag: str, values: dict[str, str]) -> None:
            if tag == "Relationship":
                kind = values.get("Type", "").rpartition("/")[2]
                found[values.get("Id", "")] = (kind, values.get("Target", "").replace("\\", "/"))

        if path in self._archive.namelist():
            with self._archive.open(path) as file:
                self._parse(file, start)
        return found

    def _part(self, path: str) -> IO[bytes]:
        try:
            return self._archive.open(path)
        except KeyError as error:
            raise ValueError(f"it is no Excel file: it holds no {path}") from error

    def _texts(self) -> list[str]:
        """Return the texts that cells refer to by their number."""
        path = self._others.get("sharedStrings", "")
        if path not in self._archive.namelist():
            return []
        texts = Texts(self.size)
        with self._archive.open(path) as file:
            texts.read(file)
        return texts.texts

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

        path = self._others.get("styles", "")
        if path in self._archive.namelist():
            with self._archive.open(path) as file:
                self._parse(file, start)
        kinds = {
            number: (is_date_format(codes[number]), is_timedelta_format(codes[number]))
            if number in codes
            else (int(number) in DATE_FORMATS, int(number) in HOURS)
            for number in set(styles)
        }
        return [kinds[number] for number in styles]

    def _parse(self, file: IO[bytes], start: Callable[[str, dict[str, str]], None]) -> None:
        Tags(self.size, start).read(file)


def _fill(row: list[Any], places: range, value: Any) -> bool:
    """Set the cells without a value in these places of a row; return whether there was one."""
    row.extend([None] * (places.stop - len(row)))
    empty = [place for place in places if row[place] is None]
    for place in empty:
        row[place] = value
    return bool(empty)
