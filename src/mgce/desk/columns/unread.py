"""Write notes on columns that were read as categories, but look like numbers or dates in an unknown format."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from mgce.desk.columns.cells import THOUSANDS, days_of_text, numbers_of_text, points_between_thousands
from mgce.desk.files.vectors import SHORTEST

DECIMAL_COMMA = r"\s*[-+]?(?:\d+|\d{1,3}(?:[.' ]\d{3})+),\d+\s*"
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
# Marks of missing values, such as "?" and "unknown", are few. The numbers beside them are more, unlike codes of few
# categories that a letter may belong to.
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

    if mostly(DECIMAL_COMMA):
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
            f"Column `{name}` looks like dates, but is taken as categories: dates are recognised only if they are "
            "written with the year first, like 2024-05-31 or 2024-05-31T13:30+02:00."
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
    """Report a column of numbers or dates that was read as categories, because too many cells mark missing values."""
    for kind, read in (("numbers", numbers_of_text(different, THOUSANDS)), ("dates", days_of_text(different))):
        marks = different[read.isna()]
        holds_codes = different.str.fullmatch(r"\s*0\d+\s*").any()
        if 0 < len(marks) <= MAX_MARKS and len(different) - len(marks) >= MIN_NUMBERS and not holds_codes:
            n = int(cells.isin(list(marks)).sum())
            if n <= len(cells) / 2:
                return (
                    f"Column `{cells.name}` holds {kind}, but something else in {n:,} rows ({marks.iloc[0]!r}, for "
                    "one), and is taken as categories. If that stands for a missing value, leave the cell empty."
                )
    return None


def _decorated(different: pd.Series[Any]) -> bool:
    """Return whether the numbers have a few common prefixes or suffixes, such as units, or digits outside ASCII."""
    around = {re.sub(_DIGITS, "", cell).strip() for cell in different}
    other_digits = any(not cell.isascii() or "_" in cell for cell in different)
    return len(around) <= MAX_DECORATIONS and (around != {""} or other_digits)
