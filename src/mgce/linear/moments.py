"""Moments of features, and the products that they are made of."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from mgce._arrays import FloatArray, Matrix

SMALL_PRODUCT = 2e7  # multiplications below which a product stays on one thread: about a millisecond's work


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
    r"""Return `sum_i w_i p_i (x) psi_i`, shape (k, d): row y is the mean of p_iy psi_i over the rows."""
    return product(features.T, weight[:, None] * probs).T


def block_gram(features: Matrix, pairs: Iterable[FloatArray], k: int, d: int) -> FloatArray:
    r"""Return `sum_i C_i (x) psi_i psi_i'`, shape (k d, k d), for symmetric C_i, (k, k), whose rows sum to zero.

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
