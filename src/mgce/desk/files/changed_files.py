"""Change cells of one column in a file, or remove rows of a text file, and leave all else as it is, byte by byte."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZipFile

from mgce._text import spreadsheet_cell
from mgce.desk.files.excel_tables import Workbook
from mgce.desk.files.excel_xml import Cells, column_letters
from mgce.desk.files.layout import Names
from mgce.desk.files.separators import division, long_cells
from mgce.desk.files.text_tables import TextFormat

LabelCells = tuple[str, Mapping[int, str]]  # the name of a column, and new cells by row number, from 0
BYTE_ORDERS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
# The end of a formula, and the beginning of the value that it had when the file was saved.
_STORED = re.compile(rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\s[^<>]*/>)\s*<(?:\w+:)?v>")
_RECALCULATES = re.compile(rb"\sfullCalcOnLoad\s*=\s*[\"'](?:1|true)")
_TYPE = re.compile(rb"\s(?:t|cm|vm)\s*=\s*(?:\"[^\"]*\"|'[^']*')")  # of a value, and of what else describes it


def changed_text(
    content: bytes, form: TextFormat, rows: Collection[int], cells: LabelCells = ("", {}), *, formulas: bool = True
) -> bytes:
    """Return the content of a text file without some rows, and with other cells in one column.

    All other lines stay as they are, with their line ends, quotes and encoding.

    Args:
        content: the file.
        form: its format, with the row of names.
        rows: numbers of the rows to remove, from 0.
        cells: the name of the column, and its new cells by row number.
        formulas: whether cells that a spreadsheet would run stay as they are; otherwise they get an apostrophe.
    """
    divided = division(content, form.encoding, form.separator, Names(row=form.header))
    encoding, mark = form.encoding, b""
    if encoding.lower().replace("_", "-") in ("utf-16", "utf16") and content[:2] in BYTE_ORDERS:
        encoding, mark = BYTE_ORDERS[content[:2]], content[:2]
    text = content[len(mark) :].decode(encoding)
    (name, changed), kept, place, number = cells, [], 0, -1
    with long_cells(content):
        for count, (raw, row) in enumerate(_raw_rows(text, divided.sep)):
            if not formulas:
                raw = _without_formulas(raw, row, divided.sep)
            if count < divided.skipped or (len(row) < 2 and not "".join(row).strip()):
                kept.append(raw)
                continue
            if number < 0:
                names = [*(divided.names or row)]
                names[:1] = [names[0].removeprefix("\ufeff")]
                place = names.index(name) if changed else 0
            if number not in rows:
                kept.append(_with_cell(raw, place, changed[number], divided.sep) if number in changed else raw)
            number += 1
    return mark + "".join(kept).encode(encoding)


def _without_formulas(raw: str, row: list[str], sep: str) -> str:
    """Return the lines of a row with an apostrophe before each value that a spreadsheet would run."""
    for place, cell in enumerate(row):
        if spreadsheet_cell(cell) != cell:
            raw = _with_cell(raw, place, spreadsheet_cell(cell), sep)
    return raw


def _raw_rows(text: str, sep: str) -> Iterator[tuple[str, list[str]]]:
    """Yield for each row of a text file the lines that it takes, and its values."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            taken.append(line)
            yield line.replace("\0", "\ufffd")

    for row in csv.reader(lines(), delimiter=sep):
        yield "".join(taken), row
        taken.clear()


def _with_cell(raw: str, place: int, cell: str, sep: str) -> str:
    r"""Return the lines of a row with a new value at a place, in quotes if it needs them or the old value had them.

    Example:
        >>> _with_cell('1;"a;b";c\n', 1, "d", ";"), _with_cell("1;a\r\n", 1, "e;f", ";")
        ('1;"d";c\n', '1;"e;f"\r\n')
    """
    field = re.compile(rf'"(?:[^"]|"")*"?[^{re.escape(sep)}\r\n]*|[^{re.escape(sep)}\r\n]*')
    begin = 0
    for _ in range(place):
        found = field.match(raw, begin)
        assert found is not None  # it may be empty
        begin = found.end() + 1
    found = field.match(raw, begin)
    old = "" if found is None else found[0]
    if old.startswith('"') or re.search(rf'["\r\n{re.escape(sep)}]', cell):
        cell = '"' + cell.replace('"', '""') + '"'
    return raw[:begin] + cell + raw[begin + len(old) :]


class _Places(Cells):
    """Where in the XML of a sheet each cell of one column stands, or would stand."""

    def __init__(self, column: int, *about: Any) -> None:
        super().__init__(*about)
        self.column = column
        self.spans: dict[int, tuple[int, int]] = {}  # by row, from the beginning of the cell to that of its end tag
        self.gaps: dict[int, int] = {}  # by row, where a cell that is not there belongs
        self.with_formula: set[int] = set()
        self._begin = -1

    def start(self, tag: str, values: dict[str, str]) -> None:
        """Handle the start tag of an XML element."""
        super().start(tag, values)
        if tag == "c":
            self._begin = self.byte if self._place == self.column else -1
            if self._place > self.column:
                self.gaps.setdefault(self._number, self.byte)

    def end(self, tag: str) -> None:
        """Handle the end tag of an XML element."""
        super().end(tag)
        if tag == "c" and self._begin >= 0:
            self.spans[self._number] = self._begin, self.byte
            if self._formula:
                self.with_formula.add(self._number)
        elif tag == "row":
            self.gaps.setdefault(self._number, self.byte)


def changed_workbook(content: bytes, title: str, column: int, cells: Mapping[int, str]) -> tuple[bytes, list[int], int]:
    """Return an Excel file with other cells in one column of a sheet; all other parts of the file stay as they are.

    A new value keeps the format of its cell. If another cell of the column shows the same text, the value is stored as
    it is there. Formulas stay, as other parts of the file refer to them.

    Args:
        content: the file.
        title: the name of the sheet.
        column: the place of the column, from 1.
        cells: the new values by row, as Excel counts rows; "" for an empty cell.

    Returns:
        The file, the rows that hold formulas and stay as they are, and the number of formulas in the file whose stored
        value may be that of the old labels. Excel shows such values until it calculates again.
    """
    book = Workbook(io.BytesIO(content), len(content))
    path = book.paths[title]
    places = book.cells(title, partial(_Places, column))
    assert isinstance(places, _Places)
    stored = 0
    with ZipFile(io.BytesIO(content)) as archive:
        if not any(
            _RECALCULATES.search(archive.read(name)) for name in archive.namelist() if name.endswith("book.xml")
        ):
            stored = sum(len(_STORED.findall(archive.read(book.paths[name]))) for name in book.sheets)
        changed = _changed_xml(archive.read(path), places, cells)
        buffer = io.BytesIO()
        with ZipFile(buffer, "w") as written:
            for part in archive.infolist():
                written.writestr(part, changed if part.filename == path else archive.read(part))
    return buffer.getvalue(), sorted(places.with_formula & {*cells}), stored


def _changed_xml(xml: bytes, places: _Places, cells: Mapping[int, str]) -> bytes:
    """Return the XML of a sheet with the new values `cells`, by row."""
    parts = {row: _Cell(xml, *span) for row, span in places.spans.items()}
    like: dict[str, _Cell] = {}
    for row, part in parts.items():
        value = places.sheet.rows[row][places.column - 1 : places.column]
        if value and row not in places.with_formula:
            like.setdefault(str(value[0]), part)
    prefix = next(iter(parts.values())).prefix if parts else b""
    pieces, last = [], 0
    for row in sorted(cells, key=lambda row: places.spans.get(row, (places.gaps[row],))[0]):
        if row in places.with_formula:
            continue
        gap = places.gaps[row]
        reference = f"{column_letters(places.column)}{row}".encode()
        part = parts.get(row) or _Cell(b"<" + prefix + b'c r="' + reference + b'"/>', 0, 0, at=gap)
        pieces += [xml[last : part.begin], part.with_value(cells[row], like)]
        last = part.end
    return b"".join([*pieces, xml[last:]])


class _Cell:
    """A cell in the XML of a sheet: its tag, and its content as it is written."""

    def __init__(self, xml: bytes, begin: int, end: int, at: int | None = None) -> None:
        """Read the cell whose first tag begins at `begin` and whose last at `end`; a new cell has its place in `at`."""
        close = xml.index(b">", begin) + 1
        self.tag = xml[begin:close].rstrip(b"/>").rstrip()
        empty = xml[close - 2 : close] == b"/>"
        self.content = b"" if empty else xml[close:end]
        self.begin = begin if at is None else at
        self.end = at if at is not None else close if empty else xml.index(b">", end) + 1
        self.prefix = self.tag[1:].split()[0][:-1]  # of the namespace, as x: in <x:c

    def with_value(self, text: str, like: Mapping[str, _Cell]) -> bytes:
        """Return the XML of the cell with a text as its value, stored as in the cell `like[text]`, if there is one."""
        tag, prefix = _TYPE.sub(b"", self.tag), self.prefix
        if not text:
            return tag + b"/>"
        if text in like:
            kind = re.search(rb"\st\s*=\s*[\"']\w+[\"']", like[text].tag)
            opened, content = tag + (kind[0] if kind else b"") + b">", like[text].content
        else:
            begin, end = b'<%bis><%bt xml:space="preserve">' % (prefix, prefix), b"</%bt></%bis>" % (prefix, prefix)
            opened, content = tag + b' t="inlineStr">', begin + escape(text).encode() + end
        return opened + content + b"</%bc>" % prefix
