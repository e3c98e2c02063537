"""One order of the rows of a sample that depends on what stands in them, and not on how a file was sorted.

Whatever has to pick rows (random splits, folds, the surest fifth) picks them in this order, so that a sample that was
sorted by its labels gives what the same sample gives as drawn.
"""

from __future__ import annotations

from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def content_order(*columns: Any) -> NDArray[np.intp]:
    """Give the permutation that sorts rows by what stands in them, from the first column to the last.

    Numbers rise, whatever their type: 1, 1.0 and True are equal, as are 0.0 and -0.0; NaN comes last and equals NaN.
    Texts rise as Python compares them. In a column of objects numbers come first, then texts, then all else by its
    type and its `str`, then None. A sparse matrix has the order of the dense one. Equal rows keep the order in which
    they came, so which of them is which remains the caller's order; they are interchangeable.

    Args:
        *columns: arrays of n rows each, shape (n,) or (n, d), or SciPy's sparse matrices of shape (n, d).

    Returns:
        The permutation, shape (n,): row `order[0]` comes first.

    Raises:
        ValueError: if there is no column, or they have different numbers of rows.

    Example:
        >>> content_order(np.array([1.0, 0.0, 1.0]), np.array(["b", "a", "a"])).tolist()
        [1, 2, 0]
    """
    arrays: list[Any] = [column if sparse.issparse(column) else np.asarray(column) for column in columns]
    if len({array.shape[0] for array in arrays}) != 1:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"Expected `columns` to be one or more arrays of one number of rows. Got: {shapes or 'none'}.")
    keys = np.hstack([_bytes(array) for array in arrays])
    if keys.shape[1] == 0:
        return np.arange(len(keys))
    return np.argsort(np.ascontiguousarray(keys).view(f"V{keys.shape[1]}").ravel(), kind="stable")


def _bytes(array: Any) -> NDArray[np.uint8]:
    """Give each row as bytes that compare, from the first byte to the last, as the rows do: shape (n, width)."""
    if sparse.issparse(array):
        return _bytes(_rank(_sparse_rows(array)))
    array = array.reshape(len(array), int(np.prod(array.shape[1:])))
    if array.dtype.kind in "mM":
        array = array.astype(np.int64)
    elif array.dtype.kind not in "fbiu":
        ranks = [_rank([_object_key(value) for value in column]) for column in array.T.tolist()]
        array = np.stack(ranks, 1) if ranks else np.zeros(array.shape, np.int64)
    rising = np.ascontiguousarray(_rising(array))
    width = rising.shape[1] * rising.itemsize
    return rising.astype(rising.dtype.newbyteorder(">"), copy=False).view(np.uint8).reshape(len(array), width)


def _rising(numbers: NDArray[Any]) -> NDArray[Any]:
    """Give unsigned integers of the same order as numbers: NaN last, the two zeros equal."""
    kind, size = numbers.dtype.kind, numbers.dtype.itemsize
    if kind in "bu":
        return numbers.view(np.uint8) if kind == "b" else numbers
    if kind == "f" and size > 8:
        numbers, size = numbers.astype(np.float64), 8
    sign = np.array(1 << (8 * size - 1), f"u{size}")
    if kind == "i":
        return np.asarray(numbers.astype(f"i{size}", order="C").view(f"u{size}") ^ sign)
    # IEEE numbers rise as their bits do, once those of negative ones are turned round; adding 0.0 makes -0.0 to 0.0.
    nan, zero = numbers.dtype.type(np.nan), numbers.dtype.type(0)
    bits = np.where(np.isnan(numbers), nan, numbers + zero).view(f"u{size}")
    return np.asarray(np.where(bits & sign, ~bits, bits | sign))


def _sparse_rows(matrix: Any) -> list[bytes]:
    """Give each row of a sparse matrix as bytes that compare as the rows of the dense matrix do.

    Two rows differ first at a column where one of them may have nothing, that is 0. So an entry above 0 makes its row
    the larger the earlier it stands, one below 0 the smaller, and the end of a row lies between.
    """
    rows = sparse.csr_matrix(matrix, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    place = np.where(rows.data < 0, rows.indices.astype(np.int64) - rows.shape[1], rows.shape[1] - rows.indices)
    entries = np.hstack([_bytes(place), _bytes(rows.data)])
    end = _bytes(np.zeros(1, np.int64)).tobytes()
    starts = rows.indptr.tolist()
    return [entries[a:b].tobytes() + end for a, b in pairwise(starts)]


def _object_key(value: Any) -> tuple[int, Any, str]:
    """Give a key of any object by which all objects can be sorted."""
    if value is None:
        return 4, 0, ""
    if isinstance(value, Real):
        return (0, value, "") if value == value else (3, 0, "")
    return (1, value, "") if isinstance(value, str) else (2, type(value).__name__, str(value))


def _rank(keys: list[Any]) -> NDArray[np.int64]:
    """Give the place of each key among the different ones, from 0."""
    place = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([place[key] for key in keys], np.int64)
