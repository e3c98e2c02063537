"""The columns of a table that a model is fitted to: their kinds, and whether another table has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mgce._validation import expected

if TYPE_CHECKING:
    import pandas as pd

NUMBER, CATEGORY, DATE = "number", "category", "date"
KINDS = (NUMBER, CATEGORY, DATE)
# Share of the values in a column of numbers or dates that may be something else, such as "unknown" or "n. a.": they
# count as missing. With more of them it is a column of categories.
OTHERS = 0.05
# With more than this share, a table is not the one that was fitted to. Rows that were held out, or come later, may well
# have more such values than those that the kind was told from.
TOO_MANY_OTHERS = 0.2
DAY = 86_400  # seconds
ISO_DATE = r"\s*\d{4}-\d{1,2}-\d{1,2}\b"


@dataclass(frozen=True)
class Columns:
    """The features by name, each of a kind of `KINDS`; the target; and the column that names the rows, if any."""

    kinds: Mapping[str, str]
    target: str
    id: str | None = None

    @property
    def categories(self) -> list[str]:
        """The names of the features that are categories."""
        return [name for name, kind in self.kinds.items() if kind == CATEGORY]

    @property
    def text(self) -> list[str]:
        """The columns of a text file to be read letter by letter."""
        return [name for name in (*self.categories, self.target, self.id) if name is not None]

    @classmethod
    def of(cls, frame: pd.DataFrame, target: str, id: str | None = None, drop: Collection[str] = ()) -> Columns:
        """Tell the kinds from the values: numbers, also true and false; dates; all else are categories.

        A few values of a column of numbers or dates may be something else. A column without any value is left out.

        Raises:
            ValueError: if there is no column `target` or `id`, or both are one.
        """
        names = ", ".join(map(str, frame.columns[:20]))
        for option, name in (("target", target), ("id", id)):
            if name is not None and name not in frame.columns:
                raise ValueError(expected(option, f"a column of the table ({names})", name))
        if id == target:
            raise ValueError(expected("id", "another column than the target", id))
        others = [name for name in frame.columns if name not in (target, id, *drop) and frame[name].notna().any()]
        kinds = {name: _kind(frame[name]) for name in others}
        return cls(kinds, target, id)

    def select(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Give the features in the order and the types they were fitted in: float64, or text; NaN where missing.

        A date becomes the number of days since 1970.

        Raises:
            ValueError: if a column is missing, one of numbers holds an infinite number, or a column of numbers or dates
                holds something else in more than a few rows.
        """
        import pandas as pd

        _require(frame, self.kinds)
        values = {
            name: _text(frame[name]) if kind == CATEGORY else _numbers(frame[name], kind)
            for name, kind in self.kinds.items()
        }
        return pd.DataFrame(values, index=frame.index)

    def labels(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Give the target as text, NaN in rows without a label.

        Raises:
            ValueError: if the table has no such column.
        """
        _require(frame, [self.target])
        return _text(frame[self.target])

    def row_names(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Name every row by the id column where the table has it, or else by its number, from 1."""
        import pandas as pd

        if self.id is not None and self.id in frame.columns:
            return _text(frame[self.id]).fillna("")
        return pd.Series(range(1, len(frame) + 1), index=frame.index, name="row").astype(str)


def unseen_categories(selected: pd.DataFrame, known: Mapping[str, Collection[Any]]) -> list[str]:
    """Say in a sentence for each column of categories which values of it are not known, and in how many rows."""
    import pandas as pd

    sentences = []
    for column, categories in known.items():
        values = selected[column][~selected[column].isin(list(categories))]
        if len(values):
            rows = f"{len(values):,} row{'s' * (len(values) > 1)}"
            example = "a missing value" if pd.isna(values.iloc[0]) else repr(values.iloc[0])
            sentences.append(
                f"In {rows}, column `{column}` holds a category that no training row had ({example}, for one); "
                "the model takes it as unknown."
            )
    return sentences


def unlike_their_column(frame: pd.DataFrame, selected: pd.DataFrame, kinds: Mapping[str, str]) -> list[str]:
    """Say in a sentence for each column of numbers or dates how many of its values are something else.

    Args:
        frame: the table as read.
        selected: its features, as :meth:`Columns.select` gives them.
        kinds: of the features, by name.
    """
    sentences = []
    for name, kind in kinds.items():
        found = frame[name][selected[name].isna() & frame[name].notna()]
        if kind != CATEGORY and len(found):
            rows = f"{len(found):,} row{'s' * (len(found) > 1)}"
            sentences.append(
                f"Column `{name}` holds {kind}s, but something else in {rows} ({str(found.iloc[0])!r}, for one), which "
                "counts as missing."
            )
    return sentences


def _require(frame: pd.DataFrame, names: Iterable[str]) -> None:
    missing = [f"`{name}`" for name in names if name not in frame.columns]
    if missing:
        what = "a column" if len(missing) == 1 else "columns"
        raise ValueError(f"Expected {what} {', '.join(missing)} in the table, but found none of that name.")


def _kind(column: pd.Series[Any]) -> str:
    most = column.isna().sum() + OTHERS * column.notna().sum()
    if _read(column, NUMBER).isna().sum() <= most:
        return CATEGORY if _holds_codes(column) else NUMBER
    return DATE if _read(column, DATE).isna().sum() <= most else CATEGORY


def _holds_codes(column: pd.Series[Any]) -> bool:
    """Tell whether a column is text with a value like "007", which is no number that anyone writes."""
    from pandas.api import types

    if types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column):
        return False
    return bool(_text(column).astype("str").str.fullmatch(r"0\d+").fillna(False).any())


def _read(column: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """Give a column as float64, NaN where its values are missing or not of this kind, NUMBER or DATE."""
    import pandas as pd
    from pandas.api import types

    nothing = pd.Series(np.nan, index=column.index, dtype=float)
    if types.is_datetime64_any_dtype(column):
        return _days(column) if kind == DATE else nothing
    if types.is_numeric_dtype(column) or types.infer_dtype(column, skipna=True) == "boolean":
        numbers = pd.Series(column.to_numpy(dtype=float, na_value=np.nan), index=column.index)
        return numbers if kind == NUMBER else nothing
    text = _text(column).astype("str")
    if kind == NUMBER:
        return pd.to_numeric(text, errors="coerce").astype(float)
    # Year first, as ISO has it: whether 1/2/2024 is in January or February depends on the country.
    like_dates = text.where(text.str.match(ISO_DATE).fillna(False).astype(bool))
    return _days(pd.to_datetime(like_dates, errors="coerce", utc=True, format="ISO8601"))


def _days(dates: pd.Series[Any]) -> pd.Series[Any]:
    """Count the days since 1970 began, with fractions."""
    import pandas as pd

    since: pd.Series[Any] = (dates - pd.Timestamp(0, tz=dates.dt.tz)).dt.total_seconds() / DAY
    return since


def _numbers(column: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """Give a column that has to be of numbers or dates as float64."""
    numbers = _read(column, kind)
    others = np.flatnonzero(numbers.isna() & column.notna())
    wrong = np.flatnonzero(np.isinf(numbers))
    if len(others) > TOO_MANY_OTHERS * column.notna().sum():
        wrong = np.union1d(wrong, others)
    if wrong.size:
        what = "finite numbers" if kind == NUMBER else "dates like 2024-05-31"
        value = column.iloc[wrong[0]]
        got = f"{value!r} in row {wrong[0] + 1}" if isinstance(value, str) else f"{value} in row {wrong[0] + 1}"
        raise ValueError(f"Expected `{column.name}` to be a column of {what}, but got {got}.")
    return numbers


def _text(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(object).map(str, na_action="ignore").astype(object)
