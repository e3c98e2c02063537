"""Detect the format of a file from its content, for files whose name ends like another format."""

from __future__ import annotations

import io
import re
from zipfile import BadZipFile, ZipFile

PARQUET, ARROW, EXCEL, ZIP = "a Parquet file", "an Arrow file", "an Excel file", "a zip archive"
_SAVE = "save its table as .xlsx or .csv"
_UNPACK = "unpack it first"
# By how a file begins: what it is, and what to do about it.
_BEGINNINGS = {
    b"PAR1": (PARQUET, "name it .parquet"),
    b"ARROW1": (ARROW, "name it .arrow"),
    b"\x1f\x8b": ("packed by gzip", "name it .csv.gz, or unpack it"),
    b"BZh": ("packed by bzip2", _UNPACK),
    b"\xfd7zXZ\0": ("packed by xz", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("packed by Zstandard", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"Rar!": ("a RAR archive", _UNPACK),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an Excel file of before 2007, or one with a password", _SAVE),
    b"%PDF": ("a PDF file", _SAVE),
    b"SQLite format 3\0": ("a SQLite database", _SAVE),
    b"\x89HDF": ("an HDF5 file", _SAVE),
    b"\x93NUMPY": ("a NumPy array", "give it as features beside a table"),
}
# By a member of an archive.
_MEMBERS = {
    "xl/workbook.xml": (EXCEL, "name it .xlsx"),
    "xl/workbook.bin": ("a binary Excel file", _SAVE),
    "content.xml": ("a sheet of OpenDocument", _SAVE),
}
_JSON_ARRAY = re.compile(rb"\s*\[\s*\{")
_HTML = re.compile(rb"\s*(<!--.*?-->\s*)?<(!doctype html|html|head|body|table|div|meta)\b", re.IGNORECASE | re.DOTALL)
_XML = re.compile(rb"\s*<\?xml\b")
HEAD = 4096  # bytes from which a text is told: more than the comments before the first tag of a page


def kind_of(content: bytes) -> tuple[str, str] | None:
    """Return what a file is, with advice; None for text with separators, and what is not known.

    Example:
        >>> kind_of(b'[{"a": 1}]'), kind_of(b"a,b")
        (('a JSON array', 'write one object a line and name it .jsonl'), None)
    """
    head = content[:HEAD].removeprefix(b"\xef\xbb\xbf")
    if head.startswith(b"PK\x03\x04"):
        return _archive(content)
    if _JSON_ARRAY.match(head):
        return "a JSON array", "write one object a line and name it .jsonl"
    if _HTML.match(head):
        return "an HTML page", _SAVE
    if _XML.match(head):
        return "an XML file", _SAVE
    return next((what for beginning, what in _BEGINNINGS.items() if head.startswith(beginning)), None)


def _archive(content: bytes) -> tuple[str, str]:
    try:
        with ZipFile(io.BytesIO(content)) as archive:
            names = {*archive.namelist()}
    except BadZipFile:
        return "a damaged zip archive", _UNPACK
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive", "give it as features beside a table"
    return next((what for name, what in _MEMBERS.items() if name in names), (ZIP, _UNPACK))
