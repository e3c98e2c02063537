"""Compute the mean features of each class under given probabilities (moments), and the products that they need."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from mgce._arrays import FloatArray, Matrix

SMALL_PRODUCT = 2e7  # multiplications below which a product stays on one thread: about a millisecond's work


def product(matrix: Matrix, right: FloatArray) -> FloatArray:
    """Return `matrix @ right`, by PyTorch for large dense matrices, otherwise by NumPy or SciPy.

    The loss is computed in PyTorch's threads, and threads of NumPy's BLAS would compete with these for the cores. A
    small product stays on one thread: if another program uses a core, several threads would wait longer than they
    compute.
    """
    if not isinstance(matrix, np.ndarray) or matrix.size * right.shape[1] < SMALL_PRODUCT:
        return np.ascontiguousarray(matrix @ right)
    return np.asarray(torch.mm(torch.from_numpy(matrix), torch.from_numpy(right)).numpy())


def moments(features: Matrix, probs: FloatArray, weight: FloatArray) -> FloatArray:
    r"""Return the moments `sum_i w_i p_i (x) psi_i` of features psi_i under probabilities p_i, shape (k, d).

    w_i are the weights of the rows, k is the number of classes and d that of features. Row y of the result is the
    weighted mean of p_iy psi_i.
    """
    return product(features.T, weight[:, None] * probs).T


def block_gram(features: Matrix, pairs: Iterable[FloatArray], k: int, d: int) -> FloatArray:
    r"""Return `sum_i C_i (x) psi_i psi_i'`, shape (k d, k d), for d features psi_i of each row i and matrices C_i.

    (x) is the Kronecker product. The C_i, of shape (k, k), are symmetric, and their rows sum to zero.

    Item y of `pairs` contains the entries left of the diagonal in row y of all C_i, shape (n, y) for n rows. These
    entries suffice: the diagonals follow from the row sums.
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
