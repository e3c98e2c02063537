r"""Fitting linear MGCE: the convex problem of equation (11), with a lower bound on its least value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mgce import _validation
from mgce.risk.arrays import FloatArray, Matrix, as_array, as_labels, as_matrix, moments, one_hot
from mgce.risk.first_order import run_lbfgs
from mgce.risk.interior import interior_path
from mgce.risk.linear_program import solve_linear_program
from mgce.risk.objective import LinearProblem, Link, phi_and_p
from mgce.risk.progress import LinearFit, Progress

METHODS = ("auto", "lbfgs", "interior", "lp")
INTERIOR_WORK = 2e10  # n (k d)^2: about a second a step
QUICK_WORK = 1e9
SERIAL_WORK = 2e9  # where one thread of BLAS is enough
INTERIOR_ENTRIES = 2e7  # n k d: memory
INTERIOR_STEPS = 200
INTERIOR_PATIENCE = 20  # steps without a smaller gap: rounding has taken over
LP_ENTRIES = 2e6  # stored numbers of the linear program


def fit_linear(
    features: Any,  # (n, d)
    *,
    beta: float,
    l1: Any,
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
    r"""Minimise the regularised margin loss of linear MGCE, and bound its least value from below.

    .. math:: \min_\mu\; -\tau^\top\mu + \lambda^\top|\mu| - \sum_i w_i\, \varphi_\beta(\mu\,\psi(x_i))

    With labels, tau is `sum_i w_i e_{y_i} (x) psi(x_i)`, and this is the weighted mean of the margin loss
    plus the l1 term. An interior-point method closes the gap for every beta, in 10 to 150 steps at a cost of
    `n (k d)^2` each; beta = 1 is a linear program first. Where they are not affordable, L-BFGS-B is left:
    it closes the gap to about 1e-5 for beta >= 2, while for beta < 1.4 the gap stays wide, though the
    value is good to about 1e-3.

    Args:
        features: psi, shape (n, d), dense or sparse; a column of ones makes an intercept.
        beta: float in [1, inf].
        l1: lambda, not negative: a number, or what broadcasts to (k, d). Zero leaves a coefficient free.
        labels: integers in 0..k-1, shape (n,); may be left out if `tau` is given.
        tau: moments, shape (k, d); by default those of the labels.
        n_classes: k, by default the rows of tau, or the largest label plus one.
        anchor: probabilities, shape (n, k), whose moments are within lambda of tau; the one-hot
            labels by default. Without one, most solutions have no lower bound.
        sample_weight: not negative, shape (n,); scaled to sum to one.
        mu0: where L-BFGS-B starts, shape (k, d); the other methods start from the centre.
        tol: the gap to reach, as a share of the value at mu = 0, `beta (1 - k^(-1/beta))`.
        max_iter: most iterations of L-BFGS-B.
        method: `"lbfgs"`, `"interior"`, `"lp"` (beta = 1), several of these, each to go on where the one before did
            not close the gap, or `"auto"`: what the sizes allow.
        link: gives phi (n,) and p (n, k) of margins (n, k) at beta.

    Returns:
        The fit: coefficients, value, lower bound, and whether the gap was closed.

    Raises:
        TypeError: if `beta` is not a number.
        ValueError: if shapes or values do not fit together, or the method is not for this beta; as
            EmptyUncertaintySetError if the value falls below zero, which no non-empty set allows.

    Example:
        >>> x = np.array([[-2.0, 1], [-1, 1], [-0.5, 1], [0.5, 1], [1, 1], [2, 1]])
        >>> fit = fit_linear(x, labels=[0, 0, 1, 0, 1, 1], beta=1.4, l1=0.05)
        >>> round(fit.value, 5), fit.converged
        (0.35354, True)

    Reference: paper, equations (11) and (12).
    """
    _validation.check_beta(beta)
    methods = (method,) if isinstance(method, str) else tuple(method)
    for name in methods:
        _validation.check_choice("method", name, METHODS)
    if "lp" in methods and beta != 1:
        raise ValueError(_validation.expected("beta", "1 for method 'lp'", beta))
    problem, anchor = _problem(as_matrix(features), beta, l1, labels, tau, n_classes, anchor, sample_weight, link)
    progress = Progress(problem, anchor, tol)
    start = np.zeros_like(problem.tau) if mu0 is None else as_array(mu0, "mu0").reshape(problem.tau.shape)
    for name in _plan(problem) if method == "auto" else methods:
        if not progress.closed:
            _run(name, progress, start, max_iter)
            start = progress.coef
    return progress.fit()


def _problem(
    features: Matrix, beta: float, l1: Any, labels: Any, tau: Any, n_classes: int | None, anchor: Any,
    sample_weight: Any, link: Link,
) -> tuple[LinearProblem, FloatArray | None]:  # fmt: skip
    n = features.shape[0]
    if tau is not None:
        tau = as_array(tau, "tau")
        n_classes = tau.shape[0]
    if labels is not None:
        y = as_labels(labels, n, n_classes)
        anchor = one_hot(y, n_classes or int(y.max()) + 1)
    elif anchor is not None:
        anchor = as_array(anchor, "anchor")
    elif tau is None:
        raise ValueError(_validation.expected("labels", "given where `tau` is not", None))
    weight = _weight(sample_weight, n)
    if not weight.all():
        kept = weight > 0
        features, weight = features[kept], weight[kept]
        anchor = None if anchor is None else anchor[kept]
    if tau is None:
        tau = moments(features, anchor, weight)
    shape = (tau.shape[0], features.shape[1])
    if tau.shape != shape:
        raise ValueError(_validation.expected("tau", f"of shape (k, {shape[1]})", tau.shape))
    penalty = np.broadcast_to(as_array(l1, "l1"), shape)
    if penalty.min() < 0:
        raise ValueError(_validation.expected("l1", "not negative", float(penalty.min())))
    return LinearProblem(features, tau, penalty, weight, float(beta), link), anchor


def _weight(sample_weight: Any, n: int) -> FloatArray:
    if sample_weight is None:
        return np.full(n, 1 / n)
    weight = as_array(sample_weight, "sample_weight")
    if weight.shape != (n,) or weight.min() < 0 or weight.sum() == 0:
        raise ValueError(_validation.expected("sample_weight", f"{n} numbers that are not negative nor all 0", weight))
    return np.asarray(weight / weight.sum())


def _plan(problem: LinearProblem) -> tuple[str, ...]:
    """Choose the methods, the first to be tried first; each goes on where the one before did not close the gap."""
    n, d = problem.features.shape
    k = problem.tau.shape[0]
    work = _interior_work(problem)
    plan = ["lbfgs"]
    if work <= INTERIOR_WORK and n * k * d <= INTERIOR_ENTRIES:
        # Large smooth problems are worth a try at first order, from whose end the gap may be closed already.
        plan = ["lbfgs", "interior"] if work > QUICK_WORK and problem.beta >= 1.4 else ["interior", "lbfgs"]
    if problem.beta == 1 and n * k * d <= LP_ENTRIES:
        plan.insert(0, "lp")
    return tuple(plan)


def _run(name: str, progress: Progress, start: FloatArray, max_iter: int) -> None:
    progress.method = name
    if name == "lbfgs":
        run_lbfgs(progress, start, max_iter)
    elif name == "interior":
        _run_interior(progress)
    else:
        solution = solve_linear_program(progress.problem)
        if solution is not None:
            coef, p, n_iter = solution
            progress.n_iter += n_iter
            progress.offer(coef)
            progress.dual.update(p)


def _run_interior(progress: Progress) -> None:
    from threadpoolctl import threadpool_limits

    problem = progress.problem
    if not isinstance(problem.features, np.ndarray):
        problem = replace(problem, features=problem.features.toarray())
    best, since = progress.gap, 0
    # NumPy and SciPy have a BLAS each: between small products their threads only keep each other from the cores.
    with threadpool_limits(1 if _interior_work(problem) <= SERIAL_WORK else None, "blas"):
        for coef, p in interior_path(problem, INTERIOR_STEPS):
            progress.n_iter += 1
            progress.offer(coef)
            progress.dual.update(p)
            best, since = (progress.gap, 0) if progress.gap < best else (best, since + 1)
            if progress.closed or since == INTERIOR_PATIENCE:
                return


def _interior_work(problem: LinearProblem) -> int:
    """Give the multiplications of a step, but for a factor."""
    return int(problem.weight.size * problem.tau.size**2)
