"""The solver of linear MGCE against mpmath's golden values, cvxpy, and its own certificate."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mgce._arrays import one_hot
from mgce.linear import solver as solver_module
from mgce.linear.objective import THOROUGH, Patience, phi_and_p
from mgce.risk import EmptyUncertaintySetError, fit_linear

BETAS = [1, 1.05, 1.4, 2, 5, 11]
PROBLEMS = {
    "A": (
        [[-2, 1], [-1, 1], [-0.5, 1], [0.5, 1], [1, 1], [2, 1]],
        [0, 0, 1, 0, 1, 1],
        [0.3, 0.31023149, 0.35354354, 0.39366814, 0.46845088, 0.49695300],
    ),
    "B": (
        [
            [-1, 0, 1], [-0.5, 0.5, 1], [0, 1, 1], [0.5, 0.5, 1], [1, 0, 1],
            [0, -1, 1], [0.5, -0.5, 1], [-0.5, -0.5, 1], [0.25, 0.25, 1],
        ],
        [0, 0, 1, 1, 2, 2, 2, 0, 1],
        [1 / 3, 0.34636438, 0.41041107, 0.46918677, 0.57246737, 0.61993816],
    ),
}  # fmt: skip


METHODS = {1: ["auto", "interior", "lp"], 1.05: ["auto", "interior"]}
GOLDEN = [
    pytest.param(np.array(x, float), y, beta, value, method, id=f"{name}-{beta}-{method}")
    for name, (x, y, values) in PROBLEMS.items()
    for beta, value in zip(BETAS, values, strict=True)
    for method in METHODS.get(beta, ["auto", "interior", "lbfgs"])
]


@pytest.mark.parametrize(("x", "y", "beta", "value", "method"), GOLDEN)
def test_golden(x, y, beta, value, method):
    fit = fit_linear(x, labels=y, beta=beta, lambda_=0.05, tol=1e-7, method=method)
    assert fit.value == pytest.approx(value, abs=2e-7)
    assert fit.lower == pytest.approx(value, abs=2e-7)
    assert fit.converged == (fit.gap <= 1e-7 * beta * (1 - len(set(y)) ** (-1 / beta)))


def cvxpy_value(x, tau, lambda_, beta):
    """The same problem with explicit minimax probabilities, as a program over power cones."""
    cp = pytest.importorskip("cvxpy")
    (n, _), k = x.shape, tau.shape[0]
    mu, nu, v, h = cp.Variable(tau.shape), cp.Variable((n, 1)), cp.Variable((n, k), nonneg=True), cp.Variable((n, k))
    rules = [beta * (v - 1) >= x @ mu.T + nu @ np.ones((1, k)), cp.sum(h, axis=1) <= 1]
    flat_v, flat_h = cp.vec(v, order="C"), cp.vec(h, order="C")
    rules.append(flat_v <= flat_h if beta == 1 else cp.PowCone3D(flat_h, np.ones(n * k), flat_v, [1 / beta] * (n * k)))
    objective = cp.sum(cp.multiply(lambda_, cp.abs(mu))) - cp.sum(cp.multiply(tau, mu)) - cp.sum(nu) / n
    program = cp.Problem(cp.Minimize(objective), rules)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may call a solution to 1e-8 inaccurate
        program.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return program.value


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True])  # fewer features than rows, or more
@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(s, marks=pytest.mark.nightly) for s in range(10, 20))])
def test_agrees_with_cvxpy(seed, wide):
    rng = np.random.default_rng(seed)
    beta = [1.0, 1.02, 1.05, 1.2, 1.4, 2.0, 3.0, 5.0, 8.0, 11.0][seed % 10]
    n, d, k = int(rng.integers(8, 60)), int(rng.integers(1, 5)), int(rng.integers(2, 6))
    if wide:
        n, d = n // 3 + 6, 40 * d
    x = np.hstack([rng.normal(size=(n, d)), np.ones((n, 1))])
    y = np.where(x[:, 0] > 0, 0, rng.integers(0, k, n))
    tau = one_hot(y, k).T @ x / n
    lambda_ = np.full(tau.shape, rng.choice([0.01, 0.03, 0.1]))
    fit = fit_linear(x, labels=y, tau=tau, beta=beta, lambda_=lambda_, tol=1e-7)
    reference = cvxpy_value(x, tau, lambda_, beta)
    assert fit.value == pytest.approx(reference, abs=1e-6)
    assert fit.lower == pytest.approx(reference, abs=1e-6)


@given(
    seed=st.integers(0, 2**31),
    beta=st.sampled_from([1, 1.001, 1.05, 1.3, 1.4, 2, 3, 8, 50, 1e4, math.inf]),
    lambda_=st.sampled_from([0.001, 0.02, 0.3]),
    free=st.booleans(),
    method=st.sampled_from(["auto", "interior", "lbfgs"]),
)
@settings(max_examples=60, deadline=None)
def test_sandwich(seed, beta, lambda_, free, method):
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers(2, 30), rng.integers(1, 5), rng.integers(2, 6)
    x = np.hstack([rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1), np.ones((n, 1))])
    y = rng.integers(0, k, n)
    penalty = np.full((k, d + 1), lambda_)
    penalty[:, -1] *= not free
    fit = fit_linear(x, labels=y, n_classes=k, beta=beta, lambda_=penalty, method=method, max_iter=100)
    trivial = math.log(k) if math.isinf(beta) else beta * (1 - k ** (-1 / beta))
    assert -1e-9 <= fit.lower <= fit.value + 1e-9 <= trivial + 2e-9
    # The value is what the coefficients attain, and no other coefficients are below the lower bound.
    for coef in (fit.coef, fit.coef + 0.1 * rng.normal(size=fit.coef.shape)):
        f = x @ coef.T
        loss = -f[np.arange(n), y] - phi_and_p(f, float(beta))[0]
        value = loss.mean() + (penalty * np.abs(coef)).sum()
        assert value >= fit.lower - 1e-9
        if coef is fit.coef:
            assert value == pytest.approx(fit.value, abs=1e-10)


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    x = rng.normal(size=(120, 4)) + np.eye(3, 4)[y] * 1.5
    return np.hstack([x, np.ones((120, 1))]), y


@pytest.mark.parametrize("beta", [1, 1.1, 1.4, 3, 11, 1000, math.inf])
@pytest.mark.parametrize("free_intercept", [False, True])
def test_gap_closes(blobs, beta, free_intercept):
    x, y = blobs
    lambda_ = np.full((3, 5), 0.02)
    lambda_[:, -1] *= not free_intercept
    fit = fit_linear(x, labels=y, beta=beta, lambda_=lambda_)
    assert fit.converged
    if beta >= 2:
        first_order = fit_linear(x, labels=y, beta=beta, lambda_=lambda_, method="lbfgs")
        assert first_order.value == pytest.approx(fit.value, abs=2e-6)
        assert first_order.gap < 1e-4


def test_l1_gives_zeros_at_a_vertex_and_optimality(blobs):
    x, y = blobs
    fit = fit_linear(x, labels=y, beta=2, lambda_=0.05, method="lbfgs")
    _, p = phi_and_p(x @ fit.coef.T, 2.0)
    residual = (p - one_hot(y, 3)).T @ x / 120
    assert (fit.coef == 0).any()
    np.testing.assert_allclose(residual[fit.coef != 0], -0.05 * np.sign(fit.coef[fit.coef != 0]), atol=1e-4)
    assert np.abs(residual).max() <= 0.05 + 1e-4


@pytest.mark.parametrize("method", ["auto", "lbfgs"])
def test_sparse_weights_and_warm_start(blobs, method):
    x, y = blobs
    x = np.where(np.abs(x) < 0.5, 0, x)
    options = dict(beta=2, lambda_=0.02, method=method)
    dense = fit_linear(x, labels=y, **options)
    assert fit_linear(csr_array(x), labels=y, **options).value == pytest.approx(dense.value, abs=2e-6)
    assert fit_linear(x, labels=y, mu0=dense.coef, **options).value <= dense.value + 2e-6
    times = np.random.default_rng(1).integers(0, 3, y.size)
    repeated = fit_linear(np.repeat(x, times, 0), labels=np.repeat(y, times), n_classes=3, **options)
    weighted = fit_linear(x, labels=y, sample_weight=times, **options)
    assert weighted.value == pytest.approx(repeated.value, abs=4e-6)


def test_warm_start_saves_iterations(blobs):
    x, y = blobs
    cold = fit_linear(x, labels=y, beta=2, lambda_=0.02, method="lbfgs")
    warm = fit_linear(x, labels=y, beta=2, lambda_=0.02, method="lbfgs", mu0=cold.coef)
    assert warm.n_iter < cold.n_iter


def test_link_is_used(blobs):
    x, y = blobs
    calls = []

    def link(margins, beta):
        calls.append(margins.shape)
        return phi_and_p(margins, beta)

    fit_linear(x, labels=y, beta=2, lambda_=0.02, method="lbfgs", link=link)
    assert len(calls) > 3
    assert set(calls) == {(120, 3)}


def test_what_is_not_affordable_goes_to_lbfgs(blobs, monkeypatch):
    x, y = blobs
    exact = fit_linear(x, labels=y, beta=1, lambda_=0.02)
    assert exact.method == "lp"
    monkeypatch.setattr(solver_module, "THOROUGH", replace(THOROUGH, program_entries=0))
    assert fit_linear(x, labels=y, beta=1, lambda_=0.02).value == pytest.approx(exact.value, abs=2e-6)
    monkeypatch.setattr(solver_module, "THOROUGH", Patience(interior_work=0, program_entries=0))
    near = fit_linear(x, labels=y, beta=1, lambda_=0.02)
    assert near.method == "lbfgs"
    assert exact.value - 1e-9 <= near.value <= exact.value + 0.02
    assert near.lower <= exact.value


@pytest.mark.parametrize(
    ("method", "beta"), [(m, b) for m in solver_module.METHODS for b in (1, 2) if b == 1 or m != "lp"]
)
@pytest.mark.parametrize("labelled", [False, True])
def test_an_empty_set_is_named_by_every_method(blobs, method, beta, labelled):
    x, y = blobs
    tau = one_hot(y, 3).T @ x / 120
    tau[0] += 5.0
    with pytest.raises(EmptyUncertaintySetError, match="enlarge lambda"):
        fit_linear(x, tau=tau, labels=y if labelled else None, beta=beta, lambda_=0.01, method=method)


def test_a_linear_program_without_a_solution_leaves_the_value_at_zero(blobs, monkeypatch):
    x, y = blobs
    monkeypatch.setattr(solver_module, "solve_linear_program", lambda problem: None)
    fit = fit_linear(x, labels=y, beta=1, lambda_=0.02, method="lp")
    assert fit.value == pytest.approx(1 - 1 / 3) and not fit.converged


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        (dict(beta=0.5), ValueError, r"Expected `beta` to be a float in \[1, inf\], but got 0.5."),
        (dict(beta="2"), TypeError, "Expected `beta`"),
        (dict(method="newton"), ValueError, "Expected `method` to be one of 'auto', 'lbfgs'"),
        (dict(method="lp"), ValueError, "Expected `beta` to be 1 for method 'lp', but got 2."),
        (dict(lambda_=-0.1), ValueError, "Expected `lambda_` to be not negative, but got -0.1."),
        (dict(labels=[0, 1, 5], n_classes=3), ValueError, "Expected `labels` to be integers from 0 to 2"),
        (dict(labels=[0, 1, 0.5]), ValueError, "Expected `labels` to be integers from 0"),
        (dict(labels=[0, 1]), ValueError, r"Expected `labels` to be of shape \(3,\)"),
        (dict(labels=None), ValueError, "Expected `labels` to be given where `tau` is not"),
        (dict(tau=np.ones((2, 3))), ValueError, r"Expected `tau` to be of shape \(k, 1\)"),
        (dict(sample_weight=[0, 0, 0]), ValueError, "Expected `sample_weight` to be 3 numbers"),
        (dict(features=[1, 2, 3]), ValueError, "Expected `features` to be of shape"),
        (dict(features=[[1], [2], [math.nan]]), ValueError, "Expected `features` to be free of NaN"),
    ],
)
def test_errors(options, error, sentence):
    options = {"features": np.ones((3, 1)), "labels": [0, 1, 1], "beta": 2, "lambda_": 0.1, **options}
    with pytest.raises(error, match=sentence):
        fit_linear(options.pop("features"), **options)
