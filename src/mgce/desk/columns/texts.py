"""Recognise columns of text, such as subjects and comments, among columns that hold no numbers or dates."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from mgce.desk.columns.unread import unread
from mgce.desk.files.tables import MAX_CATEGORIES

# Scripts without blanks between words: Thai, Lao, Burmese, Khmer, Japanese kana, and the ideographs of Chinese and
# Japanese. A character of theirs is a token by itself.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Blanks, and the punctuation of ASCII, of Latin-1, of all languages, of East Asia, and in its full width. All other
# characters are of words: Python's \w lacks the vowel signs of India.
_BETWEEN = r"\s\0!-/:-@\[-^`{-~\u00a1-\u00bf\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20"
# A longer word is divided: an encoded picture would else be one token as long as itself.
TOKEN_LENGTH = 30
TOKEN = rf"[{UNSPACED}]|[^{_BETWEEN}{UNSPACED}]{{1,{TOKEN_LENGTH}}}"
_LETTERS = r"[^\W\d_]"
MIN_DIFFERENT = 20  # different values of a text column, at least: fewer may be all different by chance
SEVERAL = 2  # words of which a text has at least so many; two characters of a script without blanks are a word
# Words that come again in another text, as a share of all. In texts of any language that are worth learning from it is
# far higher; in names of rows, such as "Order AX-31 of 4417", most are of one row only.
RECURRING = 0.5
LOOKED_AT = 2_000  # different values that are looked at, evenly spaced in their alphabetical order


def is_text(values: pd.Series[Any]) -> bool:
    """Return whether a column without numbers and dates is text, whose features are its words, or categories.

    Three conditions must hold. Most values are different, or there are more different values than categories that get a
    column of their own. Half of the values have two words or more. Words occur again in other values, unlike in
    identifiers.

    Args:
        values: the column as text; some may be missing.
    """
    n, different = int(values.notna().sum()), values.dropna().unique()
    if len(different) < MIN_DIFFERENT or (len(different) <= MAX_CATEGORIES and len(different) <= n / 2):
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
    """Return the mean number of words of the values that are not missing; 0 if there are none."""
    counts = [_words(cell) for cell in values.dropna().unique()[:LOOKED_AT]]
    return float(np.mean(counts)) if counts else 0.0


def _words(cell: str) -> float:
    """Count the words of a cell. A word has two letters and no digit; in scripts without blanks, two characters."""
    characters = len(re.findall(rf"[{UNSPACED}]", cell))
    spaced = re.sub(rf"[{UNSPACED}]", " ", cell).split() if characters else cell.split()
    return characters / 2 + sum(
        len(re.findall(_LETTERS, chunk)) > 1 and not re.search(r"\d", chunk) for chunk in spaced
    )
