"""Float64 arrays: what callers pass in, checked, and moments of features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mgce import _validation

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Matrix = Any  # a FloatArray of shape (n, d), or scipy's CSR of the same shape and dtype

PRINTED = 1e-3  # error of a sum of twenty probabilities, each rounded to four decimals, as in files: 20 x 5e-5

SMALL_PRODUCT = 2e7  # multiplications below which a product stays on one thread: about a millisecond's work


def as_array(values: Any, name: str) -> FloatArray:
    """Give finite float64 values, from an array, a tensor on any device, or a nested list."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().double().numpy()
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(_validation.expected(name, "free of NaN and infinities", "some"))
    return array


def as_matrix(features: Any, name: str = "features") -> Matrix:
    """Give features of shape (n, d) with n, d >= 1, sparse ones as CSR."""
    if hasattr(features, "tocsr"):
        matrix = features.tocsr().astype(np.float64)
        as_array(matrix.data, name)
    else:
        matrix = np.require(as_array(features, name), requirements="W")  # PyTorch warns of read-only memory
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(_validation.expected(name, "of shape (n, d) with n, d >= 1", tuple(matrix.shape)))
    return matrix


def as_probs(values: Any, name: str = "probs") -> FloatArray:
    """Return probabilities (..., k) after checking that rows sum to one up to rounding; divide each by its sum."""
    probs = as_array(values, name)
    if probs.ndim == 0 or probs.size == 0:
        raise ValueError(_validation.expected(name, "of shape (..., k), not empty", probs.shape))
    total = probs.sum(-1, keepdims=True)
    tolerance = _validation.sum_tolerance(torch.from_numpy(np.require(probs, requirements=["C", "W"])), PRINTED)
    if probs.min() < 0 or np.abs(total - 1).max() > tolerance:
        what = f"rows that are not negative and sum to one, up to {tolerance:.2g}"
        got = f"a least entry of {probs.min():g}, and sums from {total.min():g} to {total.max():g}"
        raise ValueError(_validation.expected(name, what, got))
    return np.asarray(probs / total)


def as_labels(labels: Any, n: int, n_classes: int | None = None, name: str = "labels") -> IntArray:
    """Give n integers in 0..n_classes-1; without `n_classes`, integers from 0."""
    array = as_array(labels, name)
    if array.shape != (n,):
        raise ValueError(_validation.expected(name, f"of shape ({n},), one for each row", array.shape))
    top = np.inf if n_classes is None else n_classes - 1
    if (array != np.round(array)).any() or array.min() < 0 or array.max() > top:
        what = "integers from 0" if n_classes is None else f"integers from 0 to {top}"
        raise ValueError(_validation.expected(name, what, f"values from {array.min():g} to {array.max():g}"))
    return array.astype(np.int64)


def with_intercept(features: Matrix, intercept: bool = True) -> Matrix:
    """Append a column of ones, if asked to."""
    if not intercept:
        return features
    ones = np.ones((features.shape[0], 1))
    if isinstance(features, np.ndarray):
        return np.hstack([features, ones])
    from scipy import sparse

    columns: Any = [features, ones]
    return sparse.hstack(columns, format="csr")


def one_hot(labels: IntArray, n_classes: int) -> FloatArray:
    """Give for each label a row with 1 in its class and 0 elsewhere, shape (n, k)."""
    encoded = np.zeros((labels.size, n_classes))
    encoded[np.arange(labels.size), labels] = 1.0
    return encoded


def product(matrix: Matrix, right: FloatArray) -> FloatArray:
    """Multiply: large dense matrices by PyTorch, all others by NumPy or SciPy.

    The loss runs in PyTorch's threads, with which threads of NumPy's BLAS would compete for the cores. A small product
    is not worth several threads: while another program has one of the cores, they wait for each other longer than they
    work.
    """
    if not isinstance(matrix, np.ndarray) or matrix.size * right.shape[1] < SMALL_PRODUCT:
        return np.ascontiguousarray(matrix @ right)
    return np.asarray(torch.mm(torch.from_numpy(matrix), torch.from_numpy(right)).numpy())


def moments(features: Matrix, probs: FloatArray, weight: FloatArray) -> FloatArray:
    r"""Give `sum_i w_i p_i (x) psi_i`, shape (k, d): row y is the mean of p_iy psi_i over the rows."""
    return product(features.T, weight[:, None] * probs).T


def block_gram(features: Matrix, pairs: Iterable[FloatArray], k: int, d: int) -> FloatArray:
    r"""Give `sum_i C_i (x) psi_i psi_i'`, shape (k d, k d), for symmetric matrices C_i, (k, k), whose rows sum to zero.

    Only the entries left of the diagonals are needed, since those on the diagonals follow from the sums. Item y of
    `pairs` has them for row y of all C_i, shape (n, y).
    """
    gram = np.zeros((k, d, k, d))
    n = features.shape[0]
    diagonal = np.zeros((n, k))
    for y, below in enumerate(pairs):
        diagonal[:, y] -= below.sum(1)
        diagonal[:, :y] -= below
        for other in range(y):
            gram[y, :, other] = gram[other, :, y] = features.T @ (features * below[:, other : other + 1])
    for y in range(k):
        gram[y, :, y] = features.T @ (features * diagonal[:, y : y + 1])
    return gram.reshape(k * d, k * d)
