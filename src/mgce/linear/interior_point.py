r"""Minimise linear MGCE by a primal-dual interior-point method, which is accurate even if first-order methods stall.

The symbols are defined in the docstring of :mod:`mgce.linear`. The minimax probabilities h are treated as separate
variables. With the concave function `l(h) = beta (h^(1/beta) - 1)` the problem is: minimise
`-tau.mu + lambda.|mu| - sum_i w_i nu_i` subject to `s_iy = l(h_iy) - f_iy - nu_i >= 0`, `g_i = 1 - sum_y h_iy >= 0` and
`h >= 0`. The problem is convex for every beta in [1, inf]. At the solution nu_i is the normalizer phi of row i. The
coefficients are `mu = plus - minus` with both parts positive.

Each inequality has a multiplier: p for s, q for g, z for h, and pi_plus and pi_minus for the two parts of mu. At the
solution p are the worst-case probabilities, and the derivatives of the Lagrangian are zero:

    in nu_i:        sum_y p_iy = 1
    in h_iy:        p_iy l'(h_iy) + z_iy = q_i
    in plus, minus: pi_plus = lambda + residual, pi_minus = lambda - residual, where residual = moments(p) - tau.

At the solution the product of each variable and its multiplier is zero too. The method applies Newton's method to these
equations, with Mehrotra's predictor and corrector. All variables and multipliers stay positive while the products
shrink to zero together. Each step eliminates h and nu row by row, which leaves equations for mu only. Before
convergence h differs from the minimax probabilities of mu, so the value at mu is computed separately.

The equations for the step `dmu` of the coefficients, with a right-hand side of the same shape (k, d), are

    sum_i C_i dmu psi_i psi_i' + dmu / spread = right,

Here psi_i are the d features of row i, and C_i is a positive semidefinite matrix (k, k) for k classes, whose rows sum
to zero. `spread` holds a number for each coefficient. A coefficient with spread zero has no L1 term; it is called free,
and the term `dmu / spread` is left out. The equations can be solved for the k d coefficients or for the n k margins
(logits) of n rows. :func:`coef_system` picks the cheaper way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mgce._arrays import FloatArray
from mgce.linear.objective import LinearProblem, Size, block_gram


class InteriorPoint(NamedTuple):
    """The settings of the interior-point method.

    Attributes:
        tiny: a term added to the diagonal, as a share of its largest, hardly above rounding. A free coefficient is
            undetermined if its feature is zero or a combination of others; the term makes the equations solvable.
        refinements: steps of iterative refinement of the equations for the margins. Near the end these equations are
            badly conditioned, and hold products of large and small numbers. For 60 rows, 3 classes, 400 features and
            beta = 1 the method stops at a gap of 8e-4 without refinement, of 6e-5, 8e-6 and 2e-7 with one, two and four
            steps. The equations for the coefficients take one step, and stop at 2e-7.
        to_boundary: length of a step, as a share of the length at which the first variable would be zero: all variables
            have to stay positive. Values of .9 to .999 are usual.
        clip: largest second-order error of a product that the corrector corrects, in units of the mean product. To
            correct the few largest errors in full would turn the step towards them, and shorten the step for all.
        floor: mean product of a variable and its multiplier at which to stop. The products tend to zero, and at some
            hundred times the precision of float64 (2e-16) they are made of rounding.
        steps: largest number of steps, more than any problem has needed: 10 to 150.
        patience: steps in a row without a smaller gap after which to stop: rounding has taken over by then.
    """

    tiny: float = 1e-12
    refinements: int = 4
    to_boundary: float = 0.99
    clip: float = 10.0
    floor: float = 1e-13
    steps: int = 200
    patience: int = 20


INTERIOR = InteriorPoint()


class ByCoefficients:
    """Solve one equation for each coefficient, k d for k classes and d features, by a Cholesky factorisation."""

    def __init__(self, features: FloatArray, pairs: Iterable[FloatArray], spread: FloatArray) -> None:
        from scipy import linalg

        k, d = spread.shape
        matrix = block_gram(features, pairs, k, d)
        last = np.full_like(spread, INTERIOR.tiny * (1 + matrix.diagonal().max()))
        np.divide(1, spread, out=last, where=spread > 0)
        matrix[np.diag_indices(k * d)] += last.ravel()
        if not np.isfinite(matrix).all():
            raise np.linalg.LinAlgError
        self.matrix = matrix
        self.factor = linalg.cho_factor(matrix, check_finite=False)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return the step dmu of the coefficients for the right-hand side `right`; both have shape (k, d)."""
        from scipy import linalg

        flat = right.ravel()
        coef = linalg.cho_solve(self.factor, flat, check_finite=False)
        coef += linalg.cho_solve(self.factor, flat - self.matrix @ coef, check_finite=False)
        return np.asarray(coef.reshape(right.shape))


class ByMargins:
    r"""Solve one equation for each row and class, and one for each free coefficient (one without L1 penalty).

    The unknowns are `dp_i = C_i df_i` for each row i, with `df_i = dmu psi_i` the change of its margins. The other
    symbols are those of the module's docstring. For a penalised coefficient `dmu = spread (right - sum_i dp_i psi_i')`.
    This expression is inserted into df. With `K_y = Psi diag(spread_y) Psi'` for each class y, and A_free the
    contribution of free coefficients to the margins, the equations become

        dp + C (K dp) - C A_free dmu_free = C (spread right) Psi',   A_free' dp + tiny dmu_free = right_free.

    This is Woodbury's formula, extended by the free coefficients. The matrix is not symmetric, so the equations are
    solved by an LU factorisation.
    """

    def __init__(self, features: FloatArray, pairs: Iterable[FloatArray], spread: FloatArray) -> None:
        from scipy.linalg import lapack

        n, k = features.shape[0], spread.shape[0]
        self.features, self.spread, self.free = features, spread, spread == 0
        self.matrices = _symmetric(pairs, n, k)  # the matrices C_i, shape (n, k, k)
        classes, columns = np.nonzero(self.free)
        added = np.zeros((k, n, classes.size))  # A_free
        added[classes, :, np.arange(classes.size)] = features[:, columns].T
        reached = np.einsum("iyz,zij->yij", self.matrices, added)  # C A_free
        self.tiny = INTERIOR.tiny * (1 + (added * reached).sum((0, 1)).max(initial=0))
        size = n * k
        matrix = np.empty((size + classes.size, size + classes.size))
        for z in range(k):
            products = (features * spread[z]) @ features.T
            for y in range(k):
                block = matrix[y * n : (y + 1) * n, z * n : (z + 1) * n]
                np.multiply(self.matrices[:, y, z, None], products, out=block)
        matrix[np.diag_indices(size)] += 1
        matrix[:size, size:] = -reached.reshape(size, -1)
        matrix[size:, :size] = added.reshape(size, -1).T
        matrix[size:, size:] = self.tiny * np.eye(classes.size)
        if not np.isfinite(matrix).all():
            raise np.linalg.LinAlgError
        # LAPACK stores columns one after another: the rows of the matrix are the columns of its transpose.
        *self.factor, info = lapack.dgetrf(matrix.T, overwrite_a=True)
        if info:
            raise np.linalg.LinAlgError

    def solve(self, right: FloatArray) -> FloatArray:
        """Return the step dmu of the coefficients for the right-hand side `right`; both have shape (k, d)."""
        coef = self._solve_once(right)
        for _ in range(INTERIOR.refinements):
            coef += self._solve_once(right - self._apply(coef))
        return coef

    def _solve_once(self, right: FloatArray) -> FloatArray:
        from scipy.linalg import lapack

        n, k = len(self.matrices), len(right)
        of_margins = np.concatenate([self._dp(self.spread * right).ravel(), right[self.free]])
        solution, _ = lapack.dgetrs(*self.factor, of_margins, trans=1)
        coef = self.spread * (right - solution[: n * k].reshape(k, n) @ self.features)
        coef[self.free] = solution[n * k :]
        return np.asarray(coef)

    def _apply(self, coef: FloatArray) -> FloatArray:
        """Return the left side of the equations in the module's docstring, for the step `coef`."""
        last = np.divide(coef, self.spread, out=self.tiny * coef, where=~self.free)
        return np.asarray(self._dp(coef) @ self.features + last)

    def _dp(self, coef: FloatArray) -> FloatArray:
        """Return `C_i coef psi_i` for all rows i, shape (k, n), with C_i and psi_i as in the module's docstring."""
        return np.asarray(np.einsum("iyz,iz->yi", self.matrices, self.features @ coef.T))


def coef_system(features: FloatArray, pairs: Iterable[FloatArray], spread: FloatArray) -> ByCoefficients | ByMargins:
    """Factorise the linear system for a step of the k d coefficients; return an object with a method `solve`.

    The system is `sum_i C_i dmu psi_i psi_i' + dmu / spread = right`: see the module. `solve(right)` returns the step
    `dmu` for a right-hand side of shape (k, d).

    Args:
        features: psi, shape (n, d) for n rows and d features.
        pairs: yields for each of k classes y the entries of the symmetric matrices C_i (k, k) left of the diagonal,
            (y, 0..y-1), for all rows i, shape (n, y). The rows of C_i sum to zero, which gives the diagonal.
        spread: 1 / a, where a is what the L1 term of a coefficient adds to the diagonal, shape (k, d). For a
            coefficient without L1 term it is 0 by convention: nothing is added.

    Raises:
        numpy.linalg.LinAlgError: if rounding errors make the system unsolvable.
    """
    k, d = spread.shape
    size = Size(features.shape[0], k, d, int((spread == 0).sum()))
    system = ByCoefficients if size.work_by_coefficients <= size.work_by_margins else ByMargins
    return system(features, pairs, spread)


def _symmetric(pairs: Iterable[FloatArray], n: int, k: int) -> FloatArray:
    """Return n symmetric matrices (k, k) whose rows sum to zero, from the entries left of their diagonals."""
    matrices = np.zeros((n, k, k))
    for y, below in enumerate(pairs):
        matrices[:, y, :y] = matrices[:, :y, y] = below
    matrices[:, range(k), range(k)] = -matrices.sum(2)
    return matrices


@dataclass(frozen=True, eq=False)
class Point:
    """The values of all variables of the interior-point method, or a step that changes each of them."""

    # Positive: s (n, k), g (n,), h (n, k), and plus and minus of the m penalised coefficients, (m,) each.
    primal: tuple[FloatArray, ...]
    dual: tuple[FloatArray, ...]  # their multipliers in the same order, positive: p, q, z, pi_plus, pi_minus
    nu: FloatArray  # (n,)
    free: FloatArray  # the coefficients without l1 term, (k, d), zero where there is one

    def coef(self, problem: LinearProblem) -> FloatArray:
        """Return the coefficients mu, shape (k, d)."""
        coef = self.free.copy()
        coef[problem.lambda_ > 0] = self.primal[3] - self.primal[4]
        return coef

    def mean_product(self, problem: LinearProblem) -> float:
        """Return the weighted mean product of the variables and their multipliers, which is zero at the solution."""
        products = [x * y for x, y in zip(self.primal, self.dual, strict=True)]
        of_rows = problem.weight @ (products[0].sum(1) + products[1] + products[2].sum(1))
        count: int = 2 * products[0].shape[1] + 1 + 2 * products[3].size
        return float(of_rows + products[3].sum() + products[4].sum()) / count

    def moved(self, step: Point, length: float) -> Point:
        """Return the point that is reached from this one by `length` times the step."""
        primal = tuple(x + length * dx for x, dx in zip(self.primal, step.primal, strict=True))
        dual = tuple(x + length * dx for x, dx in zip(self.dual, step.dual, strict=True))
        return Point(primal, dual, self.nu + length * step.nu, self.free + length * step.free)

    def room(self, step: Point) -> float:
        """Return the largest fraction of the step, at most 1, that keeps all variables and multipliers nonnegative."""
        length = 1.0
        for x, dx in zip(self.primal + self.dual, step.primal + step.dual, strict=True):
            down = dx < 0
            if down.any():
                length = min(length, float((x[down] / -dx[down]).min()))
        return length


def interior_path(problem: LinearProblem) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield after each step the coefficients mu (k, d) and probabilities p (n, k), until rounding stops progress."""
    point = starting_point(problem)
    for _ in range(INTERIOR.steps):
        mean = point.mean_product(problem)
        if not mean > INTERIOR.floor:  # or NaN
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
            # Mehrotra's rule. The predictor aims at products of zero; `left` is the mean product that it would leave.
            # The further it gets, the lower the step aims: at the cube of the share left, between 0.001 and 0.729.
            target = mean * min(0.9, max(0.1, left / mean)) ** 3
            # The predictor's step leaves out the product of the steps of a pair; the corrector takes that off its aim.
            pairs = zip(predictor.primal, predictor.dual, strict=True)
            most = INTERIOR.clip * mean
            step = system.step([target - np.clip(dx * dy, -most, most) for dx, dy in pairs])
            point = point.moved(step, INTERIOR.to_boundary * point.room(step))


def starting_point(problem: LinearProblem) -> Point:
    """Return the point with coefficients 0 at which each product of a variable and its multiplier is 1 / (2 k).

    For k classes each h is 1 / (2 k), half of the uniform probability, so g = 1/2. With s = 1/2, p is 1 / k. The
    module's docstring defines h, g, s and p.
    """
    n, k = problem.weight.size, problem.tau.shape[0]
    penalised = problem.lambda_[problem.lambda_ > 0]
    product = 0.5 / k
    h = np.full((n, k), 0.5 / k)
    primal = (np.full((n, k), k * product), np.full(n, 0.5), h, product / penalised, product / penalised)
    nu = concave_loss(h[:, 0], problem.beta)[0] - k * product
    return Point(primal, tuple(product / x for x in primal), nu, np.zeros_like(problem.tau))


def concave_loss(h: FloatArray, beta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return `l(h) = beta (h^(1/beta) - 1)`, its first derivative, and minus its second derivative."""
    log_h = np.log(h)
    if np.isinf(beta):
        return log_h, 1 / h, 1 / h**2
    slope = np.exp((1 / beta - 1) * log_h)
    return beta * np.expm1(log_h / beta), slope, (1 - 1 / beta) * slope / h


class NewtonSystem:
    r"""The factorised linear equations of a step of Newton's method at a point.

    The module's docstring defines the variables. A prefix d marks a step: h changes by dh, and dp = p_next - p. After
    the step the products s p, g q and h z shall be `aim_s`, `aim_g` and `aim_h`. `lack_s` and `lack_g` are the amounts
    by which s and g differ from their definitions, and df = dmu psi_i. To first order,

        s:  ds = l'(h) dh - df - dnu + lack_s        p_next = aim_s / s - ratio ds,   ratio = p / s
        g:  dg = lack_g - sum_y dh_y                 q_next = aim_g / g - gamma dg,   gamma = q / g
        h:                                           z_next = aim_h / h - (z / h) dh

    Inserted into the derivative of the Lagrangian in h, these give a system for dh in each row,
    `(diag(stiff) + gamma 1 1') dh = ratio l'(h) (df + dnu) + (terms of the point and the aims)`, with
    `stiff = ratio l'(h)^2 + curvature` and `curvature = z / h - p l''(h)`. Its matrix is diagonal plus a term of rank
    one. The Sherman-Morrison formula inverts it, with a factor `kappa`. Inserting dh into p_next gives

        p_next = (p_next at df = dnu = 0) + B (df + dnu),   B = diag(diagonal) + kappa w w',   w = ratio l'(h) / stiff.

    Since p_next sums to one, dnu follows from df. The derivative of p_next in df is then `C = B - r r' / sum(r)`, with
    r the row sums of B. The moments of p_next give the system for dmu. Its matrix is `sum_i w_i C_i (x) psi_i psi_i'`,
    with w_i the weight of row i. Penalised coefficients add `1 / (plus / pi_plus + minus / pi_minus)` to its diagonal.
    """

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
        self.w = self.ratio * self.slope / self.stiff
        self.diagonal = self.ratio * curvature / self.stiff
        self.r = self.diagonal + self.w * (self.kappa * self.w.sum(1))[:, None]
        self.theta = (plus / pi_plus, minus / pi_minus)
        spread = np.zeros_like(problem.tau)
        spread[problem.lambda_ > 0] = self.theta[0] + self.theta[1]
        pairs = (problem.weight[:, None] * below for below in self._pairs())
        self.system = coef_system(problem.features, pairs, spread)

    def _pairs(self) -> Iterator[FloatArray]:
        """Yield for each class y the entries (y, 0..y-1) of the matrices C_i of all n rows i, shape (n, y).

        An entry is `kappa w_y w_z - r_y r_z / sum(r)`. With a common denominator the terms with the square of kappa
        cancel. They are left out, since computing their difference would only add rounding errors.
        """
        a, w = self.diagonal, self.w
        kappa, total = self.kappa[:, None], a.sum(1)[:, None]
        mixed = kappa * w.sum(1)[:, None]
        for y in range(a.shape[1]):
            ay, wy = a[:, y : y + 1], w[:, y : y + 1]
            product = kappa * total * wy * w[:, :y] - ay * a[:, :y] - mixed * (ay * w[:, :y] + wy * a[:, :y])
            yield product / self.r.sum(1)[:, None]

    def step(self, aims: Sequence[FloatArray | float]) -> Point:
        """Return the Newton step that brings the products of variables and multipliers to their targets, the `aims`.

        The products equal the targets after this step to first order. `aims` has one entry for each array of `primal`.
        """
        problem, point = self.problem, self.point
        s, g, h, plus, minus = point.primal
        p, q, z, pi_plus, pi_minus = point.dual
        on, lambda_ = problem.lambda_ > 0, problem.lambda_[problem.lambda_ > 0]
        lack_s = self.loss - problem.margins(point.coef(problem)) - point.nu[:, None] - s
        lack_g = 1 - h.sum(1) - g
        # What p would be after the step, first if h, nu and mu stayed, then less what dh takes from it; and the dnu
        # that makes its sum 1. All at df = 0.
        p_fixed = aims[0] / s - self.ratio * lack_s
        right = self.slope * p_fixed + aims[2] / h - (aims[1] / g - self.gamma * lack_g)[:, None]
        by_h = self.ratio * self.slope * self._solve_h(right)
        dnu_fixed = ((by_h - p_fixed).sum(1) + 1) / self.r.sum(1)
        target = -problem.residual(p_fixed - by_h + self.r * dnu_fixed[:, None])
        up = self.theta[0] * (aims[3] / plus - lambda_)
        down = self.theta[1] * (aims[4] / minus - lambda_)
        target[on] += (up - down) / (self.theta[0] + self.theta[1])
        dmu = self.system.solve(target)
        df = problem.margins(dmu)
        dnu = dnu_fixed - (self.r * df).sum(1) / self.r.sum(1)
        df_dnu = df + dnu[:, None]
        dh = self._solve_h(self.ratio * self.slope * df_dnu + right)
        ds = self.slope * dh - df_dnu + lack_s
        dg = lack_g - dh.sum(1)
        dp = aims[0] / s - p - self.ratio * ds
        residual = problem.residual(p + dp)[on]
        primal = (ds, dg, dh, up - self.theta[0] * residual, down + self.theta[1] * residual)
        of_rows = (dp, aims[1] / g - q - self.gamma * dg, aims[2] / h - z - z / h * dh)
        dual = (*of_rows, lambda_ + residual - pi_plus, lambda_ - residual - pi_minus)
        return Point(primal, dual, dnu, np.where(on, 0.0, dmu))

    def _solve_h(self, right: FloatArray) -> FloatArray:
        """Solve `(diag(stiff) + gamma 1 1') x = right` for each row, the equations for the step of h."""
        return np.asarray((right - (self.kappa * (right / self.stiff).sum(1))[:, None]) / self.stiff)
