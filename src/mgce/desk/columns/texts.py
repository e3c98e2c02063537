"""Recognise columns of text, and columns that look like numbers or dates in an unknown format."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from mgce.desk.columns.cells import THOUSANDS, days_of_text, numbers_of_text, points_between_thousands
from mgce.desk.files.tables import MAX_CATEGORIES
from mgce.desk.files.vectors import SHORTEST

COMMA_NUMBER = r"\s*[-+]?(?:\d+|\d{1,3}(?:[.' ]\d{3})+),\d+\s*"
DIGITS_AND_POINTS = r"\s*[-+]?\d+(?:\.\d+)*\s*"
_MONTHS = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\\.?"
# Dates with the day or the month first, such as 31.5.2024; with the name of a month; months such as 2024/05; and dates
# of ISO 8601 before something else, such as 2024-05-31 12:00 CET.
OTHER_DATE = (
    r"(?i:\s*(?:\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?:[^\w.].*)?|(?:[a-z]{3,9},?\s+)?\d{1,2}[ .-]*"
    rf"{_MONTHS}[ ,-]*\d{{2,4}}\b.*|{_MONTHS}\s*\d{{1,2}},?\s+\d{{4}}\b.*"
    r"|\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2}(?:\D.*)?)?|\d{4}年\d{1,2}月.*)\s*)"
)
TIME_OF_DAY = r"(?i:\s*(?:-?\d+ days?,? [-+]?)?\d{1,3}:[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?:\s*[ap]m)?\s*)"
_DIGITS = r"\d+(?:[.,'_ \u2019\u00a0\u202f]\d+)*[.,]?"
_CURRENCY = "$¢£¥₩€₹₽₺₿"
# One number with a sign, a currency, brackets or a unit around it: $1,234, (1,234), 12.5%, 3 kg, <5, 7-.
DECORATED = (
    rf"\s*[-+\u2212(<>~≤≥≈±]*\s*[{_CURRENCY}]?\s*[-+\u2212]?{_DIGITS}(?:[eEdD][-+]?\d+)?"
    rf"\s*(?:[{_CURRENCY}%‰°]|[^\W\d_]{{1,4}}(?:/[^\W\d_]{{1,4}})?)?\s*[-)]?\s*"
)
# A list of numbers, also one that NumPy has shortened: [0.1 0.2 ... 0.9].
LISTED = r"(?s:\s*(?:[\w.]+\()?\[[-+\s\d.,eE]*\d[-+\s\d.,eE]*\](?:,.*)?\)?\s*)"
MAX_DECORATIONS = 4  # different ones in a column; names of rows, such as 12a and 13b, have more
# Marks of missing values, such as "?" and "unknown", are few. For each there are at least so many different numbers
# beside them, unlike codes of few categories that a letter may belong to.
MAX_MARKS, MIN_NUMBERS = 5, 10


def unread(values: pd.Series[Any], thousands: list[str]) -> str | None:
    """Return a sentence if a column of categories looks like numbers or dates; otherwise None.

    Args:
        values: the column, as text; some may be missing.
        thousands: columns of numbers with commas between thousands, which would be misread with a decimal comma.
    """
    name, different = values.name, values.drop_duplicates().dropna().astype("str")

    def mostly(pattern: str) -> bool:
        return bool(different.str.fullmatch(pattern).mean() > 1 / 2)

    if mostly(COMMA_NUMBER):
        advice = "See --decimal."
        if thousands:
            advice = f"Write it with a point: a decimal comma for the file would misread column `{thousands[0]}`."
        return f"Column `{name}` looks like numbers with a decimal comma, but is taken as categories. {advice}"
    if mostly(LISTED):
        return (
            f"Column `{name}` looks like lists of numbers, but is taken as categories. In a column of embeddings, all "
            f"lists have one length, of {SHORTEST} numbers or more, and are written in full, without `...`."
        )
    if points_between_thousands(different) and mostly(DIGITS_AND_POINTS):
        return (
            f"Column `{name}` looks like numbers with points between thousands, but is taken as categories. "
            "Write it without them."
        )
    marks = _beside_marks(values.dropna().astype("str"), different)
    if marks is not None:
        return marks
    if mostly(OTHER_DATE):
        return (
            f"Column `{name}` looks like dates, but is taken as categories: they do not show what is day, month and "
            f"year ({different.iloc[0]!r}, for one). Write them with the year first, like 2024-05-31."
        )
    if mostly(TIME_OF_DAY):
        return f"Column `{name}` looks like times, but is taken as categories. Write it as a number, such as of hours."
    if mostly(DECORATED) and _decorated(different):
        return (
            f"Column `{name}` looks like numbers with something around them ({different.iloc[0]!r}, for one), but is "
            "taken as categories. Write the numbers alone."
        )
    return None


def _beside_marks(cells: pd.Series[Any], different: pd.Series[Any]) -> str | None:
    """Report a column of numbers or dates read as categories, because too many cells are marks of missing values."""
    for kind, read in (("numbers", numbers_of_text(different, THOUSANDS)), ("dates", days_of_text(different))):
        marks = different[read.isna()]
        holds_codes = different.str.fullmatch(r"\s*0\d+\s*").any()
        if 0 < len(marks) <= MAX_MARKS and len(different) - len(marks) >= MIN_NUMBERS and not holds_codes:
            n = int(cells.isin(list(marks)).sum())
            if len(marks) == 1 or n <= len(cells) / 2:
                return (
                    f"Column `{cells.name}` holds {kind}, but something else in {n:,} rows ({marks.iloc[0]!r}, for "
                    "one), and is taken as categories. If that stands for a missing value, leave the cell empty."
                )
    return None


def are_marks(words: pd.Series[Any], values: pd.Series[Any]) -> bool:
    """Return whether the words in a column of numbers or dates are marks of missing values: few, and repeated.

    Args:
        words: the cells that are neither number nor date.
        values: the column as numbers, with NaN for these cells.
    """
    n = words.nunique()
    return bool(n <= MAX_MARKS and len(words) <= values.notna().sum() and values.nunique() >= MIN_NUMBERS * n)


def _decorated(different: pd.Series[Any]) -> bool:
    """Return whether the numbers have a few common prefixes or suffixes, such as units, or digits outside ASCII."""
    around = {re.sub(_DIGITS, "", cell).strip() for cell in different}
    other_digits = any(not cell.isascii() or "_" in cell for cell in different)
    return len(around) <= MAX_DECORATIONS and (around != {""} or other_digits)


# Scripts without blanks between words: Thai, Lao, Burmese, Khmer, Japanese kana, and the ideographs of Chinese and
# Japanese. A character of theirs is a token by itself.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Blanks, and the punctuation of ASCII, of Latin-1, of all languages, of East Asia, and in its full width. All other
# characters are of words: Python's \w lacks the vowel signs of India.
_BETWEEN = r"\s\0!-/:-@\[-^`{-~\u00a1-\u00bf\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20"
# A word of more than 30 characters is divided: an encoded picture would else be one token as long as itself.
TOKEN = rf"[{UNSPACED}]|[^{_BETWEEN}{UNSPACED}]{{1,30}}"
_LETTERS = r"[^\W\d_]"
# A column with more different values than this share of its number of rows may name the rows, or say when they were
# written. Other texts, and even names of people, repeat themselves more often.
UNIQUE = 0.9
MANY_ROWS = 20  # fewer values may be all different, or all equal, by chance: nothing is said of them
SEVERAL = 2  # words of which a text has at least so many; two characters of a script without blanks are a word
# Words that come again in another text, as a share of all. In texts of any language that are worth learning from it is
# far higher; in names of rows, such as "Order AX-31 of 4417", most are of one row only.
RECURRING = 0.5
LOOKED_AT = 2_000  # different values that are looked at, evenly spaced in their alphabetical order


def is_text(values: pd.Series[Any]) -> bool:
    """Return whether a column without numbers and dates is text, whose features are its words, and not categories.

    Three conditions must hold. Most values are different, or there are more different values than categories that get a
    column of their own. Half of the values have two words or more. Words occur again in other values, unlike in
    identifiers. A column of fewer than `MANY_ROWS` different values, or one that `unread` reports, is no text.

    Args:
        values: the column as text; some may be missing.
    """
    n, different = int(values.notna().sum()), values.dropna().unique()
    if len(different) < MANY_ROWS or (len(different) <= MAX_CATEGORIES and len(different) <= n / 2):
        return False
    different = np.sort(different.astype(object))
    looked_at = different[np.linspace(0, len(different) - 1, min(len(different), LOOKED_AT)).astype(int)]
    if np.mean([_words(cell) >= SEVERAL for cell in looked_at]) < 1 / 2:
        return False
    tokens = [set(re.findall(TOKEN, cell.lower())) for cell in looked_at]
    counts = Counter(token for each in tokens for token in each)
    recurring = sum(count for count in counts.values() if count > 1)
    return recurring >= RECURRING * sum(counts.values()) and unread(values, []) is None


def words_on_average(values: pd.Series[Any]) -> float:
    """Return the mean number of words of the first `LOOKED_AT` different values that are present; 0 for no value."""
    counts = [_words(cell) for cell in values.dropna().unique()[:LOOKED_AT]]
    return float(np.mean(counts)) if counts else 0.0


def _words(cell: str) -> float:
    """Count the words of a cell. A word has two letters and no digit; in scripts without blanks, two characters."""
    characters = len(re.findall(rf"[{UNSPACED}]", cell))
    spaced = re.sub(rf"[{UNSPACED}]", " ", cell).split() if characters else cell.split()
    return characters / 2 + sum(
        len(re.findall(_LETTERS, chunk)) > 1 and not re.search(r"\d", chunk) for chunk in spaced
    )
