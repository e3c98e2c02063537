"""Text from files on its way to a person: to a terminal, which obeys some characters, or a spreadsheet that runs some.

Names of columns, labels and the messages of errors come from files of others. They may hold characters that move the
cursor, change the title of the window, or turn the reading direction so that a text reads as another one.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def printable(text: str, keep: str = "") -> str:
    r"""Replace each character that is not to be printed by one that shows it, so that widths stay as they are.

    Not to be printed is what Python calls so: controls, directions, and what is no character at all. Controls have
    pictures in Unicode; the others become a question mark in a box.

    Example:
        >>> printable("a\x1b[31mb\u202ec")
        'a␛[31mb�c'
    """
    return "".join(char if char.isprintable() or char in keep else _picture(ord(char)) for char in text)


def _picture(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def spreadsheet_cell(text: str) -> str:
    """Put an apostrophe before what a spreadsheet would run as a formula; it does not show there.

    A number is none, whatever its sign.

    Example:
        >>> [spreadsheet_cell(text) for text in ("=1+1", "-1.5", "-1+1", "@SUM", "plain")]
        ["'=1+1", '-1.5', "'-1+1", "'@SUM", 'plain']
    """
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
