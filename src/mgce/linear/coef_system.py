r"""Solve the linear equations for the coefficients in a step of the interior-point method.

The equations for the step `dmu` of the coefficients, with a right-hand side of the same shape (k, d), are

    sum_i C_i dmu psi_i psi_i' + dmu / spread = right,

Here psi_i are the d features of row i, and C_i is a positive semidefinite matrix (k, k) for k classes, whose rows sum
to zero. `spread` holds a number for each coefficient. A coefficient with spread zero has no L1 term; it is called free,
and the term `dmu / spread` is left out. The equations can be solved for the k d coefficients or for the n k margins
(logits) of n rows. :func:`coef_system` picks the cheaper way.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mgce._arrays import FloatArray
from mgce.linear.objective import block_gram
from mgce.linear.plan import Size

# A free coefficient is undetermined if its feature is zero or a combination of others. A term hardly larger than
# rounding, as a share of the largest on the diagonal, then makes the equations solvable.
TINY = 1e-12
# Steps of iterative refinement: near the end the equations are badly conditioned. Those for the margins hold products
# of large and small numbers, and lose more: for 60 rows, 3 classes, 400 features and beta = 1 the method stops at a gap
# of 8e-4 without refinement, of 6e-5, 8e-6 and 2e-7 with one, two and four steps, and of 2e-7 by the coefficients.
REFINEMENTS_BY_COEFFICIENTS = 1
REFINEMENTS_BY_MARGINS = 4


class ByCoefficients:
    """Solve one equation for each coefficient, k d for k classes and d features, by a Cholesky factorisation."""

    def __init__(self, features: FloatArray, pairs: Iterable[FloatArray], spread: FloatArray) -> None:
        from scipy import linalg

        k, d = spread.shape
        matrix = block_gram(features, pairs, k, d)
        last = np.full_like(spread, TINY * (1 + matrix.diagonal().max()))
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
        for _ in range(REFINEMENTS_BY_COEFFICIENTS):
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
        self.tiny = TINY * (1 + (added * reached).sum((0, 1)).max(initial=0))
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
        for _ in range(REFINEMENTS_BY_MARGINS):
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
