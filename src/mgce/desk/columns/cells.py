"""Read cells of text as numbers with several separators, as true and false, or as dates."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

CALENDAR, MONTH, WEEK, ORDINAL, DIGITS = "YYYY-MM-DD", "YYYY-MM", "YYYY-Www-D", "YYYY-DDD", "YYYYMMDD"
# The forms of a date: a pattern for the part after the year, and the format for pandas, with hyphens between the
# groups. Slashes and points are not part of ISO 8601, but are unambiguous if the year comes first.
FORMS = {
    CALENDAR: (r"[-/.](\d{1,2})[-/.](\d{1,2})", "%Y-%m-%d"),
    MONTH: (r"-(\d{2})", "%Y-%m"),  # its first day
    WEEK: (r"-?W(\d{2})(?:-?([1-7]))?", "%G-%V-%u"),  # without a day, its Monday
    ORDINAL: (r"-(\d{3})", "%Y-%j"),
    DIGITS: (r"(\d{2})(\d{2})", "%Y-%m-%d"),
}
# Dates with the year last, which become dates with the year first.
DAY_FIRST, MONTH_FIRST = "DD.MM.YYYY", "MM/DD/YYYY"
YEAR_LAST = r"\s*(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\d)"
ORDERS = {DAY_FIRST: r"\4-\3-\1", MONTH_FIRST: r"\4-\1-\3"}
CLOCK = r"(\d{1,2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d+))?)?)?"
ZONE = r"(?:Z|UTC|GMT|([-+]\d{2})(?::?(\d{2})(?::?(\d{2}))?)?)"  # with seconds, as Python writes local mean times
TIME = rf"(?:(?:T|\s+){CLOCK}(?:\s*{ZONE})?)?"
N_TIME = re.compile(TIME).groups  # hour, minute, second, fraction, and the three of the zone
# Days of 400 years, after which the calendar repeats itself. pandas 2 only has the years from 1678 to 2261. So every
# date is moved by whole repetitions into the 400 years from 1800, read there, and moved back.
FIRST_DAY, END = np.array(["1800", "2200"], dtype="datetime64[D]").astype(np.int64).tolist()  # days since 1970
MICROSECOND = pd.Timedelta("1us")
DAY = pd.Timedelta("1D") // MICROSECOND


def days_of_text(text: pd.Series[Any], forms: Collection[str] = tuple(FORMS)) -> pd.Series[Any]:
    """Convert cells of text to days since 1970, with fractions, as float64; NaN for cells that are no date.

    A date may be followed by a T or a blank, and a time. A time without a zone is in UTC. Only seconds may have
    fractions.

    Args:
        text: cells of text; some may be missing.
        forms: keys of `FORMS` and `ORDERS`, the formats of dates that are recognised.
    """
    codes, different = pd.factorize(text.astype("str"))  # most columns hold a date many times
    days = np.full(len(different) + 1, np.nan)  # the last for a missing cell, whose code is -1
    cells = pd.Series(different).str.strip().str.upper()
    for order in ORDERS.keys() & {*forms}:
        cells = cells.str.replace(f"^{YEAR_LAST}", ORDERS[order], regex=True)
    forms = dict.fromkeys(CALENDAR if form in ORDERS else form for form in forms)
    cells = cells[cells.str.match(r"\d{4}", na=False).astype(bool)]
    for form in forms:
        pattern, name = FORMS[form]
        pattern = rf"(\d{{4}}){pattern}{'' if form == MONTH else TIME}"
        alike = cells.str.fullmatch(pattern, na=False).astype(bool)
        if alike.any():
            parts = cells[alike].str.extract(pattern)
            days[parts.index.to_numpy()] = _days_of_parts(parts, form, name)
            cells = cells[~alike]
    return pd.Series(days[codes], index=text.index)


def order_of(text: pd.Series[Any]) -> str | None:
    """Return the order of day and month in dates that end with the year; None if the cells do not show the order.

    A number above 12 is a day. A date with points, such as 1.2.2024, begins with the day.

    Example:
        >>> [order_of(pd.Series(cells)) for cells in (["1.2.2024"], ["1/2/2024", "1/13/2024"], ["1/2/2024"])]
        ['DD.MM.YYYY', 'MM/DD/YYYY', None]
    """
    first, sign, second, _ = text.str.extract(YEAR_LAST).T.to_numpy()
    day = (pd.to_numeric(first) > 12).any() or (sign == ".").any()
    month = (pd.to_numeric(second) > 12).any()
    return None if day == month else DAY_FIRST if day else MONTH_FIRST


def days_of_dates(dates: pd.Series[Any]) -> pd.Series[Any]:
    """Convert a column of pandas dates, of any unit, with or without a time zone, to days since 1970 with fractions."""
    values = (dates.dt.tz_convert(None) if dates.dt.tz is not None else dates).to_numpy()
    counts, unit = values.astype(np.int64), np.datetime_data(values.dtype)[0]
    if unit == "ns":
        counts, unit = counts // 1000, "us"
    # Dates outside this range are about a hundred thousand years away, and would overflow int64.
    scale = pd.Timedelta(f"1{unit}") // MICROSECOND
    present = ~np.isnat(values) & (np.abs(counts) < 2**62 // scale)
    days = np.where(present, np.where(present, counts, 0) * scale / DAY, np.nan)
    return pd.Series(days, index=dates.index)


def _days_of_parts(parts: pd.DataFrame, form: str, name: str) -> NDArray[np.float64]:
    """Return days since 1970 for cells split by a regular expression into parts: year, month, day and time.

    `form` is a key of `FORMS`, and `name` the format for pandas. A date that does not exist becomes NaN.
    """
    n_groups = parts.shape[1] - (0 if form == MONTH else N_TIME)
    year = parts[0].astype(int)
    repetitions = (year - 1800) // 400
    written = (year - 400 * repetitions).astype(str)
    for group in range(1, n_groups):
        written = written + "-" + parts[group].fillna("1")
    dates = pd.to_datetime(written, format=name, errors="coerce")
    valid = dates.notna().to_numpy()
    if form in (WEEK, ORDINAL):  # week 53 of a year of 52, or day 366 of 365, would be the first of the next
        valid = valid & (dates.dt.strftime(name) == written).to_numpy()
    numbers = dates.to_numpy().astype("datetime64[D]").astype(np.int64) + (END - FIRST_DAY) * repetitions.to_numpy()
    time = np.zeros(len(parts), dtype=np.int64)
    if form != MONTH:
        time, valid_time = _time(parts.iloc[:, n_groups:])
        valid = valid & valid_time
    return np.where(valid, (np.where(valid, numbers, 0) * DAY + time) / DAY, np.nan)


def _time(parts: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the time of day of each cell in UTC, in microseconds, and whether it is a valid time."""
    parts = parts.set_axis(["hour", "minute", "second", "fraction", "zone", "zone_minute", "zone_second"], axis=1)
    fraction = parts.pop("fraction").fillna("").str.ljust(6, "0").str[:6].astype(int).to_numpy()
    west = parts["zone"].str.startswith("-", na=False).to_numpy(dtype=bool)
    n = parts.fillna("0").astype(int).abs()
    local = ((n["hour"] * 60 + n["minute"]) * 60 + n["second"]).to_numpy() * 10**6 + fraction
    offset = ((n["zone"] * 60 + n["zone_minute"]) * 60 + n["zone_second"]).to_numpy() * 10**6
    small = (n[["minute", "second", "zone_minute", "zone_second"]] < 60).all(axis=1) & (n["zone"] < 24)
    utc = np.where(west, local + offset, local - offset)
    return utc.astype(np.int64), small.to_numpy() & (local <= DAY)  # 24:00 is a time


PLAIN, THOUSANDS, DECIMAL_COMMA, TRUTH = "plain", "thousands", "decimal comma", "true/false"
NUMBER_FORMATS = (PLAIN, THOUSANDS, DECIMAL_COMMA, TRUTH)
# Between groups of three digits stands a comma, an apostrophe or a space, of which Unicode has several. In India, the
# groups before the last have two digits.
GROUP_SEPARATORS = (",", "'", "\u2019", " ", "\u00a0", "\u202f")
_GROUPS = "|".join(rf"(?:{separator}\d{{3}})+" for separator in GROUP_SEPARATORS)
GROUPED = rf"\s*[-+]?(?:[1-9]\d{{0,2}}(?:{_GROUPS})|[1-9]\d?(?:,\d{{2}})*,\d{{3}})(?:\.\d*)?\s*"
# A comma that must be decimal, since groups have three digits and begin with no zero.
COMMA = r"\s*[-+]?\d*,\d+\s*"
# Points between thousands, as in 1.234.567 and 1.234,5.
POINTS = r"\s*[-+]?\d{1,3}(?:(?:\.\d{3}){2,}(?:,\d*)?|\.\d{3},\d*)\s*"
# A number in a column of decimal commas, with points, apostrophes or spaces between thousands or without.
WITH_COMMA = r"(?=.*\d)\s*[-+]?(?:\d*|[1-9]\d{0,2}(?:(?:\.\d{3})+|(?:['\u2019 \u00a0\u202f]\d{3})+))(?:,\d+)?\s*"
WORDS = {"true": True, "false": False}


def numbers_of_text(text: pd.Series[Any], form: str) -> pd.Series[Any]:
    """Convert cells of text to float64; cells that are no number in this format become NaN.

    Args:
        text: cells of text; some may be missing.
        form: one of `NUMBER_FORMATS`. Numbers in the format `PLAIN` are read with every form, but 1.234 may be 1234
            with `DECIMAL_COMMA`.
    """
    numbers: pd.Series[Any] = pd.to_numeric(text, errors="coerce").astype(float)
    with_comma = _like(text, WITH_COMMA)
    if form == DECIMAL_COMMA and not (numbers.notna() & ~with_comma).any():  # no number has a decimal point
        swapped = text.str.replace(r"[^-+\d,]", "", regex=True).str.replace(",", ".")
        return pd.to_numeric(text.where(~with_comma, swapped), errors="coerce").astype(float)
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
    grouped, with_comma = _like(text, GROUPED), _like(text, WITH_COMMA)
    # Commas that only decimals have, against those that thousands have too: a few of either are typing errors.
    decimal = with_comma & numbers_of_text(text, THOUSANDS).isna()
    if decimal.sum() > (with_comma & grouped & text.str.contains(",", na=False)).sum():
        others = text[~with_comma].str.contains(r"\d", na=False)
        return PLAIN if others.any() else DECIMAL_COMMA
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
