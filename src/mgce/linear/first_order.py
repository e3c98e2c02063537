r"""Minimise linear MGCE by L-BFGS-B, for problems of any size; the result is accurate enough for beta >= 1.4.

The L1 term is not differentiable at zero, so a smooth minimiser cannot handle it. Each penalised coefficient is
therefore split into `plus - minus`, both bounded below by zero. The L1 term is then `lambda (plus + minus)`, which is
linear. All variables are multiplied by the scales of the coefficients, so that those of features in small units are not
found last.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mgce._arrays import FloatArray
from mgce._threads import SERIAL_WORK, one_blas_thread
from mgce.linear.objective import KINKS_BELOW, margins, moments
from mgce.linear.progress import Progress


class Tilting(NamedTuple):
    """The settings of :func:`tilt`.

    On 6,000 rows of 1,280 image features with 10 classes, three steps brought the gap from 2e-2 to 1e-3 of the trivial
    value, and a fourth gained nothing. Twenty iterations of conjugate gradients solved the equations to a percent.

    Attributes:
        steps: largest number of Newton steps.
        iterations: largest number of iterations of conjugate gradients in a step.
        residual: residual of the equations at which to stop, as a share of the right-hand side.
        least_gain: share of the gap that a step has to close for another step to be taken.
        margin: the limits on the moments are lambda times 1 - `margin` * tol, with tol the gap asked for as a share, so
            that the moments end within lambda.
    """

    steps: int = 4
    iterations: int = 20
    residual: float = 1e-2
    least_gain: float = 0.05
    margin: float = 0.03


TILTING = Tilting()


def tilt(progress: Progress, p: FloatArray) -> FloatArray:
    """Tilt probabilities p (n, k) towards the uncertainty set, and improve the lower bound of `progress` by each step.

    A tilt with coefficients a (k, d) multiplies p by `exp(a psi)`, and scales each row to sum to one.

    Returns:
        The tilted probabilities, shape (n, k); p itself is not changed.
    """
    problem = progress.problem
    limit = problem.lambda_ * (1 - min(TILTING.margin * progress.tol, TILTING.margin))
    outside = np.zeros(limit.shape, dtype=bool)
    for _ in range(TILTING.steps):
        gap = progress.gap
        residual = problem.residual(p)
        outside |= np.abs(residual) > limit
        lack = np.where(outside, np.clip(residual, -limit, limit) - residual, 0)
        change = margins(problem.features, newton_tilts(progress, p, lack, outside))
        with np.errstate(over="ignore", invalid="ignore"):
            tilted = p * np.exp(change - change.max(1, keepdims=True))
            tilted /= tilted.sum(1, keepdims=True)
        if not np.isfinite(tilted).all():
            break
        p = tilted
        progress.dual.update(p)
        if progress.closed or progress.gap > (1 - TILTING.least_gain) * gap:
            break
    return p


def newton_tilts(progress: Progress, p: FloatArray, lack: FloatArray, outside: FloatArray) -> FloatArray:
    """Return the coefficients a (k, d) of a tilt by one Newton step, computed by conjugate gradients.

    `lack` is by how much the moments where `outside` is true shall change. The unknowns are a times the scales.
    """
    problem = progress.problem
    scale = problem.scale
    tilts, rest = np.zeros_like(lack), lack / scale
    direction, square = rest, float((rest**2).sum())
    enough = TILTING.residual**2 * square
    for _ in range(TILTING.iterations):
        change = margins(problem.features, direction / scale)
        moved = p * (change - (p * change).sum(1, keepdims=True))
        product = np.where(outside, moments(problem.features, moved, problem.weight) / scale, 0)
        curvature = float((direction * product).sum())
        if not curvature > 0:
            break
        step = square / curvature
        tilts += step * direction
        rest = rest - step * product
        before, square = square, float((rest**2).sum())
        if square <= enough:
            break
        direction = rest + square / before * direction
    return tilts / scale


class Descent(NamedTuple):
    """The settings of when L-BFGS-B stops, and of what is done where the objective F nearly has kinks.

    Attributes:
        smoothed_beta: every smaller beta is replaced by this one. At beta = 1 the objective F has kinks beside those of
            the L1 term, at which L-BFGS-B stalls; at 1.02 it has none. The least value V rises by at most 0.02,
            V_1 <= V_1.02 <= V_1 + 0.02, as does the loss of every probability h: beta (1 - h^(1/beta)) exceeds 1 - h by
            at most beta - 1.
        check_every: iterations between two checks of the gap, each of which may compute a lower bound.
        stalled: shares of the gap asked for. When F falls by less than such a share between two checks, p is tilted
            towards the uncertainty set for a better lower bound.
        within_reach: after such a tilt, the run goes on to the next share if the gap is at most this many times the gap
            asked for: ten times the accuracy of the value brings about three times the accuracy of the bound.
        average_weight: weight of the newest p in the average of p over the path. Where F nearly has kinks, p jumps from
            one iteration to the next, and the average is nearer to the solution of the dual than the last p is. With
            1/20 it is in effect over the last twenty.
    """

    smoothed_beta: float = 1.02
    check_every: int = 10
    stalled: tuple[float, ...] = (0.1, 0.01, 0.001)
    within_reach: float = 5.0
    average_weight: float = 0.05


DESCENT = Descent()


def run_lbfgs(progress: Progress, start: FloatArray, max_iter: int) -> None:
    """Minimise the objective F from the coefficients `start`; store the best coefficients and bound in `progress`.

    Stop when the gap between F and its lower bound is closed, or when F decreases too little between two checks.
    """
    if progress.problem.beta < DESCENT.smoothed_beta:
        near = Progress(replace(progress.problem, beta=DESCENT.smoothed_beta), progress.dual.anchor, progress.tol)
        p = minimise(near, start, max_iter)
        progress.n_iter += near.n_iter
        progress.stalled = near.stalled
        progress.offer(near.coef)
        progress.dual.update(p)
    else:
        minimise(progress, start, max_iter)


def minimise(progress: Progress, start: FloatArray, max_iter: int) -> FloatArray:
    """Run L-BFGS-B, store its result in `progress`, and return worst-case probabilities p (n, k) for a lower bound.

    If the objective F stalled before the gap to the lower bound was closed, `tilt` has moved p towards the uncertainty
    set. Otherwise p are the latest probabilities. For beta below `KINKS_BELOW`, a running average replaces them.
    """
    from scipy.optimize import minimize

    run = _Run(progress)
    x0 = run.split(start)
    # maxcor: 20 earlier gradients shape a step, 10 in SciPy by default. maxfun: an iteration mostly takes one or
    # two values of F, so that four for each leave the end to maxiter. ftol, gtol: SciPy's own tests for an end, far
    # stricter than its defaults (2e-9, 1e-5), so that `count` decides.
    settings: dict[str, Any] = {
        "fun": run.objective,
        "x0": x0,
        "jac": True,
        "method": "L-BFGS-B",
        "bounds": np.column_stack(
            [np.where(np.arange(x0.size) < 2 * run.lambda_.size, 0, -np.inf), np.full(x0.size, np.inf)]
        ),
        "callback": run.count,
        # `count` decides when to stop, by the gap: SciPy's own criteria are set near rounding, and to more evaluations
        # than its line search takes. It remembers 20 steps, twice its default.
        "options": {"maxcor": 20, "maxiter": max_iter, "maxfun": 4 * max_iter, "ftol": 1e-12, "gtol": 1e-10},
    }
    # L-BFGS-B multiplies tiny matrices itself: only products with many features are worth several threads.
    threads = one_blas_thread() if progress.problem.size.entries <= SERIAL_WORK else nullcontext()
    with suppress(_StopError), threads:
        result = minimize(**settings)
        progress.stalled = result.status != 1  # SciPy: `maxiter` or `maxfun` ended the run
        run.bound()
        if progress.stalled and not progress.closed:
            run.tilt()
    return run.in_set


class _StopError(Exception):
    """Raised in a callback to stop SciPy's minimiser."""


class _Run:
    """The problem in the form that SciPy needs: a function of one vector x, and a callback after each iteration.

    Each penalised coefficient, times its scale, is `plus - minus`, with both at least 0. x contains `plus` of all
    penalised coefficients, then `minus` of all, then the coefficients without L1 term, times their scales.

    Attributes:
        on: (k, d) for k classes and d features, true for penalised coefficients.
        lambda_: the penalties of these coefficients, a vector.
        p, average_p: (n, k) for n rows, the latest worst-case probabilities, and their running average.
        tilted: (n, k), p or their average as `tilt` moved them at the last stall, or None.
        checked_value: the least value of the objective F at the last check.
    """

    def __init__(self, progress: Progress) -> None:
        problem = progress.problem
        self.progress, self.problem = progress, problem
        self.on = problem.lambda_ > 0
        self.lambda_ = problem.lambda_[self.on]
        self.averaged = problem.beta < KINKS_BELOW
        self.p = self.average_p = np.empty(0)
        self.tilted: FloatArray | None = None
        self.stalls = 0
        self.checked_value = np.inf

    @property
    def in_set(self) -> FloatArray:
        """The probabilities (n, k) that are nearest to the uncertainty set."""
        return self.average_p if self.tilted is None else self.tilted

    def split(self, coef: FloatArray) -> FloatArray:
        """Return the vector x that represents the coefficients of k classes and d features."""
        scaled = coef * self.problem.scale
        on = scaled[self.on]
        return np.concatenate([np.maximum(on, 0), np.maximum(-on, 0), scaled[~self.on]])

    def objective(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and the gradient of the objective at x; store the best coefficients and the average of p.

        If `plus` and `minus` of a coefficient are both positive, the stored value is less than the value returned,
        since the penalty of the coefficient itself is only `|plus - minus|`.
        """
        m = self.lambda_.size
        coef = np.zeros_like(self.problem.tau)
        coef[self.on] = x[:m] - x[m : 2 * m]
        coef[~self.on] = x[2 * m :]
        coef /= self.problem.scale
        value, gradient, p = self.problem.smooth(coef)
        self.progress.offer(coef, value + float(self.lambda_ @ np.abs(coef[self.on])))
        self._remember(p)
        gradient = gradient / self.problem.scale
        on, limit = gradient[self.on], self.lambda_ / self.problem.scale[self.on]
        split_gradient = np.concatenate([limit + on, limit - on, gradient[~self.on]])
        return value + float(limit @ (x[:m] + x[m : 2 * m])), split_gradient

    def count(self, _: FloatArray) -> None:
        """Count an iteration; every ten (see `Descent`), decide whether to stop.

        The minimiser stops if the gap between the objective F and its lower bound is closed, or if F hardly decreases.

        To save time, no lower bound is computed while F still decreases by more than the required gap between two
        checks.
        """
        progress = self.progress
        progress.n_iter += 1
        if progress.n_iter % DESCENT.check_every == 0:
            decrease = self.checked_value - progress.value
            self.checked_value = progress.value
            if decrease < progress.aim:
                self.bound()
            if not progress.closed and decrease < DESCENT.stalled[self.stalls] * progress.aim:
                self.tilt()
                self.stalls += 1
                far = progress.gap > DESCENT.within_reach * progress.aim
                progress.stalled = far or self.stalls == len(DESCENT.stalled)
            if progress.closed or progress.stalled:
                raise _StopError

    def bound(self) -> None:
        """Store lower bounds on the minimum of the objective: from the latest p, and for small beta from `average_p`.

        `average_p` is the running average of p over the iterations.
        """
        self.progress.dual.update(self.p)
        if self.averaged:
            self.progress.dual.update(self.average_p)

    def tilt(self) -> None:
        """Tilt the latest p, or their running average, towards the uncertainty set, and compute a lower bound."""
        self.tilted = tilt(self.progress, self.average_p)

    def _remember(self, p: FloatArray) -> None:
        self.p = p
        if not self.averaged or not self.average_p.size:
            self.average_p = p.copy() if self.averaged else p
        else:
            self.average_p *= 1 - DESCENT.average_weight
            self.average_p += DESCENT.average_weight * p
