"""Fit linear MGCE: solve the convex problem of the paper's equation (11), and bound its least value from below.

Many features are added by column generation: start with few features, and add those that lower the objective. Let tau
be the estimated moments (mean features of each class), and lambda the weights of the L1 penalty. A coefficient
is zero at the solution if the moment of its feature under the worst-case probabilities differs from tau by less than
lambda. With the lambda of a certified uncertainty set, most features have this property. So a much smaller problem with
only the other features is solved. One pass over all features then finds the features that are missing, or shows that
none is missing. This pass also computes the lower bound for the whole problem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mgce._arrays import FloatArray, IntArray, Matrix, as_array, as_labels, as_matrix, one_hot
from mgce._messages import check_choice, expected
from mgce._threads import threads_for
from mgce._validation import check_beta
from mgce.linear.first_order import minimise, run_lbfgs
from mgce.linear.interior_point import INTERIOR, interior_path
from mgce.linear.objective import THOROUGH, LinearProblem, Link, moments, phi_and_p, plan
from mgce.linear.progress import EmptyUncertaintySetError, LinearFit, Progress


class ByColumns(NamedTuple):
    """The settings of :func:`run_columns`, which solves a problem with more and more columns (features).

    Attributes:
        first: number of columns to begin with, and least number to add: fewer would take more passes over all columns.
        rounds: largest number of rounds. From 50 columns, doubling reaches any number in 25; of 72 made problems, four
            took all rounds.
        inner_share: share of the gap asked for to which the problem of the chosen columns is solved: missing columns
            account for the rest of the gap.
        finer: factor of this share where no column is missing and the gap is still open. The value may then fall by
            less than L-BFGS-B waits for, and the moments still be far enough outside for a wide gap: the fall is of the
            order of the square of this distance. L-BFGS-B goes on from where it stopped.
        least_share: share at which to stop: by then it was made finer seven times.
    """

    first: int = 50
    rounds: int = 30
    inner_share: float = 0.3
    finer: float = 0.1
    least_share: float = 1e-7


BY_COLUMNS = ByColumns()


def run_columns(progress: Progress, max_iter: int) -> None:
    """Solve the problem with more and more features until objective and lower bound agree or no feature is missing.

    The best coefficients and the lower bound are stored in `progress`.
    """
    problem = progress.problem
    k, d = problem.tau.shape
    coef = np.zeros((k, d))
    violation = _violation(progress, np.full((problem.weight.size, k), 1 / k))
    columns = np.flatnonzero((problem.lambda_ == 0).any(0))
    columns = _with_missing(columns, violation, BY_COLUMNS.first)
    share = BY_COLUMNS.inner_share
    for _ in range(BY_COLUMNS.rounds):
        part = replace(
            problem,
            features=problem.features[:, columns],
            tau=problem.tau[:, columns],
            lambda_=problem.lambda_[:, columns],
        )
        inner = Progress(part, progress.dual.anchor, share * progress.tol)
        in_set = minimise(inner, coef[:, columns], max_iter)
        progress.n_iter += inner.n_iter
        progress.stalled = inner.stalled
        coef = np.zeros((k, d))
        coef[:, columns] = inner.coef
        progress.offer(coef, inner.value)
        _, p = problem.link(np.ascontiguousarray(part.margins(inner.coef)), problem.beta)
        progress.dual.update(p)
        progress.dual.update(in_set)
        if progress.closed:
            return
        wider = _with_missing(columns, _violation(progress, p), max(BY_COLUMNS.first, columns.size))
        if wider.size == columns.size:
            share *= BY_COLUMNS.finer
        if share < BY_COLUMNS.least_share:
            return
        columns = wider


def _violation(progress: Progress, p: FloatArray) -> FloatArray:
    """Return by how much the moments of each of d features exceed the limits of the uncertainty set, shape (d,)."""
    problem = progress.problem
    return np.asarray((np.abs(problem.residual(p)) - problem.lambda_).max(0))


def _with_missing(columns: IntArray, violation: FloatArray, most: int) -> IntArray:
    """Return the given columns of features, plus up to `most` columns with the largest violation."""
    outside = np.setdiff1d(np.flatnonzero(violation > 0), columns)
    worst = outside[np.argsort(-violation[outside], kind="stable")[:most]]
    found = np.union1d(columns, worst).astype(np.int64)
    return found if found.size else np.array([int(violation.argmax())], dtype=np.int64)


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
    if result.status == 3:  # SciPy: unbounded; 0 is always feasible here, so no program is infeasible
        raise UnboundedProgramError(result.message)
    if result.x is None or result.status != 0:
        return None
    coef = (result.x[:m] - result.x[m : 2 * m]).reshape(k, -1, order="F")
    p = np.clip(-result.ineqlin.marginals[: n * k].reshape(n, k), 0, None) / problem.weight[:, None]
    return coef, p / p.sum(1, keepdims=True), int(result.nit)


METHODS = ("auto", "lbfgs", "interior", "lp", "columns")


def fit_linear(
    features: Any,  # (n, d)
    *,
    beta: float,
    lambda_: Any,
    labels: Any = None,  # (n,)
    tau: Any = None,  # (k, d)
    n_classes: int | None = None,
    anchor: Any = None,  # (n, k)
    sample_weight: Any = None,  # (n,)
    mu0: Any = None,  # (k, d)
    tol: float = 1e-6,
    max_iter: int = 2000,
    method: str | Sequence[str] = "auto",
    link: Link = phi_and_p,
) -> LinearFit:
    r"""Fit linear MGCE: minimise its regularised loss over the coefficients mu, and bound the least value from below.

    .. math:: \min_\mu\; -\tau^\top\mu + \lambda^\top|\mu| - \sum_i w_i\, \varphi_\beta(\mu\,\psi(x_i))

    psi(x_i) are the features of row i, w_i its weight and phi the normalizer of MGCE. If labels are given, tau are the
    moments of the labels: row y of tau is the weighted sum of the features of the rows with label y. The objective is
    then the weighted mean of the MGCE loss `-f_y - phi(f)` with logits f = mu psi(x), plus the L1 term.

    The gap is the value found minus the lower bound. With method "auto", an interior-point method closes the gap for
    every beta. This method takes 10 to 150 steps at a cost of `n (k d)^2` each, or of `(n k)^3` if there are more
    features than rows. For beta = 1 a linear program is tried first. If the problem is too large for both, only
    L-BFGS-B is used. L-BFGS-B closes the gap to about 1e-5 for beta >= 2, and to 1e-3 for beta = 1.4 with thousands of
    coefficients, unless lambda is so small that nearly all of them are used. For beta < 1.4 the gap stays at about
    1e-2, though the value is accurate to about 1e-3.

    Args:
        features: psi, shape (n, d) for n rows and d features, dense or sparse; include a column of ones for an
            intercept.
        beta: float in [1, inf].
        lambda_: the weights of the L1 penalty, not negative: a number, or an array that broadcasts to (k, d) for
            k classes. A coefficient with weight zero is not penalised.
        labels: integers in 0..k-1, shape (n,); may be omitted if `tau` is given.
        tau: moments, shape (k, d); by default those of the labels.
        n_classes: number k of classes; by default the number of rows of tau, or the largest label plus one.
        anchor: probabilities, shape (n, k), whose moments are within lambda of tau; if labels are given, the one-hot
            labels are used. Lower bounds are computed from the anchor (see :class:`mgce.linear.progress.DualBound`).
            Without an anchor, most solutions have no lower bound.
        sample_weight: weights of the rows, not negative, shape (n,); they are scaled to sum to one.
        mu0: starting point of L-BFGS-B, shape (k, d); the other methods do not use it.
        tol: the gap to reach, as a fraction of the value at mu = 0, which is `beta (1 - k^(-1/beta))`.
        max_iter: largest number of iterations of L-BFGS-B.
        method: `"lbfgs"`, `"interior"`, `"lp"` (only for beta = 1), `"columns"` (L-BFGS-B on the features that are
            needed; for many features and beta >= 1.4), or a sequence of these. Each of a sequence is tried if the
            previous ones did not close the gap. `"auto"` uses the sequence that
            :func:`mgce.linear.objective.plan` picks for the size.
        link: function that returns phi (n,) and the worst-case probabilities (n, k) from logits (n, k) and beta.

    Returns:
        The fit: coefficients, value, lower bound, and whether the gap was closed.

    Raises:
        TypeError: if `beta` is not a number.
        ValueError: if shapes or values do not fit together, or the method does not support this beta.
        EmptyUncertaintySetError: a ValueError, raised if the value falls below zero. Then no probabilities have
            moments within lambda of tau.

    Example:
        >>> x = np.array([[-2.0, 1], [-1, 1], [-0.5, 1], [0.5, 1], [1, 1], [2, 1]])
        >>> fit = fit_linear(x, labels=[0, 0, 1, 0, 1, 1], beta=1.4, lambda_=0.05)
        >>> round(fit.value, 5), fit.converged
        (0.35354, True)

    Reference: paper, equations (11) and (12).
    """
    check_beta(beta)
    methods = (method,) if isinstance(method, str) else tuple(method)
    for name in methods:
        check_choice("method", name, METHODS)
    if "lp" in methods and beta != 1:
        raise ValueError(expected("beta", "1 for method 'lp'", beta))
    psi = as_matrix(features)
    weight = _weight(sample_weight, psi.shape[0])
    given_tau = None if tau is None else as_array(tau, "tau")
    k = n_classes if given_tau is None else given_tau.shape[0]
    probs = _anchor(psi.shape[0], labels, anchor, k)
    if not weight.all():
        kept = weight > 0
        psi, weight = psi[kept], weight[kept]
        probs = None if probs is None else probs[kept]
    mean = _tau(given_tau, psi, probs, weight)
    problem = LinearProblem(psi, mean, _penalty(lambda_, mean.shape), weight, float(beta), link)
    if method == "auto":
        methods = plan(problem.size, problem.beta, THOROUGH)
    progress = Progress(problem, probs, tol)
    start = np.zeros_like(problem.tau) if mu0 is None else as_array(mu0, "mu0").reshape(problem.tau.shape)
    for name in methods:
        if not progress.closed:
            _run(name, progress, start, max_iter)
            start = progress.coef
    return progress.fit()


def _anchor(n: int, labels: Any, anchor: Any, n_classes: int | None) -> FloatArray | None:
    """Return the anchor (n, k): the one-hot labels if there are labels, otherwise the given probabilities or None."""
    if labels is None:
        return None if anchor is None else as_array(anchor, "anchor")
    y = as_labels(labels, n, n_classes)
    return one_hot(y, n_classes or int(y.max()) + 1)


def _penalty(lambda_: Any, shape: tuple[int, ...]) -> FloatArray:
    penalty = np.broadcast_to(as_array(lambda_, "lambda_"), shape)
    if penalty.min() < 0:
        raise ValueError(expected("lambda_", "not negative", float(penalty.min())))
    return penalty


def _weight(sample_weight: Any, n: int) -> FloatArray:
    if sample_weight is None:
        return np.full(n, 1 / n)
    weight = as_array(sample_weight, "sample_weight")
    if weight.shape != (n,) or weight.min() < 0 or weight.sum() == 0:
        raise ValueError(expected("sample_weight", f"{n} numbers that are not negative nor all 0", weight))
    return np.asarray(weight / weight.sum())


def _tau(tau: FloatArray | None, psi: Matrix, anchor: FloatArray | None, weight: FloatArray) -> FloatArray:
    """Return the moments tau, shape (k, d): the given ones, or otherwise the moments of the anchor."""
    if tau is None:
        if anchor is None:
            raise ValueError(expected("labels", "given where `tau` is not", None))
        tau = moments(psi, anchor, weight)
    shape = (tau.shape[0], psi.shape[1])
    if tau.shape != shape:
        raise ValueError(expected("tau", f"of shape (k, {shape[1]})", tau.shape))
    return tau


def _run(name: str, progress: Progress, start: FloatArray, max_iter: int) -> None:
    progress.method = name
    if name == "lbfgs":
        run_lbfgs(progress, start, max_iter)
    elif name == "columns":
        run_columns(progress, max_iter)
    elif name == "interior":
        _run_interior(progress)
    else:
        _run_linear_program(progress)


def _run_linear_program(progress: Progress) -> None:
    try:
        solution = solve_linear_program(progress.problem)
    except UnboundedProgramError:
        if progress.dual.anchor is None:
            raise EmptyUncertaintySetError(-math.inf) from None
        solution = None  # the anchor proves that it is bounded
    if solution is None:
        progress.offer(progress.coef)
        return
    coef, p, n_iter = solution
    progress.n_iter += n_iter
    progress.offer(coef)
    progress.dual.update(p)


def _run_interior(progress: Progress) -> None:
    problem = progress.problem
    if not isinstance(problem.features, np.ndarray):
        problem = replace(problem, features=problem.features.toarray())
    best, since = progress.gap, 0
    with threads_for(problem.size.interior_work):
        for coef, p in interior_path(problem):
            progress.n_iter += 1
            progress.offer(coef)
            progress.dual.update(p)
            best, since = (progress.gap, 0) if progress.gap < best else (best, since + 1)
            if progress.closed or since == INTERIOR.patience:
                return
