"""Parse the XML of Excel files: the cells of a sheet, the texts that cells refer to, and the tags of other parts.

Libraries fill a sheet up to its stated or its last cell. A file of some kilobytes then takes gigabytes, and a sheet
that states too small a range loses rows. Here only cells with a value are kept, and each is counted (`TableSize`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from io import DEFAULT_BUFFER_SIZE
from typing import IO, Any
from xml.parsers import expat

from mgce._arrow_sizes import OBJECT
from mgce._limits import TableSize
from mgce.desk.files.layout import FIRST_ROWS

# Bytes that count for each end and beginning of a tag, and for each cell of the table, beside the object of a value: a
# number takes 32 bytes, and for a moment stands in a row, in a column, in a series and in the frame. Tags without cells
# take no memory but time: some ten seconds up to the limit.
TAG, CELL = 48, 32
_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]+)")
# A character that XML does not have, but for half of a character.
_ESCAPED = re.compile("_x((?![Dd][89A-Fa-f])[0-9A-Fa-f]{4})_")
Range = tuple[int, int, int, int]  # first row and column, last row and column


@dataclass
class Sheet:
    """The cells of a sheet that have a value, and what the reading report says about them.

    Attributes:
        title: name of the sheet.
        rows: by number, from 1, the cells of each row up to the last value; None for an empty cell or an error.
        merged: ranges of merged cells.
        hidden_rows: numbers of hidden rows.
        hidden_columns: for each column whether it is hidden.
        filtered: whether the sheet has a filter.
        formulas: the row of each formula without a stored value.
        errors: the errors of Excel that cells hold, such as #N/A.
        no_dates: numbers that stand for no date, although their cell has the format of a date.
    """

    title: str
    rows: dict[int, list[Any]] = field(default_factory=dict)
    merged: list[Range] = field(default_factory=list)
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: bytearray = field(default_factory=bytearray)
    filtered: bool = False
    formulas: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    no_dates: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        """The number of columns up to the last cell with a value."""
        return max(map(len, self.rows.values()), default=0)


def column_letters(place: int) -> str:
    """Return the letters by which Excel names a column, given its place from 1.

    Example:
        >>> [column_letters(place) for place in (1, 26, 27, 16384)]
        ['A', 'Z', 'AA', 'XFD']
    """
    from openpyxl.utils import get_column_letter

    return str(get_column_letter(place))


class _Xml:
    """A part of an Excel file whose XML tags are handled while the part is unpacked; `size` counts each tag."""

    def __init__(self, size: TableSize) -> None:
        self.size = size
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parts: list[str] = []  # of a text
        self._inside = self._reading_aid = False  # where it stands; how a word is pronounced, above the word

    @property
    def byte(self) -> int:
        """The number of bytes before the tag that is handled."""
        return self._parser.CurrentByteIndex

    def start(self, tag: str, values: dict[str, str]) -> None:
        """Handle the start tag of an XML element."""

    def end(self, tag: str) -> None:
        """Handle the end tag of an XML element."""

    def text(self, text: str) -> None:
        """Handle text between two tags."""
        if self._inside:
            self._parts.append(text)

    def read(self, file: IO[bytes]) -> None:
        """Read the part to its end."""
        parser = self._parser
        parser.buffer_text = True
        tags: dict[str, str] = {}  # an element's name without its namespace

        def begins(name: str, values: dict[str, str]) -> None:
            tag = tags.get(name)
            if tag is None:
                tag = tags[name] = name.rpartition(" ")[2]
            self.start(tag, values)

        parser.StartElementHandler = begins
        parser.EndElementHandler = lambda name: self.end(tags[name])
        parser.CharacterDataHandler = self.text
        parser.StartDoctypeDeclHandler = _refuse_doctype
        while chunk := file.read(DEFAULT_BUFFER_SIZE):
            self.size.add(TAG * chunk.count(b"<"))
            parser.Parse(chunk, False)
        parser.Parse(b"", True)


def _refuse_doctype(*_: Any) -> None:
    raise ValueError("its XML declares a type of document, as no Excel file does")


class Tags(_Xml):
    """A part of an Excel file that is read from its tags alone, such as the list of sheets."""

    def __init__(self, size: TableSize, handle: Callable[[str, dict[str, str]], None]) -> None:
        super().__init__(size)
        self._handle = handle

    def start(self, tag: str, values: dict[str, str]) -> None:
        """Handle the start tag of an XML element."""
        self._handle(tag, values)


class Texts(_Xml):
    """The part with the texts to which cells refer by number."""

    def __init__(self, size: TableSize) -> None:
        super().__init__(size)
        self.texts: list[str] = []

    def start(self, tag: str, values: dict[str, str]) -> None:
        """Handle the start tag of an XML element."""
        if tag == "si":
            self._parts = []
        elif tag == "rPh":
            self._reading_aid = True
        self._inside = tag == "t" and not self._reading_aid

    def end(self, tag: str) -> None:
        """Handle the end tag of an XML element."""
        self._inside = False
        if tag == "rPh":
            self._reading_aid = False
        elif tag == "si":
            text = _unescaped("".join(self._parts))
            self.size.add(OBJECT + len(text))
            self.texts.append(text)


class Dates:
    """The cell styles that show dates, and the conversion of numbers to dates."""

    def __init__(self, formats: list[tuple[bool, bool]], since_1904: bool) -> None:
        from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel

        self._formats = formats
        self._epoch = MAC_EPOCH if since_1904 else WINDOWS_EPOCH
        self._convert = from_excel

    def value(self, number: float, style: str) -> Any:
        """Return a number, or the date that it stands for in a cell of this style.

        Raises:
            OverflowError: if there is no such date.
        """
        place = int(style)
        is_date, is_duration = self._formats[place] if place < len(self._formats) else (False, False)
        return self._convert(number, self._epoch, timedelta=is_duration) if is_date else number


class Cells(_Xml):
    """The cells of a sheet."""

    def __init__(self, title: str, size: TableSize, texts: list[str], dates: Dates) -> None:
        super().__init__(size)
        from openpyxl.xml.constants import MAX_COLUMN, MAX_ROW

        self._last_row, self._last_column = MAX_ROW, MAX_COLUMN
        self.sheet = Sheet(title, hidden_columns=bytearray(MAX_COLUMN))
        self._texts, self._dates = texts, dates
        self._row: list[Any] = []
        self._number = self._place = self._width = 0
        self._kind, self._style = "n", ""
        self._in_cell = self._has_value = self._formula = False

    def start(self, tag: str, values: dict[str, str]) -> None:
        """Handle the start tag of an XML element."""
        if tag == "c":
            self._kind, self._style = values.get("t", "n"), values.get("s", "")
            self._place = _column(values["r"].rstrip("0123456789")) if "r" in values else self._place + 1
            self._parts = []
            self._in_cell, self._has_value, self._formula = True, False, False
        elif tag in ("v", "t"):
            self._inside = self._in_cell and not self._reading_aid
            self._has_value = True
        elif tag == "row":
            self._begin_row(values)
        elif tag == "f":
            self._formula = True
        elif tag == "rPh":
            self._reading_aid = True
        elif tag == "mergeCell":
            self.size.add(OBJECT)
            self.sheet.merged.append(_range(values.get("ref", "")))
        elif tag == "col" and is_true(values.get("hidden")):
            first, last = (min(int(values[end]), self._last_column) for end in ("min", "max"))
            self.sheet.hidden_columns[max(0, first - 1) : last] = b"\1" * (last - max(0, first - 1))
        elif tag == "autoFilter":
            self.sheet.filtered = True

    def end(self, tag: str) -> None:
        """Handle the end tag of an XML element."""
        if tag in ("v", "t"):
            self._inside = False
        elif tag == "rPh":
            self._reading_aid = False
        elif tag == "c":
            self._in_cell = False
            if self._parts:
                self._keep(self._value("".join(self._parts)))
            elif self._formula and not (self._has_value and self._kind == "str"):  # the result may be an empty text
                self.sheet.formulas.append(self._number)

    def _begin_row(self, values: dict[str, str]) -> None:
        number = float(values["r"]) if "r" in values else self._number + 1
        if not 1 <= number <= self._last_row or number != int(number):
            raise ValueError(f"it has a row {values['r'][:20]}; the last row of Excel is {self._last_row:,}")
        self._number, self._place = int(number), 0
        self._row = self.sheet.rows.setdefault(self._number, [])
        self.size.expect(CELL * len(self.sheet.rows) * self._width)
        if is_true(values.get("hidden")):
            self.sheet.hidden_rows.add(self._number)

    def _value(self, text: str) -> Any:
        """Return the value of a cell from the text in it; None for an error of Excel."""
        if self._kind == "n":
            return self._number_or_date(text)
        if self._kind == "s":
            place = int(text)
            if not 0 <= place < len(self._texts):
                raise ValueError(f"a cell of sheet {self.sheet.title!r} refers to a text that is not there")
            return self._texts[place]
        if self._kind == "b":
            return is_true(text)
        if self._kind == "e":
            self.size.add(OBJECT + len(text))
            self.sheet.errors.append(text)
            return None
        if self._kind == "d":
            from openpyxl.utils.datetime import from_ISO8601

            return from_ISO8601(text)
        return _unescaped(text)

    def _number_or_date(self, text: str) -> Any:
        # Excel writes 17 digits at most; other programs write whole numbers of 64 bits, of up to 20 characters.
        whole = len(text) <= 20 and not {*text} & {*".eE"}
        number = int(text) if whole else float(text)
        if not self._style:
            return number
        try:
            return self._dates.value(number, self._style)
        except (OverflowError, ValueError):
            self.size.add(OBJECT + len(text))
            self.sheet.no_dates.append(text)
            return None

    def _keep(self, value: Any) -> None:
        if value == "":
            return
        missing = self._place - len(self._row)
        # A text becomes a part of its column, and of a copy of it.
        self.size.add(OBJECT + 8 * max(0, missing) + (2 * len(value) if isinstance(value, str) else 0))
        if missing > 0:
            self._row.extend([None] * missing)
            self._width = max(self._width, self._place)
        self._row[self._place - 1] = value


class FirstCells(Cells):
    """The cells of a sheet in its first `FIRST_ROWS` rows with a value."""

    def read(self, file: IO[bytes]) -> None:
        """Read the part up to the last of these rows."""
        with suppress(_Enough):
            super().read(file)

    def _begin_row(self, values: dict[str, str]) -> None:
        if self._row:
            self._n += 1
        if self._n == FIRST_ROWS:
            raise _Enough
        super()._begin_row(values)

    _n = 0  # rows so far


class _Enough(Exception):  # noqa: N818  # no error: what was wanted is read
    """Stop reading a part: all that was wanted is read."""


def _range(reference: str) -> Range:
    """Return the rows and columns of a range such as A2:C5."""
    ends = [_REFERENCE.fullmatch(end) for end in reference.split(":")]
    if not 1 <= len(ends) <= 2 or None in ends:
        raise ValueError(f"{reference[:40]!r} is no range of cells")
    (left, first), (right, last) = [(_column(end[1]), int(end[2])) for end in (ends[0], ends[-1]) if end]
    return first, left, last, right


@cache
def _column(letters: str) -> int:
    """Return the place of a column, counted from 1, given its letters."""
    from openpyxl.utils import column_index_from_string
    from openpyxl.xml.constants import MAX_COLUMN

    with suppress(ValueError):
        place = int(column_index_from_string(letters.replace("$", "")))
        if place <= MAX_COLUMN:
            return place
    raise ValueError(f"it has a column {letters[:20]!r}; the last column of Excel is {column_letters(MAX_COLUMN)}")


def is_true(text: str | None) -> bool:
    """Return whether the value of an attribute, or of a cell of truth values, is true."""
    return text is not None and text.strip() in ("1", "true", "on")


def _unescaped(text: str) -> str:
    """Return a text in which escapes such as _x000D_ are replaced by the characters that they stand for."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text
