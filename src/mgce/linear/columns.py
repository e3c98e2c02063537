r"""Minimise linear MGCE by column generation: start with few features, and add those that lower the objective.

Let tau be the estimated moments (mean features of each class), and lambda the weights of the L1 penalty. A coefficient
is zero at the solution if the moment of its feature under the worst-case probabilities differs from tau by less than
lambda. With the lambda of a certified uncertainty set, most features have this property. So a much smaller problem with
only the other features is solved. One pass over all features then finds the features that are missing, or shows that
none is missing. This pass also computes the lower bound for the whole problem.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mgce._arrays import FloatArray, IntArray
from mgce.linear.first_order import minimise
from mgce.linear.progress import Progress

FIRST = 50  # columns to begin with, and to add at least: fewer would take more passes over all columns
GROWTH = 1.0  # columns added at most, as a share of those that are in
ROUNDS = 30  # from 50 columns, doubling reaches any number in 25
INNER_SHARE = 0.3  # of the gap asked for, that a problem of some columns is solved to: the rest is left to the columns
# When all columns that are needed are in and the gap is still open, the value may fall by less than L-BFGS-B waits for,
# and yet the moments be outside by enough for a wide gap: the one is of the square of the other. It then goes on from
# where it stopped, for a tenth of the gap each time.
FINER, LEAST_SHARE = 0.1, 1e-7


def run_columns(progress: Progress, max_iter: int) -> None:
    """Solve the problem with more and more features until objective and lower bound agree or no feature is missing.

    The best coefficients and the lower bound are stored in `progress`.
    """
    problem = progress.problem
    k, d = problem.tau.shape
    coef = np.zeros((k, d))
    violation = _violation(progress, np.full((problem.weight.size, k), 1 / k))
    columns = np.flatnonzero((problem.lambda_ == 0).any(0))
    columns = _with_missing(columns, violation, FIRST)
    share = INNER_SHARE
    for _ in range(ROUNDS):
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
        wider = _with_missing(columns, _violation(progress, p), max(FIRST, int(GROWTH * columns.size)))
        if wider.size == columns.size:
            share *= FINER
        if share < LEAST_SHARE:
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
