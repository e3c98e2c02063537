"""Store the best coefficients and the best lower bound that minimisers of linear MGCE have found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mgce._arrays import FloatArray
from mgce.linear.dual import DualBound
from mgce.linear.objective import LinearProblem


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
