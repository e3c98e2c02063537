r"""A primal-dual interior-point method for linear MGCE: exact where first-order methods stall.

The minimax probabilities h become variables of their own. With `l(h) = beta (h^(1/beta) - 1)`, a concave function,
the problem is `min -tau.mu + l1.|mu| - sum_i w_i nu_i` subject to `s_iy = l(h_iy) - f_iy - nu_i >= 0`,
`g_i = 1 - sum_y h_iy >= 0` and `h >= 0`: convex for every beta in [1, inf]. At the solution nu_i is phi of row i.
The coefficients are `mu = plus - minus` with both parts positive.

Each inequality has a multiplier: p for s, which are the worst-case probabilities, q for g, z for h, and one for each of
plus and minus. At the solution every product of a variable and its multiplier is zero. The method keeps all of them
positive and lets the products shrink together, by Newton's method on the equations; predictor and corrector are
Mehrotra's. A step eliminates h and nu row by row, which leaves a system of the size of mu. On the way h need not be
that of mu: the value at mu is computed separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mgce.linear.arrays import FloatArray, block_gram
from mgce.linear.objective import LinearProblem

# Share of the way to the boundary that a step goes, as in most codes: all variables have to stay positive.
TO_BOUNDARY = 0.99
# The second-order error of a product that the corrector makes up for, in units of the mean product, at most: to correct
# the few largest in full would turn the step towards them, and shorten it for all variables.
CLIP = 10.0
# Mean product of a variable and its multiplier at which to stop. The products tend to zero, and at some hundred times
# the precision of float64 (2e-16) they are made of rounding.
FLOOR = 1e-13


@dataclass(frozen=True, eq=False)
class Point:
    """Positive variables, each with its multiplier, and the coefficients that have no l1 term."""

    primal: tuple[FloatArray, ...]  # s (n, k), g (n,), h (n, k), plus and minus of the penalised coefficients
    dual: tuple[FloatArray, ...]  # p, q, z, and the multipliers of plus and minus
    nu: FloatArray  # (n,)
    free: FloatArray  # (k, d), zero where there is an l1 term

    def coef(self, problem: LinearProblem) -> FloatArray:
        """Give mu, shape (k, d)."""
        coef = self.free.copy()
        coef[problem.l1 > 0] = self.primal[3] - self.primal[4]
        return coef

    def mean_product(self, problem: LinearProblem) -> float:
        """Give the mean product of variables and multipliers, zero at the solution."""
        products = [x * y for x, y in zip(self.primal, self.dual, strict=True)]
        rows = problem.weight @ (products[0].sum(1) + products[1] + products[2].sum(1))
        count: int = 2 * products[0].shape[1] + 1 + 2 * products[3].size
        return float(rows + products[3].sum() + products[4].sum()) / count

    def moved(self, step: Point, length: float) -> Point:
        """Give the point that lies `length` along the step."""
        primal = tuple(x + length * dx for x, dx in zip(self.primal, step.primal, strict=True))
        dual = tuple(x + length * dx for x, dx in zip(self.dual, step.dual, strict=True))
        return Point(primal, dual, self.nu + length * step.nu, self.free + length * step.free)

    def room(self, step: Point) -> float:
        """Give the length in [0, 1] at which the step meets the boundary."""
        length = 1.0
        for x, dx in zip(self.primal + self.dual, step.primal + step.dual, strict=True):
            down = dx < 0
            if down.any():
                length = min(length, float((x[down] / -dx[down]).min()))
        return length


def interior_path(problem: LinearProblem, max_iter: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield mu (k, d) and p (n, k) step by step until rounding stops progress."""
    point = starting_point(problem)
    for _ in range(max_iter):
        mean = point.mean_product(problem)
        if not mean > FLOOR:  # or NaN
            return
        p = point.dual[0]
        yield point.coef(problem), p / p.sum(1, keepdims=True)
        with np.errstate(all="ignore"):
            try:
                system = NewtonSystem(problem, point)
            except np.linalg.LinAlgError:
                return
            predictor = system.step((0.0,) * 5)
            left = point.moved(predictor, point.room(predictor)).mean_product(problem)
            # Mehrotra's rule: aim the lower, the further the predictor got; the cube of its share, within bounds.
            target = mean * min(0.9, max(0.1, left / mean)) ** 3
            pairs = zip(predictor.primal, predictor.dual, strict=True)
            step = system.step([target - np.clip(dx * dy, -CLIP * mean, CLIP * mean) for dx, dy in pairs])
            point = point.moved(step, TO_BOUNDARY * point.room(step))


def starting_point(problem: LinearProblem) -> Point:
    """Give the centre at mu = 0: every product of a variable and its multiplier is the same.

    Each h is 1 / (2 k), so that half of its sum is spare, g = 1/2; s = 1/2 as well, and p is uniform. The product of
    each pair is then 1 / (2 k).
    """
    n, k = problem.weight.size, problem.tau.shape[0]
    penalised = problem.l1[problem.l1 > 0]
    product = 0.5 / k
    h = np.full((n, k), 0.5 / k)
    primal = (np.full((n, k), k * product), np.full(n, 0.5), h, product / penalised, product / penalised)
    nu = concave_loss(h[:, 0], problem.beta)[0] - k * product
    return Point(primal, tuple(product / x for x in primal), nu, np.zeros_like(problem.tau))


def concave_loss(h: FloatArray, beta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give `beta (h^(1/beta) - 1)`, its slope, and minus its second derivative."""
    log_h = np.log(h)
    if np.isinf(beta):
        return log_h, 1 / h, 1 / h**2
    slope = np.exp((1 / beta - 1) * log_h)
    return beta * np.expm1(log_h / beta), slope, (1 - 1 / beta) * slope / h


class NewtonSystem:
    """The equations of one step, factorised: each row i is left with `p_next = p0 + C_i dmu psi_i`."""

    def __init__(self, problem: LinearProblem, point: Point) -> None:
        self.problem, self.point = problem, point
        s, g, h, plus, minus = point.primal
        p, q, z, pi_plus, pi_minus = point.dual
        self.ratio = p / s
        self.gamma = q / g
        self.loss, self.slope, bend = concave_loss(h, problem.beta)
        curvature = p * bend + z / h
        self.stiff = self.ratio * self.slope**2 + curvature
        self.kappa = self.gamma / (1 + self.gamma * (1 / self.stiff).sum(1))
        # Without nu, C_i = diag(diagonal) + kappa w w'; nu then takes out its row sums r.
        self.w = self.ratio * self.slope / self.stiff
        self.diagonal = self.ratio * curvature / self.stiff
        self.r = self.diagonal + self.w * (self.kappa * self.w.sum(1))[:, None]
        self.theta = (plus / pi_plus, minus / pi_minus)
        self._factorise()

    def _factorise(self) -> None:
        from scipy import linalg

        k, d = self.problem.tau.shape
        weighted = (self.problem.weight[:, None] * below for below in self._pairs())
        hessian = block_gram(self.problem.features, weighted, k, d)
        # A coefficient without l1 term may be undetermined, if its feature is zero or a sum of others. A term of the
        # size of rounding then makes the matrix invertible.
        penalty = np.full((k, d), 1e-12 * (1 + hessian.diagonal().max()))
        penalty[self.problem.l1 > 0] = 1 / (self.theta[0] + self.theta[1])
        hessian[np.diag_indices(k * d)] += penalty.ravel()
        if not np.isfinite(hessian).all():
            raise np.linalg.LinAlgError
        self.hessian = hessian
        self.factor = linalg.cho_factor(hessian, check_finite=False)

    def _pairs(self) -> Iterator[FloatArray]:
        """Yield the columns of C for classes y: entries (y, 0..y-1) of each row, shape (n, y).

        Written over a common denominator, in which the squares of the rank-one terms cancel exactly.
        """
        a, w = self.diagonal, self.w
        kappa, total = self.kappa[:, None], a.sum(1)[:, None]
        mixed = kappa * w.sum(1)[:, None]
        for y in range(a.shape[1]):
            ay, wy = a[:, y : y + 1], w[:, y : y + 1]
            product = kappa * total * wy * w[:, :y] - ay * a[:, :y] - mixed * (ay * w[:, :y] + wy * a[:, :y])
            yield product / self.r.sum(1)[:, None]

    def step(self, aims: Sequence[FloatArray | float]) -> Point:
        """Give the step at whose end, to first order, each product of a pair equals its aim."""
        problem, point = self.problem, self.point
        s, g, h, plus, minus = point.primal
        p, q, z, pi_plus, pi_minus = point.dual
        on, l1 = problem.l1 > 0, problem.l1[problem.l1 > 0]
        short = self.loss - problem.margins(point.coef(problem)) - point.nu[:, None] - s
        spare = 1 - h.sum(1) - g
        wish = aims[0] / s - self.ratio * short  # of p, if h and mu stay
        push = self.slope * wish + aims[2] / h - (aims[1] / g - self.gamma * spare)[:, None]
        pull = self.ratio * self.slope * self._solve_h(push)
        share = ((pull - wish).sum(1) + 1) / self.r.sum(1)
        target = -problem.residual(wish - pull + self.r * share[:, None])
        up = self.theta[0] * (aims[3] / plus - l1)
        down = self.theta[1] * (aims[4] / minus - l1)
        target[on] += (up - down) / (self.theta[0] + self.theta[1])
        coef = self._solve_coef(target)
        f = problem.margins(coef)
        dnu = share - (self.r * f).sum(1) / self.r.sum(1)
        e = f + dnu[:, None]
        dh = self._solve_h(self.ratio * self.slope * e + push)
        ds = self.slope * dh - e + short
        dg = spare - dh.sum(1)
        dp = aims[0] / s - p - self.ratio * ds
        residual = problem.residual(p + dp)[on]
        primal = (ds, dg, dh, up - self.theta[0] * residual, down + self.theta[1] * residual)
        rows = (dp, aims[1] / g - q - self.gamma * dg, aims[2] / h - z - z / h * dh)
        dual = (*rows, l1 + residual - pi_plus, l1 - residual - pi_minus)
        return Point(primal, dual, dnu, np.where(on, 0.0, coef))

    def _solve_h(self, right: FloatArray) -> FloatArray:
        return np.asarray((right - (self.kappa * (right / self.stiff).sum(1))[:, None]) / self.stiff)

    def _solve_coef(self, right: FloatArray) -> FloatArray:
        from scipy import linalg

        flat = right.ravel()
        coef = linalg.cho_solve(self.factor, flat, check_finite=False)
        coef += linalg.cho_solve(self.factor, flat - self.hessian @ coef, check_finite=False)
        return np.asarray(coef.reshape(right.shape))
