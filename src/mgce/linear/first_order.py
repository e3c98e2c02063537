r"""L-BFGS-B on mu = plus - minus: first-order, for any size, exact enough for beta >= 1.4."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from mgce._threads import one_blas_thread
from mgce.linear.arrays import FloatArray
from mgce.linear.progress import Progress

# Stands for every smaller beta. At beta = 1 the objective F has kinks, at which L-BFGS-B stalls; at 1.02 it is smooth,
# and its least value is at most 0.02 higher: V_1 <= V_1.02 <= V_1 + 0.02.
SMOOTHED_BETA = 1.02
CHECK_EVERY = 10  # iterations between two looks at the gap, which cost a lower bound each
STALLED = 0.1  # decrease of F between two checks, as a share of the gap asked for, at which to stop
OUT_OF_ITERATIONS = 1  # SciPy's status
# Where F is nearly kinked, p jumps from one iteration to the next, and its average over the path is nearer to the
# solution of the dual than the last one is. The newest has a weight of 1/20: the average is over the last twenty or so.
AVERAGED_BELOW = 1.4
AVERAGE_WEIGHT = 0.05


def run_lbfgs(progress: Progress, start: FloatArray, max_iter: int) -> None:
    """Minimise from `start`, shape (k, d), until the gap is closed or F hardly decreases."""
    if progress.problem.beta < SMOOTHED_BETA:
        near = Progress(replace(progress.problem, beta=SMOOTHED_BETA), progress.dual.anchor, progress.tol)
        p = _minimise(near, start, max_iter)
        progress.n_iter += near.n_iter
        progress.stalled = near.stalled
        progress.offer(near.coef)
        progress.dual.update(p)
    else:
        _minimise(progress, start, max_iter)


def _minimise(progress: Progress, start: FloatArray, max_iter: int) -> FloatArray:
    """Run L-BFGS-B and give p, shape (n, k): the average over its path, or the last where that is better."""
    from scipy.optimize import minimize

    run = _Run(progress)
    x0 = run.split(start)
    settings: dict[str, Any] = {
        "fun": run.objective,
        "x0": x0,
        "jac": True,
        "method": "L-BFGS-B",
        "bounds": np.column_stack(
            [np.where(np.arange(x0.size) < 2 * run.l1.size, 0, -np.inf), np.full(x0.size, np.inf)]
        ),
        "callback": run.count,
        # `count` decides when to stop, by the gap: SciPy's own criteria are set near rounding, and to more evaluations
        # than its line search takes. It remembers 20 steps, twice its default.
        "options": {"maxcor": 20, "maxiter": max_iter, "maxfun": 4 * max_iter, "ftol": 1e-12, "gtol": 1e-10},
    }
    with suppress(_StopError), one_blas_thread():  # SciPy multiplies tiny matrices
        result = minimize(**settings)
        progress.stalled = result.status != OUT_OF_ITERATIONS
        run.bound()
    return run.average_p


class _StopError(Exception):
    """Leaves the minimiser."""


class _Run:
    """The split problem: x holds plus and minus of the penalised coefficients, then the free ones."""

    def __init__(self, progress: Progress) -> None:
        problem = progress.problem
        self.progress, self.problem = progress, problem
        self.on = problem.l1 > 0
        self.l1 = problem.l1[self.on]
        self.averaged = problem.beta < AVERAGED_BELOW
        self.p = self.average_p = np.empty(0)
        self.checked_value = np.inf

    def split(self, coef: FloatArray) -> FloatArray:
        """Give the x of a coef."""
        on = coef[self.on]
        return np.concatenate([np.maximum(on, 0), np.maximum(-on, 0), coef[~self.on]])

    def objective(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Give the value and the gradient at x; keep the best coef and the average of p."""
        m = self.l1.size
        coef = np.zeros_like(self.problem.tau)
        coef[self.on] = x[:m] - x[m : 2 * m]
        coef[~self.on] = x[2 * m :]
        value, gradient, p = self.problem.smooth(coef)
        self.progress.offer(coef, value + float(self.l1 @ np.abs(coef[self.on])))
        self._remember(p)
        on = gradient[self.on]
        split_gradient = np.concatenate([self.l1 + on, self.l1 - on, gradient[~self.on]])
        return value + float(self.l1 @ (x[:m] + x[m : 2 * m])), split_gradient

    def count(self, _: FloatArray) -> None:
        """Count an iteration, and stop if the gap is closed or F has stalled."""
        progress = self.progress
        progress.n_iter += 1
        if progress.n_iter % CHECK_EVERY == 0:
            decrease = self.checked_value - progress.value
            self.checked_value = progress.value
            if decrease < progress.aim:
                self.bound()
            progress.stalled = decrease < STALLED * progress.aim
            if progress.closed or progress.stalled:
                raise _StopError

    def bound(self) -> None:
        """Try the last p, and the average of all."""
        self.progress.dual.update(self.p)
        if self.averaged:
            self.progress.dual.update(self.average_p)

    def _remember(self, p: FloatArray) -> None:
        self.p = p
        if not self.averaged or not self.average_p.size:
            self.average_p = p.copy() if self.averaged else p
        else:
            self.average_p *= 1 - AVERAGE_WEIGHT
            self.average_p += AVERAGE_WEIGHT * p
