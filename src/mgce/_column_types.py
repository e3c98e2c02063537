"""Bring the columns of any frame into the types of pandas that other modules read, without rounding a whole number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


def of_arrow(table: Any) -> pd.DataFrame:
    """Return a table of Arrow as a frame of pandas with plain types.

    Pandas would make floats of whole numbers in a column with missing values: 7 would become 7.0, and a number of 19
    digits another number. Parquet keeps the type of numeric categories in the metadata of pandas alone.
    """
    import pandas as pd
    import pyarrow as pa

    exact = {
        getattr(pa, f"{kind.lower()}{size}")(): pd.api.types.pandas_dtype(f"{kind}{size}")
        for kind in ("Int", "UInt")
        for size in (8, 16, 32, 64)
    }
    written = (table.schema.pandas_metadata or {}).get("columns", [])
    categories = {str(one["name"]) for one in written if one["pandas_type"] == "categorical"}
    frame = table.to_pandas(types_mapper=exact.get)
    for place, name in enumerate(frame.columns):
        if name in categories and not isinstance(frame.dtypes.iloc[place], pd.CategoricalDtype):
            frame.isetitem(place, frame.iloc[:, place].astype("category"))
    return plain(frame)


def of_values(values: list[Any]) -> pd.Series[Any]:
    """Return Python values as a column of the type that pandas infers, but whole numbers beside None stay whole."""
    import pandas as pd

    if {*map(type, values)} != {int, type(None)}:
        return pd.Series(values)
    numbers = [value for value in values if value is not None]
    fits = next((name for name in ("Int64", "UInt64") if _holds(name, min(numbers), max(numbers))), object)
    return pd.Series(values, dtype=fits)


def _holds(name: str, *numbers: int) -> bool:
    limits = np.iinfo(name.lower())
    return all(limits.min <= number <= limits.max for number in numbers)


def frame_of(table: Any) -> pd.DataFrame | None:
    """Convert a frame of pandas, polars or pyarrow, or what has a method `to_pandas`, to pandas; else return None."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return plain(table)
    if not hasattr(table, "to_pandas"):
        return None
    arrow = table.to_arrow() if hasattr(table, "to_arrow") else table
    if type(arrow).__module__.startswith("pyarrow"):
        return of_arrow(arrow)
    found = table.to_pandas()
    return plain(found) if isinstance(found, pd.DataFrame) else None


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without columns of Arrow's types, sparse columns, and cells of `pandas.NA` in texts.

    Columns of whole numbers with missing values are of pandas' nullable types. Columns of categories stay as they are.
    The frame of the caller is not changed.
    """
    changed = frame.copy(deep=False)
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        found: Any = plain_column(column)
        if found is not column:
            changed.isetitem(place, found)
    return changed


def plain_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as :func:`plain` has it; the same object, if there is nothing to change."""
    import pandas as pd

    if isinstance(column.dtype, pd.ArrowDtype):
        import pyarrow as pa

        converted = of_arrow(pa.table({"column": column.array.__arrow_array__()}))["column"]
        return pd.Series(converted.array, index=column.index, name=column.name)
    if isinstance(column.dtype, pd.SparseDtype):
        return pd.Series(np.asarray(column), index=column.index, name=column.name)
    if isinstance(column.dtype, pd.StringDtype) or column.dtype == object:
        absent = np.array([cell is pd.NA for cell in column.array], dtype=bool)
        return column.astype(object).mask(absent, np.nan) if absent.any() else column
    if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) and column.dtype.kind in "iufb":
        return _masked(column)
    return column


def _masked(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of pandas' nullable types as one of NumPy's, if that has a value for each cell."""
    import pandas as pd

    kind, own = column.dtype.kind, getattr(column.dtype, "numpy_dtype", None)
    if own is None:  # categories
        return column
    if kind == "f":
        return pd.Series(column.to_numpy(dtype=own, na_value=np.nan), index=column.index, name=column.name)
    if column.notna().all():
        return pd.Series(column.to_numpy(dtype=own), index=column.index, name=column.name)
    return column.astype(object).mask(column.isna(), None) if kind == "b" else column


def cells_of(column: pd.Series[Any]) -> NDArray[Any]:
    """Return the cells of a column as Python objects, NaN for a missing one; a whole number stays whole."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):  # pandas would make floats of them beside a missing value
        categories = np.array([*column.cat.categories, None], dtype=object)
        categories[-1] = np.nan
        return np.asarray(categories[column.cat.codes.to_numpy()])
    column = plain_column(column)
    cells = column.astype(object).to_numpy(dtype=object, copy=True)
    cells[column.isna().to_numpy()] = np.nan
    return cells


def texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the cells of a column as texts, NaN for a missing one.

    Example:
        >>> import pandas as pd
        >>> texts(pd.Series([1234567890123456789, None], dtype="Int64")).tolist()
        ['1234567890123456789', nan]
    """
    import pandas as pd

    cells = pd.Series(cells_of(column), index=column.index, name=column.name, dtype=object)
    return cells.map(str, na_action="ignore").astype(object)
