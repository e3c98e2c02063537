"""Vectors as cells of a table: each row's features of a pretrained encoder, in one column."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

# Numbers of a vector that is written as text, at least. Encoders have more features; shorter lists in text are rather
# coordinates, boxes or tags, which should not replace the other columns.
SHORTEST = 8
# A list as text: [1, 2] of JSON, [1. 2.] of NumPy, array([1., 2.]), tensor([1., 2.], dtype=...), [np.float64(1.0)].
WRITTEN = re.compile(r"\s*(?:[\w.]+\()?\[([^\[\]]*)\](?:,[^\[\]]*)?\)?\s*")
SCALAR = r"np\.\w+\(([^()]*)\)"


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of numbers in one cell of a table; pandas compares and hashes it like any object.

    Attributes:
        raw: the numbers as float32.
    """

    raw: bytes

    def __str__(self) -> str:
        """Return a hash of the numbers, which files show instead of the numbers."""
        return blake2b(self.raw, digest_size=16).hexdigest()

    @property
    def width(self) -> int:
        """The length of the vector."""
        return len(self.raw) // 4


def vectors(values: NDArray[Any]) -> list[Vector]:
    """Return the rows of a matrix as vectors, each for one cell.

    Example:
        >>> [one.width for one in vectors(np.zeros((2, 3)))]
        [3, 3]
    """
    return [Vector(np.ascontiguousarray(row, dtype="<f4").tobytes()) for row in values]


def matrix(cells: pd.Series[Any]) -> NDArray[np.float32]:
    """Return a column of vectors of one width as a matrix, one row for each cell."""
    flat = np.frombuffer(b"".join([cell.raw for cell in cells]), dtype="<f4")
    return flat.reshape(len(cells), cells.iloc[0].width if len(cells) else 0).astype(np.float32, copy=False)


def with_vectors(frame: pd.DataFrame, skip: Collection[str] = (), shortest: int = SHORTEST) -> pd.DataFrame:
    """Return a table in which columns of lists of numbers become columns of vectors; other columns stay as they are.

    Args:
        frame: the table.
        skip: columns whose values stay what they are.
        shortest: the fewest numbers of a vector that is written as text.
    """
    import pandas as pd

    found = {}
    for name in frame.columns.difference([*skip], sort=False):
        column = frame[name]
        if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
            cells = _vectors_of(column, shortest)
            if cells is not None:
                found[name] = cells
    return frame.assign(**found) if found else frame


def _vectors_of(column: pd.Series[Any], shortest: int) -> pd.Series[Any] | None:
    """Return a column as vectors; None unless every cell with a value is a list of equally many numbers."""
    import pandas as pd

    there = column.notna().to_numpy()
    cells = column.to_numpy(dtype=object)[there]
    first = _numbers(cells[0], shortest) if len(cells) else None
    if first is None:
        return None
    made = []
    for cell in cells:
        numbers = _numbers(cell, shortest)
        if numbers is None or len(numbers) != len(first):
            return None
        made.append(Vector(numbers.tobytes()))
    whole = np.full(len(column), None, dtype=object)
    whole[there] = made
    return pd.Series(whole, index=column.index, dtype=object)


def _numbers(cell: Any, shortest: int) -> NDArray[np.float32] | None:
    """Return the numbers in a cell: a list, or its text as JSON, Python, NumPy or PyTorch write it; else None."""
    try:
        if isinstance(cell, str):
            found = WRITTEN.fullmatch(cell)
            parts = re.sub(SCALAR, r"\1", found[1]).replace(",", " ").split() if found else []
            return np.array([*map(float, parts)], dtype="<f4") if len(parts) >= shortest else None
        if isinstance(cell, list | tuple | np.ndarray):
            numbers = np.asarray(cell, dtype="<f4")
            return numbers if numbers.ndim == 1 and len(numbers) else None
    except (TypeError, ValueError):
        pass
    return None
