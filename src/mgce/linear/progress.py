r"""Store the best coefficients of linear MGCE, and the best lower bound on its least value, from the dual problem.

The dual problem is equation (12) of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mgce._arrays import FloatArray
from mgce.linear.objective import LinearProblem, block_gram

# Coefficients without l1 term up to which p is corrected for them. There are as many equations to solve, and each entry
# of their matrix costs n multiplications: at 200, and 2e10 multiplications in a second, 2 seconds for a million rows.
FREE_LIMIT = 200


def entropy(p: FloatArray, beta: float) -> FloatArray:
    r"""Return the entropy `E(p) = beta (1 - ||p||_alpha)`, alpha = beta/(beta-1), of n rows of k probabilities p.

    If labels y are drawn from p, no predicted probabilities h have a smaller expected loss `beta (1 - h_y^(1/beta))`
    than E(p). At beta = 1 the entropy is 1 - max p, at infinity it is Shannon's entropy.
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

    The dual problem is to maximise the mean entropy `sum_i w_i E(p_i)`, with w_i the row weights, over the uncertainty
    set: probabilities p of shape (n, k), for n rows and k classes, whose moments differ from their estimates tau by at
    most lambda. So the mean entropy of every p in the set is a lower bound. The worst-case probabilities p of a
    minimiser's coefficients are usually a little outside the set. These p are then mixed with an *anchor*:
    probabilities in the set, such as the one-hot labels if tau are their moments. The anchor gets the least weight that
    brings the mixture into the set.

    Attributes:
        anchor: (n, k), or None if none was given or the given one is not in the set.
        free: (k, d) for d features, true for coefficients without L1 term, whose moments have to equal tau.
        offset: the moments of the anchor less tau, (k, d).
        slack: (d,), by how much a moment may exceed its limit because of rounding.
        best: the largest lower bound so far.
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
        """Compute a lower bound from probabilities p, in the uncertainty set or not; return the best bound so far."""
        p = self._corrected(p)
        theta = self._share(self.problem.residual(p))
        if theta < 1 and self.anchor is not None:
            p = theta * p + (1 - theta) * self.anchor
        if theta == 1 or self.anchor is not None:
            value = float(self.problem.weight @ entropy(p, self.problem.beta))
            self.best = max(self.best, value)
        return self.best

    def _corrected(self, p: FloatArray) -> FloatArray:
        """Return the probabilities p, changed such that their moments equal tau for coefficients without L1 term.

        Mixing p with the anchor could not achieve this. Row p_i is changed by `(diag(p_i) - p_i p_i') A psi_i`, which
        sums to zero and is zero where p_i is zero. The matrix A (k, d) solves the linear equations for the moments. If
        an entry would fall below zero, p is returned unchanged.
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
        """Return the largest theta in [0, 1] for which `theta p + (1 - theta) anchor` is in the uncertainty set.

        `residual` is the moments of p minus tau, the centre of the set; lambda limits how large each may be. `anchor`
        is a point of the set. The moments of the mixture are linear in theta. So for each moment of p outside its limit
        there is a theta at which the mixture reaches the limit. The least of these is returned. If
        p is outside the set and there is no anchor, the result is 0.
        """
        limit = self.problem.lambda_ + self.slack
        out = np.abs(residual) > limit
        if not out.any():
            return 1.0
        if self.offset is None:
            return 0.0
        r, a, bound = residual[out], self.offset[out], np.copysign(limit[out], residual[out])
        return float(np.clip((bound - a) / (r - a), 0, 1).min())


class EmptyUncertaintySetError(ValueError):
    """The uncertainty set is empty: no probabilities have moments within lambda of their estimate tau.

    The convex problem of linear MGCE then has no least value.
    """

    def __init__(self, value: float) -> None:
        super().__init__(
            "Expected `tau` to be within `lambda` of the moments of some distribution over the rows of `features`, "
            f"but got an objective of {value:.3g}, and below 0 there is none; enlarge lambda."
        )


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A solution of linear MGCE; the least value of the problem lies in [lower, value]."""

    coef: FloatArray  # (k, d)
    value: float  # F(coef)
    lower: float  # -inf where no bound is known
    n_iter: int  # of all methods together
    converged: bool  # whether the gap is within the tolerance
    method: str  # the last one that ran
    stalled: bool  # whether L-BFGS-B stopped because F hardly decreased

    @property
    def gap(self) -> float:
        """An upper bound on the difference between `value` and the least value of the problem."""
        return self.value - self.lower


class Progress:
    """The results of all minimisers of one problem so far: the least value, its coefficients, and a lower bound.

    Attributes:
        value, coef: the least value so far, and its coefficients, shape (classes, features).
        dual: computes and stores the lower bound.
        aim: the gap between `value` and lower bound at which the problem is considered solved.
        n_iter: number of iterations of all methods together.
        method: the name of the latest method.
        stalled: whether L-BFGS-B stopped because the value hardly decreased any more.
    """

    def __init__(self, problem: LinearProblem, anchor: FloatArray | None, tol: float) -> None:
        self.problem = problem
        self.dual = DualBound(problem, anchor)
        self.value, self.coef = math.inf, np.zeros_like(problem.tau)
        self.tol, self.aim = tol, tol * problem.trivial_value
        self.n_iter = 0
        self.method = ""
        self.stalled = False

    @property
    def gap(self) -> float:
        """The least value of the objective so far minus the best lower bound."""
        return self.value - self.dual.best

    @property
    def closed(self) -> bool:
        """Whether the gap between objective and lower bound is at most `aim`."""
        return self.gap <= self.aim

    def offer(self, coef: FloatArray, value: float | None = None) -> None:
        """Store coefficients if their objective is the least so far; `value` is the objective, computed if None."""
        if value is None:
            value = self.problem.value(coef)
        # If any p is in the uncertainty set, F is never below its mean entropy, which is not negative. A millionth of
        # F(0) is for rounding. An anchor is such a p, so with one there is nothing to look for.
        if value < -1e-6 * self.problem.trivial_value and self.dual.anchor is None:
            raise EmptyUncertaintySetError(value)
        if value < self.value:
            self.value, self.coef = value, coef.copy()

    def fit(self) -> LinearFit:
        """Return the results as a :class:`LinearFit`."""
        return LinearFit(self.coef, self.value, self.dual.best, self.n_iter, self.closed, self.method, self.stalled)
