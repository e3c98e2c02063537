"""Make text from files safe to show in a terminal, an HTML page or a spreadsheet.

Column names, labels and error messages come from files of other people. These texts may hold characters that move the
cursor of a terminal, change the title of its window, or reverse the reading direction so that a text looks like another
one. A spreadsheet may run them as formulas.
"""

from __future__ import annotations

import re
from html import escape

# Spreadsheets in East Asia read the full-width signs as the usual ones.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_SUSPECT = re.compile(f"[{re.escape(''.join(_FORMULA))}]|^[\\t\\r]")
# What a spreadsheet may leave out at the beginning of a cell. It keeps a line break, and a formula behind a line break
# gets an apostrophe of its own.
_LEFT_OUT = re.compile(r"\t|\r(?!\n)")
# What may stand before a formula: quotes, blanks such as U+3000 of East Asia, and characters that nobody sees.
_BEFORE = re.compile(r"^[\s\"\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]+")
# Not formulas: signs alone, and numbers. A number may have spaces between thousands, a percent sign, or the closing
# bracket of an interval.
_NUMBER = re.compile(r"[+-]+|[+-]?([0-9][0-9 \u00a0\u202f']*(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?%?[\])]?")
_JOINERS = "\u200c\u200d"
_FIRST_JOINED = "\u0600"  # of the Arabic script: those before, such as Latin, have no joiners
# Where a spreadsheet may split a line, whatever separator this package writes: at semicolons in half of Europe.
_SEPARATOR = re.compile("([,;|\t\r\n])")


def printable(text: str, keep: str = "") -> str:
    r"""Replace each non-printable character by a visible character of the same width.

    Non-printable are the characters for which `str.isprintable` is false: control characters, marks of the reading
    direction, and codes without a character. Control characters become their symbols in Unicode; all others become the
    replacement character, a question mark in a box. Joiners are printable behind letters that they join or part, as in
    Persian and Hindi, and behind emoji.

    Example:
        >>> printable("a\x1b[31mb\u202ec")
        'a␛[31mb�c'
    """
    if text.isprintable():
        return text
    shown = (
        char
        if char.isprintable() or char in keep or (char in _JOINERS and _joins(text, place))
        else _picture(ord(char))
        for place, char in enumerate(text)
    )
    return "".join(shown)


def _joins(text: str, place: int) -> bool:
    """Return whether the letter before a joiner is of a script that has joiners, or an emoji."""
    beside = text[place - 1] if place else text[1:2]
    return beside >= _FIRST_JOINED and beside.isprintable()


def _picture(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def html_text(text: str) -> str:
    r"""Return a text for an HTML page, with tags escaped and control characters shown as symbols.

    Example:
        >>> html_text("<b>\x1b[31m\u202e&")
        '&lt;b&gt;␛[31m�&amp;'
    """
    return escape(printable(text, keep="\n"))


def spreadsheet_cell(text: str) -> str:
    r"""Put an apostrophe before text that a spreadsheet would run as a formula.

    A spreadsheet does not show an apostrophe at the beginning of a cell. An apostrophe is also put before a formula
    that follows a separator inside the text, because a spreadsheet with other settings splits the text there. Positive
    and negative numbers are not formulas. A text that begins with a tab or a lone carriage return gets an apostrophe,
    since a spreadsheet may leave these out; a text that begins with a line break gets none.

    Example:
        >>> [spreadsheet_cell(text) for text in ("=1+1", "-1.5", "-1+1", "@SUM", "plain", "x;=1", "(-1, -0.5]")]
        ["'=1+1", '-1.5', "'-1+1", "'@SUM", 'plain', "x;'=1", '(-1, -0.5]']
        >>> spreadsheet_cell("\v=1+1")
        "'\x0b=1+1"
    """
    if not _SUSPECT.search(text):  # a quick test that most texts of a long table pass
        return text
    cell = "".join(f"'{part}" if _is_formula(part) else part for part in _SEPARATOR.split(text))
    return f"'{cell}" if _LEFT_OUT.match(text) else cell


def spreadsheet_text(cell: str) -> str:
    """Undo :func:`spreadsheet_cell`: return the text that was turned into the spreadsheet cell.

    Example:
        >>> [spreadsheet_text(cell) for cell in ("'=1+1", "x;'=1", "'tis")]
        ['=1+1', 'x;=1', "'tis"]
    """
    text = "".join(part.removeprefix("'") for part in _SEPARATOR.split(cell))
    return text if spreadsheet_cell(text) == cell else cell


def _is_formula(part: str) -> bool:
    plain = _BEFORE.sub("", part).rstrip(' "\u00a0')
    return plain.startswith(_FORMULA) and not _NUMBER.fullmatch(plain)
