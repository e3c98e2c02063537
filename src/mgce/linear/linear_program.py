"""Solve linear MGCE exactly at beta = 1, where it is a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgce._arrays import FloatArray
from mgce.linear.objective import LinearProblem

UNBOUNDED = 3  # status of `scipy.optimize.linprog`; 0 is always feasible here, so no program is infeasible


class UnboundedProgramError(ArithmeticError):
    """The objective of the linear program has no lower bound."""


def solve_linear_program(problem: LinearProblem) -> tuple[FloatArray, FloatArray, int] | None:
    r"""Return the coefficients mu (k, d), the probabilities p (n, k) and the number of iterations of HiGHS.

    Shapes are for n rows, k classes and d features. The result is None if HiGHS finds no solution. With tau the mean
    features, lambda the penalties, w the row weights and f_iy the score of class y in row i, linear in mu, the program
    is: minimise `-tau.mu + lambda.|mu| - sum_i w_i nu_i` subject to `h_iy >= 1 + f_iy + nu_i`, `h >= 0` and
    `sum_y h_iy <= 1`. At the solution nu_i is the normalizer phi of row i, and h are the minimax probabilities, at beta
    = 1 the positive parts of `1 + f_iy + phi_i`. The variables are the positive and the negative parts of mu, column
    after column, then nu, then h row by row. The multipliers of the first constraints are w_i p_iy.

    Raises:
        UnboundedProgramError: if the objective has no lower bound.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    n, k = problem.weight.size, problem.tau.shape[0]
    m = problem.tau.size
    margins = sparse.kron(sparse.csr_array(problem.features), sparse.eye_array(k), format="csr")
    nu_of_row = sparse.kron(sparse.eye_array(n), np.ones((k, 1)), format="csr")
    hinges = sparse.hstack([margins, -margins, nu_of_row, -sparse.eye_array(n * k)])
    sums = sparse.hstack([sparse.csr_array((n, 2 * m + n)), nu_of_row.T])
    tau, lambda_ = problem.tau.ravel(order="F"), problem.lambda_.ravel(order="F")
    program: dict[str, Any] = dict(
        c=np.concatenate([lambda_ - tau, lambda_ + tau, -problem.weight, np.zeros(n * k)]),
        A_ub=sparse.vstack([hinges, sums], format="csr"),
        b_ub=np.concatenate([-np.ones(n * k), np.ones(n)]),
        bounds=np.array([(0, np.inf)] * (2 * m) + [(-np.inf, np.inf)] * n + [(0, np.inf)] * (n * k)),
        # Left to itself, HiGHS takes its simplex method: the quicker one up to n k = 1,000, measured with 3 classes. At
        # 2,000 its interior points were as quick with 10 features, and twice as quick with 30.
        method="highs" if n * k < 2000 else "highs-ipm",
    )
    result = linprog(**program)
    if result.status == UNBOUNDED:
        raise UnboundedProgramError(result.message)
    if result.x is None or result.status != 0:
        return None
    coef = (result.x[:m] - result.x[m : 2 * m]).reshape(k, -1, order="F")
    p = np.clip(-result.ineqlin.marginals[: n * k].reshape(n, k), 0, None) / problem.weight[:, None]
    return coef, p / p.sum(1, keepdims=True), int(result.nit)
