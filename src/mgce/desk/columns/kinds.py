"""Infer the kind of each column of a table, and read the same columns from other tables in the same way."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from mgce._column_types import plain_column, texts
from mgce._messages import NAMED, expected, listed, nearest
from mgce._text import printable
from mgce.desk.columns.cells import (
    CALENDAR,
    DECIMAL_COMMA,
    DIGITS,
    END,
    FIRST_DAY,
    FORMS,
    GROUPED,
    MONTH,
    NUMBER_FORMATS,
    ORDERS,
    ORDINAL,
    PLAIN,
    TRUTH,
    WORDS,
    YEAR_LAST,
    days_of_dates,
    days_of_text,
    format_of_text,
    numbers_of_text,
    order_of,
    points_between_thousands,
)
from mgce.desk.columns.spellings import respelt
from mgce.desk.columns.texts import MANY_ROWS, are_marks, is_text
from mgce.desk.files.layout import counted
from mgce.desk.files.reading import row_number
from mgce.desk.files.table_files import require_column, sheets_of
from mgce.desk.files.vectors import Vector, matrix, with_vectors

NUMBER, CATEGORY, DATE, TEXT, EMBEDDING = "number", "category", "date", "text", "embedding"
KINDS = (NUMBER, CATEGORY, DATE, TEXT, EMBEDDING)
AS_WRITTEN = (CATEGORY, TEXT, EMBEDDING)  # kinds whose values are not converted to numbers
# The formats in which a column of each kind may be written.
FORMATS = {NUMBER: NUMBER_FORMATS, CATEGORY: (), DATE: (*FORMS, *ORDERS), TEXT: (), EMBEDDING: ()}
WHOLE = r"-?(?:0|[1-9]\d*)(?:\.0)?"  # a whole number, as Python writes one of either type
# A misfit is a value that is not of the kind of its column, such as "unknown" in a column of numbers; it counts as
# missing. A column is inferred to be of numbers or dates if at most this share of its values are misfits, or if they
# are marks of missing values. One in twenty leaves room for typing errors.
MAX_MISFITS = 0.05


@dataclass(frozen=True)
class Columns:
    """The columns of a table: the features with their kinds (number, text ...), the target, and the column of names."""

    kinds: Mapping[str, str]  # from the name of a feature to its kind, one of `KINDS`
    target: str  # the column of the labels
    id: str | None = None  # the column that names the rows, if any
    # From the name of a feature to the format of its training rows, one of `FORMATS`; numbers without one are plain.
    # Numbers are read in this format only, dates in all. Whether 1/2/2024 is in January or February, the column shows
    # that holds it, or else the training rows.
    formats: Mapping[str, str] = field(default_factory=dict)
    width: int = 0  # number of features in the column of embeddings, which is then the only feature; else 0
    # The categories and labels that a model knows, by column. A whole number is read in their spelling, 7 or 7.0.
    known: Mapping[str, Collection[str]] = field(default_factory=dict, compare=False)
    apart: bool = False  # whether labels that differ in the spelling alone are different classes

    @property
    def categories(self) -> list[str]:
        """The names of the features that are columns of categories."""
        return [name for name, kind in self.kinds.items() if kind == CATEGORY]

    @property
    def embedding(self) -> str:
        """The name of the column of embeddings, if there is one."""
        return next(name for name, kind in self.kinds.items() if kind == EMBEDDING)

    @property
    def text(self) -> list[str]:
        """The columns to read from a text file as written: "007" must not become 7, nor 1.234 a number below 1234."""
        written = [name for name, kind in self.kinds.items() if kind in (CATEGORY, TEXT)]
        written += [name for name, form in self.formats.items() if form == DECIMAL_COMMA]
        return [name for name in (*written, self.target, self.id) if name is not None]

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        target: str,
        id: str | None = None,
        drop: Collection[str] = (),
        *,
        text: Collection[str] = (),
        category: Collection[str] = (),
        number: Collection[str] = (),
    ) -> Columns:
        """Infer the kind of each column (number, date, text or category) from its values.

        A column of numbers holds numbers, or true and false. A column of dates holds dates of one format. A column of
        text holds many different values of several words. Every other column holds categories. At most 5 % of the
        values in a column of numbers or dates may be something else, or more if they are a few words that come again,
        such as marks of missing values. Columns without any value are left out. In a table with a column of
        embeddings, this column is the only feature.

        Args:
            frame: the table.
            target: the column of the labels.
            id: the column that names the rows; it is no feature.
            drop: further columns that are no features.
            text: columns that are text, whatever their values.
            category: columns that are categories, whatever their values.
            number: columns of numbers, whatever their values.

        Raises:
            ValueError: if there is no column `target` or `id`, or if both are the same column.
        """
        for option, name in (("target", target), ("id", id)):
            if name is not None:
                require_column(frame, name, option)
        if id == target:
            raise ValueError(expected("id", "another column than the target", id))
        features = [name for name in frame.columns if name not in (target, id, *drop) and frame[name].notna().any()]
        told: dict[str, tuple[str, str | None]] = {name: (TEXT, None) for name in text}
        told |= {name: (CATEGORY, None) for name in category}
        for name in {*number}.intersection(features):
            told[name] = NUMBER, _number_format(plain_column(frame[name])) or PLAIN
        embeddings = [name for name in features if name not in told and _is_embedding(frame[name])]
        if embeddings:
            return _of_embedding(frame, embeddings, target, id)
        found = {name: told[name] if name in told else _kind(plain_column(frame[name])) for name in features}
        kinds = {name: kind for name, (kind, _) in found.items()}
        return cls(kinds, target, id, {name: form for name, (_, form) in found.items() if form is not None})

    def select(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the features of a table, in the order and with the types that the model was fitted to.

        Categories and texts become text, numbers float64, and dates the number of days since 1970 as float64. Missing
        values, and values that do not fit the column's kind, become NaN.

        Raises:
            ValueError: if a column is missing, or a column of numbers holds an infinite number. Also if a column of
                numbers or dates has several values, none of which can be read.
        """
        _require(frame, self.kinds)
        if self.width:
            (name,) = self.kinds
            return with_vectors(frame[[name]], shortest=1).pipe(_checked_vectors, self.width)
        values = {
            name: self._spelt(frame, name)
            if kind in AS_WRITTEN
            else _numbers(plain_column(frame[name]), kind, self.formats.get(name, PLAIN))
            for name, kind in self.kinds.items()
        }
        return pd.DataFrame(values, index=frame.index)

    def labels(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Return the target as text, NaN in rows without a label.

        Raises:
            ValueError: if the table has no target column.
        """
        _require(frame, [self.target])
        labels = self._spelt(frame, self.target)
        return labels if self.apart else respelt(labels, self.known.get(self.target, ()))

    def _spelt(self, frame: pd.DataFrame, name: str) -> pd.Series[Any]:
        """Return a column as text; a whole number, written as 7 or 7.0, is spelt like the known value it equals."""
        return spelt_as(texts(frame[name]), self.known.get(name, ()))

    def row_names(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Return a name for every row: its value in the id column, or its number from 1 if there is no such column."""
        if self.id is not None and self.id in frame.columns:
            return texts(frame[self.id]).fillna("")
        return pd.Series(range(1, len(frame) + 1), index=frame.index, name="row").astype(str)


def names_of_rows(frame: pd.DataFrame, features: Collection[str], told: Collection[str]) -> list[str]:
    """Return the features that nothing can be learnt from: running numbers, and categories different in every row.

    Args:
        frame: the table.
        features: the columns to learn from; if nothing can be learnt from any of them, none is returned.
        told: the columns whose kind the user stated, which are never returned.
    """
    found = [
        name
        for name in features
        if len(frame) >= MANY_ROWS
        and name not in told
        and (_is_running(frame[name]) if types.is_numeric_dtype(frame[name]) else _is_name(frame[name]))
    ]
    return found if len(found) < len(features) else []


def _is_running(numbers: pd.Series[Any]) -> bool:
    """Return whether numbers are whole and, sorted by size, equally far apart; real measurements have gaps."""
    steps = np.diff(np.sort(numbers.to_numpy(dtype=float, na_value=np.nan)))
    return bool(steps[0] >= 1 and (steps == steps[0]).all() and (numbers % 1 == 0).all())


def _is_name(column: pd.Series[Any]) -> bool:
    """Return whether a column holds categories, a different one in every row."""
    return bool(
        not (column.notna().any() and _is_embedding(column))
        and texts(column).nunique() == len(column)
        and _kind(plain_column(column))[0] == CATEGORY
    )


def spelt_as(cells: pd.Series[Any], known: Collection[str]) -> pd.Series[Any]:
    """Return texts in which 7.0 becomes 7, or 7 becomes 7.0, if only the new spelling is in `known`.

    Pandas makes floats of whole numbers in a column with missing values, and files keep what it made.

    Example:
        >>> spelt_as(pd.Series(["7.0", "8", "1.50"]), ["7", "8.0", "1.5"]).tolist()
        ['7', '8.0', '1.50']
    """
    spelling = {}
    for text in {*cells.dropna().unique()}.difference(known):
        other = text.removesuffix(".0") if text.endswith(".0") else f"{text}.0"
        if other in known and re.fullmatch(WHOLE, text):
            spelling[text] = other
    return cells.replace(spelling) if spelling else cells


def _is_embedding(column: pd.Series[Any]) -> bool:
    """Return whether the first value of a column is a vector."""
    return column.dtype == object and isinstance(column[column.notna()].iloc[0], Vector)


def _of_embedding(frame: pd.DataFrame, names: list[str], target: str, id: str | None) -> Columns:
    """Return the `Columns` of a table whose only feature is its column of embeddings; two such columns are an error."""
    if len(names) > 1:
        what = "a table with one column of embeddings; see --drop"
        raise ValueError(expected("table", what, f"{len(names)}: {', '.join(names)}"))
    cells = frame[names[0]]
    return Columns({names[0]: EMBEDDING}, target, id, width=cells[cells.notna()].iloc[0].width)


def _checked_vectors(frame: pd.DataFrame, width: int) -> pd.DataFrame:
    """Return a column of embeddings, after checking that every row has an embedding of `width` finite numbers."""
    (name,) = frame.columns
    for row, cell in enumerate(frame[name]):
        if not isinstance(cell, Vector) or cell.width != width:
            got = f"{cell.width:,}" if isinstance(cell, Vector) else "none"
            what = f"a column of embeddings of {width:,} numbers"
            raise ValueError(expected(name, what, f"{got} in data row {row_number(frame[name], row)}"))
    finite = np.isfinite(matrix(frame[name])).all(1)
    if not finite.all():
        place = int(np.flatnonzero(~finite)[0])
        what = f"a column of finite numbers, but that of data row {row_number(frame[name], place)} has others"
        raise ValueError(f"Expected `{name}` to be {what}.")
    return frame


def unseen_categories(selected: pd.DataFrame, known: Mapping[str, Collection[Any]]) -> list[str]:
    """Return a sentence for each column with categories that the model does not know.

    Args:
        selected: features, as :meth:`Columns.select` returns them.
        known: the categories of the training rows, by name of the column.
    """
    sentences = []
    for column, categories in known.items():
        values = selected[column][~selected[column].isin(list(categories))]
        if len(values):
            rows = counted(len(values), "row")
            example = "a missing value" if pd.isna(values.iloc[0]) else repr(values.iloc[0])
            sentences.append(
                f"In {rows}, column `{column}` holds a category that no training row had ({example}, for one); "
                "the model takes it as unknown."
            )
    return sentences


def unlike_their_column(frame: pd.DataFrame, selected: pd.DataFrame, kinds: Mapping[str, str]) -> list[str]:
    """Return a sentence for each column with values that do not fit its kind, such as text among numbers.

    Args:
        frame: the table as read.
        selected: its features, as :meth:`Columns.select` returns them.
        kinds: from the name of each feature to its kind.
    """
    sentences = []
    for name, kind in kinds.items():
        misfits = frame[name][selected[name].isna() & frame[name].notna()]
        if kind not in AS_WRITTEN and len(misfits):
            rows = counted(len(misfits), "row")
            words = [*map(repr, misfits.astype(str).value_counts().index)]
            thousands = misfits.astype(str).str.fullmatch(GROUPED).any()
            sentences.append(
                f"Column `{name}` holds {kind}s, but something else in {rows} ({listed(words, NAMED)}), which counts "
                "as missing."
                + " Numbers with thousands separators are read only where training rows have them."
                * bool(thousands)
            )
    return sentences


def _require(frame: pd.DataFrame, names: Iterable[str]) -> None:
    missing = [f"`{name}`" for name in names if name not in frame.columns]
    if missing:
        noun = "a column" if len(missing) == 1 else "columns"
        sentence = printable(f"Expected {noun} {listed(missing)} in the table, but found none of that name.")
        question = nearest(missing[0].strip("`"), frame.columns) or " Add it; its cells may be empty."
        raise ValueError(sentence + question + sheets_of(frame))


def _kind(column: pd.Series[Any]) -> tuple[str, str | None]:
    """Infer the kind of a column from its values, and the format of the values; None for text and categories."""
    allowed = MAX_MISFITS * column.notna().sum()

    def fits(kind: str, form: str) -> bool:
        values = _read(column, kind, form)
        # Codes may look like dates of these forms, but hardly like dates that tables hold.
        likely = form not in (DIGITS, MONTH, ORDINAL, *ORDERS) or FIRST_DAY <= values.median() < END
        misfits = column[values.isna() & column.notna()]
        return bool(likely and (len(misfits) <= allowed or are_marks(misfits, values)))

    if isinstance(column.dtype, pd.CategoricalDtype):  # numbers and digits of this type are codes
        if fits(DATE, CALENDAR):
            return DATE, CALENDAR
        return (TEXT if is_text(texts(column)) else CATEGORY), None
    number_format = _number_format(column)
    if fits(DATE, DIGITS):
        return DATE, DIGITS
    if number_format is not None and fits(NUMBER, number_format):
        return (CATEGORY, None) if _holds_codes(column) else (NUMBER, number_format)
    forms = [*FORMS, order_of(texts(column).astype("str"))]
    dates = next(((DATE, form) for form in forms if form is not None and fits(DATE, form)), None)
    return dates or (TEXT if is_text(texts(column)) else CATEGORY, None)


def _number_format(column: pd.Series[Any]) -> str | None:
    """Return the number format of a column; None if the column cannot be read as numbers."""
    if _is_number(column):
        return TRUTH if column.dropna().isin(WORDS.values()).all() else PLAIN
    text = texts(column).astype("str")
    form = format_of_text(text)
    return None if form != DECIMAL_COMMA and points_between_thousands(text) else form


def _holds_codes(column: pd.Series[Any]) -> bool:
    """Return whether a text column has a value like "007": codes have leading zeros, numbers have not."""
    if types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column):
        return False
    return bool(texts(column).astype("str").str.fullmatch(r"0\d+").fillna(False).any())


def _is_number(column: pd.Series[Any]) -> bool:
    return bool(types.is_numeric_dtype(column) or types.infer_dtype(column, skipna=True) == "boolean")


def _read(column: pd.Series[Any], kind: str, *forms: str) -> pd.Series[Any]:
    """Convert a column of numbers to float64, or a column of dates to days since 1970.

    Args:
        column: values of any type.
        kind: NUMBER or DATE.
        *forms: the format of numbers, or the formats of dates, in cells of text.

    Returns:
        The numbers, or days since 1970, as float64; NaN where a value is missing or not of this kind.
    """
    if types.is_datetime64_any_dtype(column):
        dates = days_of_dates(column)
        return dates if kind == DATE and CALENDAR in forms else dates * np.nan
    if _is_number(column):
        numbers = pd.Series(column.to_numpy(dtype=float, na_value=np.nan), index=column.index)
        return numbers if kind == NUMBER else _dates_of_digits(numbers)
    text = texts(column).astype("str")
    if kind == NUMBER:
        return numbers_of_text(text, *forms)
    return days_of_text(text, forms)


def _dates_of_digits(numbers: pd.Series[Any]) -> pd.Series[Any]:
    """Convert numbers of eight digits, such as 20240531, as dates to days since 1970; other numbers become NaN."""
    eight = np.flatnonzero(numbers.between(10**7, 10**8, inclusive="left") & (numbers % 1 == 0))
    days = np.full(len(numbers), np.nan)
    days[eight] = days_of_text(numbers.iloc[eight].astype(int).astype(str), [DIGITS])
    return pd.Series(days, index=numbers.index)


def _numbers(column: pd.Series[Any], kind: str, form: str) -> pd.Series[Any]:
    """Read a column that was inferred to be of numbers or dates when the model was fitted.

    Dates are read in every format. If the column does not show whether the day or the month comes first, `form`
    decides, the format of the training rows.

    Raises:
        ValueError: if the column holds an infinite number, or several values of which none can be read.
    """
    # A table with the training rows' numbers may have been saved where commas are decimal.
    forms = [DECIMAL_COMMA if form == PLAIN and _number_format(column) == DECIMAL_COMMA else form]
    if kind == DATE:
        forms = [*FORMS, *ORDERS.keys() & {order_of(texts(column).astype("str")) or form}]
    numbers = _read(column, kind, *forms)
    misfits = np.flatnonzero(numbers.isna() & column.notna())
    refused = np.flatnonzero(np.isinf(numbers))
    # Without any value that can be read, the column is not the one that was fitted to. Of one row that is not known.
    if len(misfits) == column.notna().sum() and len(misfits) > 1:
        refused = np.union1d(refused, misfits)
    if refused.size:
        values = "finite numbers" if kind == NUMBER else "dates like 2024-05-31"
        first, row = column.iloc[refused[0]], row_number(column, int(refused[0]))
        got = f"{first!r} in data row {row}" if isinstance(first, str) else f"{first} in data row {row}"
        unknown = " Does the day or the month come first?" * (kind == DATE and bool(re.match(YEAR_LAST, str(first))))
        raise ValueError(printable(f"Expected `{column.name}` to be a column of {values}, but got {got}.{unknown}"))
    return numbers
