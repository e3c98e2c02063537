r"""Lower bounds on the least value of linear MGCE, from the dual of its problem (equation (12) of the paper)."""

from __future__ import annotations

import math

import numpy as np

from mgce._arrays import FloatArray
from mgce.linear.moments import block_gram
from mgce.linear.objective import LinearProblem

# Coefficients without l1 term up to which p is corrected for them. There are as many equations to solve, and each entry
# of their matrix costs n multiplications: at 200, and 2e10 multiplications in a second, 2 seconds for a million rows.
FREE_LIMIT = 200


def entropy(p: FloatArray, beta: float) -> FloatArray:
    r"""Return `E(p) = beta (1 - ||p||_alpha)`, alpha = beta/(beta-1), for each row of p (n, k), shape (n,).

    It is the least mean of the loss `beta (1 - h_y^(1/beta))` that any probabilities h can have where the label y is
    drawn from p. At beta = 1 it is 1 - max p, at infinity Shannon's entropy.
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

    The dual problem is to maximise the mean entropy `sum_i w_i E(p_i)` over the uncertainty set: probabilities p (n, k)
    whose moments are within l1 of tau. The mean entropy of every p in the set is a lower bound. The p that belongs to a
    minimiser's coefficients is in general a little outside. It is then mixed with an *anchor*, probabilities that are
    in the set, such as the one-hot labels where tau has their moments, with as little weight on the anchor as suffices.

    Attributes:
        anchor: (n, k), or None where none was given or the given one is not in the set.
        free: (k, d), which coefficients have no l1 term, so that their moments have to be those of tau exactly.
        offset: the moments of the anchor less tau, (k, d).
        slack: (d,), by how much a moment may miss its limit: rounding is no violation, not even where l1 is zero.
        best: the best bound so far.
    """

    def __init__(self, problem: LinearProblem, anchor: FloatArray | None) -> None:
        self.problem = problem
        self.anchor = anchor
        self.free = problem.lambda_ == 0
        self.offset = None if anchor is None else problem.residual(anchor)
        self.best = -math.inf
        # A share of the mean of |psi|. The rounding errors of a sum of n terms, 1e-16 each, add up to about sqrt(n)
        # 1e-16 of it: less than 1e-11 for any n that fits into memory.
        self.slack = 1e-11 * np.asarray(abs(problem.features).T @ problem.weight)
        if self.offset is not None and (np.abs(self.offset) > problem.lambda_ + self.slack).any():
            self.anchor = self.offset = None

    def update(self, p: FloatArray) -> float:
        """Try p, shape (n, k), which need not be in the set; give the best bound so far."""
        p = self._corrected(p)
        theta = self._share(self.problem.residual(p))
        if theta < 1 and self.anchor is not None:
            p = theta * p + (1 - theta) * self.anchor
        if theta == 1 or self.anchor is not None:
            value = float(self.problem.weight @ entropy(p, self.problem.beta))
            self.best = max(self.best, value)
        return self.best

    def _corrected(self, p: FloatArray) -> FloatArray:
        """Make the moments of coefficients without l1 term equal to tau; mixtures of p and anchor never have them.

        Row p_i is changed by `(diag(p_i) - p_i p_i') A psi_i`, which sums to zero and is zero where p_i is. The matrix
        A (k, d) solves the linear equations for the moments. If an entry falls below zero, p stays as it was.
        """
        columns = self.free.any(0)
        features = self.problem.features[:, columns]
        k, size = self.free.shape[0], int(columns.sum())
        if not 0 < k * size <= FREE_LIMIT:
            return p
        weight = self.problem.weight[:, None]
        free = self.free[:, columns].ravel()
        below = (-weight * p[:, y : y + 1] * p[:, :y] for y in range(k))
        gram = block_gram(features, below, k, size)[np.ix_(free, free)]
        a = np.zeros(k * size)
        a[free] = np.linalg.lstsq(gram, -self.problem.residual(p)[:, columns].ravel()[free], rcond=None)[0]
        change = np.asarray(features @ a.reshape(k, size).T)
        corrected = np.asarray(p + p * (change - (p * change).sum(1, keepdims=True)))
        return p if corrected.min() < 0 else corrected

    def _share(self, residual: FloatArray) -> float:
        """Return the largest theta in [0, 1] with `theta p + (1 - theta) anchor` in the set; 0 without an anchor.

        `residual` has the moments of p less tau. Those of the mixture are linear in theta, so each moment of p outside
        its limit gives the theta at which the mixture meets the limit, and the least of these counts.
        """
        limit = self.problem.lambda_ + self.slack
        out = np.abs(residual) > limit
        if not out.any():
            return 1.0
        if self.offset is None:
            return 0.0
        r, a, bound = residual[out], self.offset[out], np.copysign(limit[out], residual[out])
        return float(np.clip((bound - a) / (r - a), 0, 1).min())
