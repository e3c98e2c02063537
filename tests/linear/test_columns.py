"""Column generation against L-BFGS-B on all columns, and against cvxpy with Clarabel."""

import numpy as np
import pytest

from mgce._arrays import one_hot
from mgce.linear.objective import LinearProblem, moments, phi_and_p
from mgce.linear.progress import DualBound
from mgce.linear.solver import fit_linear


def problem(n=300, d=130, k=3, scale=0.5):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (n, d))
    coef = np.zeros((k, d))
    coef[np.arange(k), np.arange(k)] = 2.0
    y = (x @ coef.T + rng.gumbel(size=(n, k))).argmax(1)
    psi = np.hstack([x, np.ones((n, 1))])
    return psi, y, np.full((k, d + 1), scale * np.sqrt(2 * np.log(2 * k * d / 0.05) / n / k))


@pytest.mark.parametrize(("beta", "scale"), [(1.4, 1.0), (2.0, 0.15), (2.0, 1.0), (5.0, 0.15)])
def test_columns_find_the_value_of_all_columns(beta, scale):
    psi, y, lambda_ = problem(scale=scale)
    every = fit_linear(psi, labels=y, beta=beta, lambda_=lambda_, tol=1e-5, method="lbfgs")
    some = fit_linear(psi, labels=y, beta=beta, lambda_=lambda_, tol=1e-5, method="columns")
    assert some.converged and some.method == "columns"
    assert some.value == pytest.approx(every.value, abs=1e-4)
    assert some.lower <= every.value + 1e-9 and every.lower <= some.value + 1e-9


def test_the_gap_is_closed_where_the_value_falls_too_slowly_to_be_seen():
    psi, y, lambda_ = problem(n=800, d=60, k=4, scale=0.15)
    fit = fit_linear(psi, labels=y, beta=1.4, lambda_=lambda_, tol=1e-5, method="columns")
    assert fit.converged
    fewer_steps = fit_linear(psi, labels=y, beta=1.4, lambda_=lambda_, tol=1e-5, method="lbfgs")
    assert not fewer_steps.converged and fit.lower <= fewer_steps.value


@pytest.mark.parametrize("given", ["labels", "moments"])
@pytest.mark.parametrize("max_iter", [3, 8])
def test_the_lower_bound_is_no_worse_than_that_of_the_coefficients_that_were_found(given, max_iter):
    psi, y, lambda_ = problem(n=60, d=20, scale=0.4)
    weight, anchor = np.full(60, 1 / 60), one_hot(y, 3)
    tau = moments(psi, anchor, weight)
    known = {"labels": y} if given == "labels" else {"tau": tau}
    fit = fit_linear(psi, beta=1.2, lambda_=lambda_, tol=1e-3, max_iter=max_iter, method="columns", **known)
    whole = LinearProblem(psi, tau, lambda_, weight, 1.2)
    _, p = phi_and_p(whole.margins(fit.coef), 1.2)
    assert fit.lower >= DualBound(whole, anchor if given == "labels" else None).update(p)


def test_free_coefficients_and_given_moments():
    psi, y, lambda_ = problem()
    lambda_[:, -1] = 0  # an intercept without penalty
    every = fit_linear(psi, labels=y, beta=2, lambda_=lambda_, tol=1e-5, method="lbfgs")
    tau = moments(psi, one_hot(y, 3), np.full(300, 1 / 300))
    some = fit_linear(psi, labels=y, tau=tau, beta=2, lambda_=lambda_, tol=1e-5, method="columns")
    assert some.value == pytest.approx(every.value, abs=1e-4) and np.abs(some.coef[:, -1]).max() > 0


def test_a_penalty_that_leaves_nothing_in():
    psi, y, _ = problem()
    fit = fit_linear(psi, labels=y, beta=2, lambda_=2.0, method="columns")
    assert fit.value == pytest.approx(2 * (1 - 3**-0.5)) and not fit.coef.any()


def test_the_value_is_that_of_a_cone_solver():
    cp = pytest.importorskip("cvxpy")
    psi, y, lambda_ = problem(n=60, d=12)
    k, n = 3, 60
    # beta = 2: phi is the largest nu with ||((f + nu)/2 + 1)_+||_2 <= 1.
    mu, nu, tau = cp.Variable((k, 13)), cp.Variable(n), moments(psi, one_hot(y, k), np.full(n, 1 / n))
    inner = cp.pos((psi @ mu.T + cp.reshape(nu, (n, 1), order="C") @ np.ones((1, k))) / 2 + 1)
    goal = -cp.sum(cp.multiply(tau, mu)) + cp.sum(cp.multiply(lambda_, cp.abs(mu))) - cp.sum(nu) / n
    value = cp.Problem(cp.Minimize(goal), [cp.norm(inner, 2, axis=1) <= 1]).solve(solver=cp.CLARABEL)
    fit = fit_linear(psi, labels=y, beta=2, lambda_=lambda_, tol=1e-7, method="columns")
    assert fit.value == pytest.approx(value, abs=1e-6)
