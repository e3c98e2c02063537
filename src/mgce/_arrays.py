"""Check arrays from callers and convert them to float64; append a column of ones; encode labels one-hot."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mgce._messages import expected
from mgce._validation import sum_tolerance

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Matrix = Any  # a FloatArray of shape (n, d), or scipy's CSR of the same shape and dtype

ROUNDED = 1e-6  # what is left between equal numbers near 1 by rounding to float32, some units of its last digit
PRINTED = 1e-3  # error of a sum of twenty probabilities, each rounded to four decimals, as in files: 20 x 5e-5


def as_array(values: Any, name: str, *, masks: bool = False) -> FloatArray:
    """Return finite float64 values, from an array, a tensor on any device, or a nested list.

    With `masks`, values may be -inf as well, which masks a class in logits.
    """
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(expected(name, "numbers in rows of one length", str(error))) from None
    if not (np.isfinite(array) | (masks & (array == -np.inf))).all():
        what = "free of NaN and inf" if masks else "free of NaN and infinities"
        raise ValueError(expected(name, what, "some"))
    return array


def as_matrix(features: Any, name: str = "features") -> Matrix:
    """Return features as a float64 matrix of at least one row and one column; sparse features stay sparse, as CSR."""
    if hasattr(features, "tocsr"):
        matrix = features.tocsr().astype(np.float64)
        as_array(matrix.data, name)
    else:
        matrix = np.require(as_array(features, name), requirements="W")  # PyTorch warns of read-only memory
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(expected(name, "of shape (n, d) with n, d >= 1", tuple(matrix.shape)))
    return matrix


def as_probs(values: Any, name: str = "probs") -> FloatArray:
    """Return probabilities of k classes, shape (..., k), divided by the sum of their row, which must be nearly one."""
    probs = as_array(values, name)
    if probs.ndim == 0 or probs.size == 0:
        raise ValueError(expected(name, "of shape (..., k), not empty", probs.shape))
    total = probs.sum(-1, keepdims=True)
    tolerance = sum_tolerance(torch.from_numpy(np.require(probs, requirements=["C", "W"])), PRINTED)
    if probs.min() < 0 or np.abs(total - 1).max() > tolerance:
        what = f"rows that are not negative and sum to one, up to {tolerance:.2g}"
        got = f"a least entry of {probs.min():g}, and sums from {total.min():g} to {total.max():g}"
        raise ValueError(expected(name, what, got))
    return np.asarray(probs / total)


def as_probs_of(values: Any, name: str, n: int, k: int, each: str = "label") -> FloatArray:
    """Return probabilities as :func:`as_probs` does, of n rows and k classes; `each` says in an error what a row is."""
    probs = as_probs(values, name)
    if probs.shape != (n, k):
        what = f"of shape ({n}, {k}), a row for each {each} and a column for each class"
        raise ValueError(expected(name, what, probs.shape))
    return probs


def as_labels(labels: Any, n: int, n_classes: int | None = None, name: str = "labels") -> IntArray:
    """Return labels as n integers in 0..n_classes-1; without `n_classes`, any integers from 0."""
    array = as_array(labels, name)
    if array.shape != (n,):
        raise ValueError(expected(name, f"of shape ({n},), one for each row", array.shape))
    top = np.inf if n_classes is None else n_classes - 1
    if (array != np.round(array)).any() or array.min() < 0 or array.max() > top:
        what = "integers from 0" if n_classes is None else f"integers from 0 to {top}"
        raise ValueError(expected(name, what, f"values from {array.min():g} to {array.max():g}"))
    return array.astype(np.int64)


def with_intercept(features: Matrix, intercept: bool = True) -> Matrix:
    """Append a column of ones to the features if `intercept` is true."""
    if not intercept:
        return features
    ones = np.ones((features.shape[0], 1))
    if isinstance(features, np.ndarray):
        return np.hstack([features, ones])
    from scipy import sparse

    columns: Any = [features, ones]
    return sparse.hstack(columns, format="csr")


def one_hot(labels: IntArray, n_classes: int) -> FloatArray:
    """Return for each of n labels a row with 1 in its class and 0 elsewhere, shape (n, n_classes)."""
    encoded = np.zeros((labels.size, n_classes))
    encoded[np.arange(labels.size), labels] = 1.0
    return encoded


def sorted_classes(y: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Return the sorted distinct values of n labels, and the index of each label among them, shape (n,)."""
    from sklearn.utils.multiclass import check_classification_targets

    try:
        check_classification_targets(y)
        classes, index = np.unique(y, return_inverse=True)
    except TypeError:  # its message is about `<` and does not mention labels
        kinds = ", ".join(sorted({type(label).__name__ for label in y}))
        raise TypeError(expected("y", "labels of one type", kinds)) from None
    return classes, index


def taken(rows: Any, places: IntArray) -> Any:
    """Return some rows of a frame, an array, a sparse matrix or a list, in the order of their places."""
    if hasattr(rows, "iloc"):
        return rows.iloc[places]
    return rows[places] if hasattr(rows, "shape") else [rows[place] for place in places]
