"""Sort the rows of a sample by their content, so that results do not depend on how a file was sorted.

All code that selects rows (random splits, folds, the rows with the most certain predictions) sorts them in this way
first. A file sorted by its labels then gives the same result as the same rows in random order.
"""

from __future__ import annotations

from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def content_order(*columns: Any) -> NDArray[np.intp]:
    """Return the permutation that sorts rows by their values, from the first column to the last.

    Numbers ascend, whatever their type: 1, 1.0 and True are equal, as are 0.0 and -0.0; NaN comes last and equals NaN.
    Texts ascend as Python compares them. A column of objects has numbers first, then texts, then other objects by type
    and `str`, then None. A sparse matrix has the order of the dense one. Equal rows stay in the order given.

    Args:
        *columns: arrays of n rows each, shape (n,) or (n, d) for d columns, or sparse matrices of SciPy, shape (n, d).

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
    """Return each row as bytes, shape (n, width); sorting these lexicographically sorts the rows."""
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
    """Convert numbers to unsigned integers that sort in the same order: NaN is last, and both zeros are equal."""
    kind, size = numbers.dtype.kind, numbers.dtype.itemsize
    if kind in "bu":
        return numbers.view(np.uint8) if kind == "b" else numbers
    if kind == "f" and size > 8:
        numbers, size = numbers.astype(np.float64), 8
    sign = np.array(1 << (8 * size - 1), f"u{size}")
    if kind == "i":
        return np.asarray(numbers.astype(f"i{size}", order="C").view(f"u{size}") ^ sign)
    # The bits of IEEE numbers sort as the numbers do, once the bits of negative ones are inverted. -0.0 + 0.0 is 0.0.
    nan, zero = numbers.dtype.type(np.nan), numbers.dtype.type(0)
    bits = np.where(np.isnan(numbers), nan, numbers + zero).view(f"u{size}")
    return np.asarray(np.where(bits & sign, ~bits, bits | sign))


def _sparse_rows(matrix: Any) -> list[bytes]:
    """Return each row of a sparse matrix as bytes; these sort in the same order as the rows of the dense matrix.

    An entry that is not stored is 0. So at the first difference of two rows, a positive entry makes its row the larger
    one, and a negative entry makes it the smaller one. The bytes for the end of a row sort between those for negative
    and for positive entries.
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
    """Return a sort key of an object. Keys of objects of different types can be compared too."""
    if value is None:
        return 4, 0, ""
    if isinstance(value, Real):
        return (0, value, "") if value == value else (3, 0, "")
    return (1, value, "") if isinstance(value, str) else (2, type(value).__name__, str(value))


def _rank(keys: list[Any]) -> NDArray[np.int64]:
    """Return the rank of each key among the distinct keys, from 0."""
    place = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([place[key] for key in keys], np.int64)
