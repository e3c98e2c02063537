"""Vectors as cells of a table: each row's features of a pretrained encoder, in one column."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Vector:
    """The numbers of a row in a cell, which pandas compares and hashes as it does any object.

    Attributes:
        raw: the numbers as float32.
    """

    raw: bytes

    def __str__(self) -> str:
        """Return a name for the content, which files show instead of the numbers."""
        return blake2b(self.raw, digest_size=16).hexdigest()

    @property
    def width(self) -> int:
        """The number of numbers."""
        return len(self.raw) // 4


def vectors(values: NDArray[Any]) -> list[Vector]:
    """Return the rows of a matrix as cells.

    Example:
        >>> [one.width for one in vectors(np.zeros((2, 3)))]
        [3, 3]
    """
    return [Vector(np.ascontiguousarray(row, dtype="<f4").tobytes()) for row in values]


def matrix(cells: pd.Series[Any]) -> NDArray[np.float32]:
    """Return a column of vectors of one width as a matrix, one row for each cell."""
    flat = np.frombuffer(b"".join([cell.raw for cell in cells]), dtype="<f4")
    return flat.reshape(len(cells), cells.iloc[0].width if len(cells) else 0).astype(np.float32, copy=False)


def with_vectors(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which cells that are lists of numbers are vectors; other columns stay as they are."""
    lists = [name for name in frame.columns if frame[name].dtype == object and _is_list(frame[name])]
    return frame.assign(**{name: frame[name].map(_vector, na_action="ignore") for name in lists}) if lists else frame


def _is_list(column: pd.Series[Any]) -> bool:
    """Return whether every cell with a value is a list or an array of as many numbers as the first."""
    cells = column[[cell is not None and not (isinstance(cell, float) and cell != cell) for cell in column]]
    if not len(cells) or not isinstance(cells.iloc[0], list | tuple | np.ndarray):
        return False
    try:
        width = len(cells.iloc[0])
        return width > 0 and all(np.asarray(cell, dtype=np.float32).shape == (width,) for cell in cells)
    except (TypeError, ValueError):
        return False


def _vector(cell: Any) -> Vector:
    return Vector(np.asarray(cell, dtype="<f4").tobytes())
