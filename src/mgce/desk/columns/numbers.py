"""Read cells of text as numbers, with or without thousands separators, or as true and false."""

from __future__ import annotations

from typing import Any

import pandas as pd

PLAIN, THOUSANDS, TRUTH = "plain", "thousands", "true/false"
NUMBER_FORMATS = (PLAIN, THOUSANDS, TRUTH)
# Between groups of three digits stands a comma, an apostrophe or a space, of which Unicode has several. In India, the
# groups before the last have two digits.
GROUP_SEPARATORS = (",", "'", "\u2019", " ", "\u00a0", "\u202f")
_GROUPS = "|".join(rf"(?:{separator}\d{{3}})+" for separator in GROUP_SEPARATORS)
GROUPED = rf"\s*[-+]?(?:[1-9]\d{{0,2}}(?:{_GROUPS})|[1-9]\d?(?:,\d{{2}})*,\d{{3}})(?:\.\d*)?\s*"
# A comma that must be decimal, since groups have three digits and begin with no zero.
COMMA = r"\s*[-+]?\d*,\d+\s*"
# Points between thousands, as in 1.234.567 and 1.234,5.
POINTS = r"\s*[-+]?\d{1,3}(?:(?:\.\d{3}){2,}(?:,\d*)?|\.\d{3},\d*)\s*"
WORDS = {"true": 1.0, "false": 0.0}


def numbers_of_text(text: pd.Series[Any], form: str) -> pd.Series[Any]:
    """Convert cells of text to float64; cells that are no number in this format become NaN.

    Args:
        text: cells of text; some may be missing.
        form: one of `NUMBER_FORMATS`. Numbers in the format `PLAIN` are read with every form.
    """
    numbers: pd.Series[Any] = pd.to_numeric(text, errors="coerce").astype(float)
    if form == TRUTH:
        numbers = numbers.fillna(_words(text))
    elif form == THOUSANDS:
        ungrouped = text.where(_like(text, GROUPED)).str.replace(rf"[{''.join(GROUP_SEPARATORS)}]", "", regex=True)
        numbers = numbers.fillna(pd.to_numeric(ungrouped, errors="coerce").astype(float))
    return numbers


def format_of_text(text: pd.Series[Any]) -> str:
    """Return the format in which a column of text is to be read, if it holds numbers."""
    plain, words = numbers_of_text(text, PLAIN).dropna(), _words(text).dropna()
    if len(words) > len(plain) or (len(plain) and plain.isin(WORDS.values()).all()):
        return TRUTH
    grouped = _like(text, GROUPED)
    return THOUSANDS if grouped.any() and not (_like(text, COMMA) & ~grouped).any() else PLAIN


def points_between_thousands(text: pd.Series[Any]) -> bool:
    """Return whether points in a column are thousands separators, so that 1.234 means 1234."""
    decimal = _like(text, r"\s*[-+]?\d*\.\d+\s*") & ~_like(text, r"\s*[-+]?[1-9]\d{0,2}\.\d{3}\s*")
    return bool(_like(text, POINTS).any() and not decimal.any())


def _words(text: pd.Series[Any]) -> pd.Series[Any]:
    words: pd.Series[Any] = text.str.strip().str.lower().map(WORDS).astype(float)
    return words


def _like(text: pd.Series[Any], pattern: str) -> pd.Series[Any]:
    return text.str.fullmatch(pattern, na=False).astype(bool)
