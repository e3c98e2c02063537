"""Probabilities tilted into the uncertainty set: against SciPy's minimiser, and exact solutions of the problem."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from mgce._arrays import one_hot
from mgce.linear.first_order import minimise, newton_tilts, tilt
from mgce.linear.objective import LinearProblem, moments
from mgce.linear.progress import Progress
from mgce.linear.solver import fit_linear


def wide(n=200, d=40, k=3, beta=1.4, width=0.1):
    """Features of different units and tails, of which some decide the class."""
    rng = np.random.default_rng(0)
    x = rng.standard_t(4, (n, d)) * 10.0 ** rng.uniform(-2, 2, d)
    y = (x[:, :k] / x[:, :k].std(0) + rng.gumbel(size=(n, k))).argmax(1)
    weight = np.full(n, 1 / n)
    tau = moments(x, one_hot(y, k), weight)
    deviation = np.sqrt(moments(x**2, one_hot(y, k), weight) - tau**2)
    return LinearProblem(x, tau, width * deviation, weight, beta), one_hot(y, k)


def test_a_tilt_to_equal_moments_is_the_projection_in_kullback_leibler_divergence():
    # With lambda = 0 all moments have to equal tau, and the tilts minimise the mean log-partition less a.tau.
    problem, labels = wide(n=30, d=3, width=0.0)
    rng = np.random.default_rng(1)
    p = 0.8 * rng.dirichlet(np.ones(3), 30) + 0.2 * labels
    progress = Progress(problem, labels, 1e-9)
    tilted = tilt(progress, tilt(progress, p))

    def mean_log_partition(a):
        return problem.weight @ logsumexp(problem.features @ a.reshape(3, 3).T, b=p, axis=1) - problem.tau.ravel() @ a

    a = minimize(mean_log_partition, np.zeros(9), tol=1e-12).x.reshape(3, 3)
    expected = p * np.exp(problem.features @ a.T)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(tilted, expected, atol=1e-4)


def test_the_equations_of_a_step_are_solved():
    problem, labels = wide(d=5)
    p = np.random.default_rng(1).dirichlet(np.ones(3), 200)
    outside = np.random.default_rng(2).random((3, 5)) < 0.7
    moves = np.einsum("iy,yz->iyz", p, np.eye(3)) - p[:, :, None] * p[:, None]

    def moved(tilts):
        each = problem.weight, moves, tilts, problem.features, problem.features
        return np.where(outside, np.einsum("i,iyz,zl,il,ij->yj", *each), 0) / problem.scale

    lack = moved(np.where(outside, np.random.default_rng(3).normal(size=(3, 5)) / problem.scale, 0))
    tilts = newton_tilts(Progress(problem, labels, 1e-3), p, lack * problem.scale, outside)
    assert np.linalg.norm(moved(tilts) - lack) < 0.0101 * np.linalg.norm(lack)
    assert not tilts[~outside].any()


@pytest.mark.parametrize("beta", [1.4, 2.0, 5.0, math.inf])
def test_the_bound_closes_on_the_value_from_below(beta):
    problem, labels = wide(beta=beta)
    exact = fit_linear(
        problem.features, tau=problem.tau, anchor=labels, lambda_=problem.lambda_, beta=beta, method="interior"
    )
    assert exact.converged
    plain, progress = Progress(problem, labels, 1e-3), Progress(problem, labels, 1e-3)
    for each in (plain, progress):
        each.offer(exact.coef, exact.value)
    rough = Progress(problem, labels, 0.0)
    p = minimise(rough, np.zeros_like(problem.tau), 6)
    plain.dual.update(p)
    tilted = tilt(progress, p)
    assert plain.dual.best < progress.dual.best <= exact.value + 1e-9
    assert progress.gap < 0.5 * plain.gap
    assert (tilted >= 0).all() and np.allclose(tilted.sum(1), 1, atol=1e-12)


def test_there_is_a_bound_without_an_anchor():
    problem, _ = wide(width=0.3)
    fit = fit_linear(problem.features, tau=problem.tau, lambda_=problem.lambda_, beta=1.4, tol=1e-3, method="lbfgs")
    exact = fit_linear(problem.features, tau=problem.tau, lambda_=problem.lambda_, beta=1.4, method="interior")
    assert fit.converged and fit.lower <= exact.value + 1e-9


def test_units_of_the_features_change_nothing():
    problem, labels = wide()
    units = 10.0 ** np.random.default_rng(2).integers(-3, 4, 40)
    settings = dict(anchor=labels, beta=1.4, tol=1e-3, method="lbfgs")
    one = fit_linear(problem.features, tau=problem.tau, lambda_=problem.lambda_, **settings)
    other = fit_linear(problem.features * units, tau=problem.tau * units, lambda_=problem.lambda_ * units, **settings)
    assert one.converged and one.n_iter == other.n_iter
    np.testing.assert_allclose(other.coef * units, one.coef, rtol=1e-6, atol=1e-9 * np.abs(one.coef).max())


def test_lambdas_of_all_sizes_leave_scales_within_limits():
    problem, labels = wide()
    lambda_ = problem.lambda_ * 10.0 ** np.random.default_rng(3).integers(-3, 2, problem.tau.shape)
    fit = fit_linear(problem.features, tau=problem.tau, anchor=labels, lambda_=lambda_, beta=2.0, method="lbfgs")
    exact = fit_linear(problem.features, tau=problem.tau, anchor=labels, lambda_=lambda_, beta=2.0, method="interior")
    assert fit.value == pytest.approx(exact.value, abs=1e-3)
    assert fit.lower <= exact.value + 1e-9
