r"""Lower bounds on the least value of linear MGCE, from the dual of its problem (eq. 12)."""

from __future__ import annotations

import math

import numpy as np

from mgce.linear.arrays import FloatArray, block_gram
from mgce.linear.objective import LinearProblem

# Coefficients without l1 term up to which p is corrected for them: that solves as many equations, and the matrix of
# these costs n multiplications for each of its entries, for 10,000 rows 4e8, a fiftieth of a second.
FREE_LIMIT = 200


def entropy(p: FloatArray, beta: float) -> FloatArray:
    r"""Give `E(p) = beta (1 - ||p||_alpha)`, alpha = beta/(beta-1): the least alpha-risk against p.

    At beta = 1 it is 1 - max p, at infinity Shannon's entropy. Shapes: p (n, k), result (n,).
    """
    if math.isinf(beta):
        return np.asarray(-(p * np.log(np.where(p > 0, p, 1))).sum(-1))
    top = p.max(-1)
    if beta == 1:
        return np.asarray(1 - top)
    alpha = beta / (beta - 1)
    norm = top * np.power((np.power(p / top[:, None], alpha)).sum(-1), 1 / alpha)
    return np.asarray(beta * (1 - norm))


class DualBound:
    r"""The best lower bound found on the least value of a :class:`LinearProblem`.

    The dual problem is to maximise the mean entropy `sum_i w_i E(p_i)` over probabilities p (n, k) whose moments
    `sum_i w_i p_i (x) psi(x_i)` are within l1 of tau. Every such p bounds the least value from below by its entropy.
    The p of a minimiser nearly has such moments; it is mixed with an *anchor* that has them, such as the one-hot
    labels, with as much weight on the anchor as is needed.
    """

    def __init__(self, problem: LinearProblem, anchor: FloatArray | None) -> None:
        self.problem = problem
        self.anchor = anchor
        self.free = problem.l1 == 0
        self.offset = None if anchor is None else problem.residual(anchor)
        self.best = -math.inf
        # The rounding of a moment is no violation, not even where l1 is zero: 1e-11 of the sum of its absolute terms is
        # the rounding of 45,000 additions, should all of them err to one side.
        self.slack = 1e-11 * np.asarray(abs(problem.features).T @ problem.weight)
        if self.offset is not None and (np.abs(self.offset) > problem.l1 + self.slack).any():
            self.anchor = self.offset = None

    def update(self, p: FloatArray) -> float:
        """Take p, shape (n, k), into account; give the best bound so far."""
        p = self._corrected(p)
        theta = self._share(self.problem.residual(p))
        if theta < 1 and self.anchor is not None:
            p = theta * p + (1 - theta) * self.anchor
        if theta == 1 or self.anchor is not None:
            value = float(self.problem.weight @ entropy(p, self.problem.beta))
            self.best = max(self.best, value)
        return self.best

    def _corrected(self, p: FloatArray) -> FloatArray:
        """Make the moments of coefficients without l1 term exact, which no mixture could.

        The correction is `(diag(p) - p p') a psi`: it keeps the sums and the zeros of each row.
        """
        columns = self.free.any(0)
        features = self.problem.features[:, columns]
        k, size = self.free.shape[0], int(columns.sum())
        if not 0 < k * size <= FREE_LIMIT:
            return p
        weight = self.problem.weight[:, None]
        on = self.free[:, columns].ravel()
        below = (-weight * p[:, y : y + 1] * p[:, :y] for y in range(k))
        gram = block_gram(features, below, k, size)[np.ix_(on, on)]
        a = np.zeros(k * size)
        a[on] = np.linalg.lstsq(gram, -self.problem.residual(p)[:, columns].ravel()[on], rcond=None)[0]
        change = np.asarray(features @ a.reshape(k, size).T)
        corrected = np.asarray(p + p * (change - (p * change).sum(1, keepdims=True)))
        return p if corrected.min() < 0 else corrected

    def _share(self, residual: FloatArray) -> float:
        """Give the largest theta in [0, 1] for which `theta p + (1 - theta) anchor` is in the set."""
        limit = self.problem.l1 + self.slack
        out = np.abs(residual) > limit
        if not out.any():
            return 1.0
        if self.offset is None:
            return 0.0
        r, a, bound = residual[out], self.offset[out], np.copysign(limit[out], residual[out])
        return float(np.clip((bound - a) / (r - a), 0, 1).min())
