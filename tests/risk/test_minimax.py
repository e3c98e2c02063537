"""The minimax risk of sets: duality, monotonicity, and the sets' ways in."""

import math

import numpy as np
import pytest
import torch

from grids import grid
from mgce._arrays import one_hot, with_intercept
from mgce.functional import minimax_probs
from mgce.risk import UncertaintySet, fit_linear, minimax_risk

N = 4000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    return np.clip(rng.normal(size=(N, 2)) + 2 * np.eye(3, 2)[y], -3, 5), y


def make_set(data, **options):
    return UncertaintySet.from_samples(*data, n_classes=3, feature_range=(-3, 5), **options)


@pytest.mark.slow
@grid(
    "beta, labelled, bound",
    [1, 1.05, 1.4, 2, 11, math.inf],
    [False, True],
    ["bernstein", "betting"],
    keep=lambda beta, labelled, bound: (
        labelled == (beta in (1, 1.4, 11)) and (bound == "betting") == (beta in (1.05, 1.4, math.inf))
    ),
)
def test_gap_closes_with_and_without_labels(data, beta, labelled, bound):
    x, y = data
    v = minimax_risk(x, make_set(data, bound=bound), beta=beta, labels=y if labelled else None)
    assert v.converged
    assert 0 <= v.lower <= v.value + 1e-9
    assert v.gap < 2e-6
    assert v.coef.shape == (3, 3)


def test_value_lies_between_the_risk_at_the_set_and_that_of_no_information(data):
    x, y = data
    values = [minimax_risk(x, make_set(data, bound=b), beta=1.4).value for b in ("betting", "bernstein", "hoeffding")]
    trivial = 1.4 * (1 - 3 ** (-1 / 1.4))
    tight = minimax_risk(x, UncertaintySet.heuristic(x, y, lambda_0=1e-3), beta=1.4).value
    assert 0 < tight < values[0] < values[1] < values[2] <= trivial + 1e-9


BETAS = [1, 1.05, 1.4, 2, 5, math.inf]


def world(rng, dimensions):
    """Return 30 equally likely atoms: features in [-1, 1], and the true probabilities of 3 classes."""
    return rng.uniform(-1, 1, (30, dimensions)), rng.dirichlet(np.full(3, 0.3), 30)


def true_risks(x, truth, coef, beta):
    """Return the alpha-risk of h and the error of a class drawn from h, in a world."""
    h = minimax_probs(torch.from_numpy(with_intercept(x) @ coef.T), beta=beta).numpy()
    losses = -np.log(h) if math.isinf(beta) else beta * (1 - h ** (1 / beta))
    return (truth * losses).sum(1).mean(), (truth * (1 - h)).sum(1).mean()


def test_remark_1():
    """Where the true distribution is in the set, V bounds the error, and more closely for smaller beta."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, truth = world(rng, 3)
        moments = truth.T @ with_intercept(x) / len(x)
        widths = np.full(moments.shape, 0.05)
        u = (moments + rng.uniform(-1, 1, moments.shape) * widths, widths)
        values, slack = [], []
        for beta in BETAS:
            v = minimax_risk(with_intercept(x), u, beta=beta, tol=1e-7)
            alpha_risk, error = true_risks(x, truth, v.coef, beta)
            assert error <= alpha_risk + 1e-12 and alpha_risk <= v.value + 1e-6
            values.append(v.value)
            slack.append(v.value - error)
        assert np.diff(values).min() > 0 and np.diff(slack).min() > 0


def test_v_at_the_papers_lambda_0():
    """At 1e-5, as in its experiments, V is below the risk; at its formula for a confidence, V says nothing.

    At beta = 1 the alpha-risk is the error.
    """
    rng, alpha_misses, error_misses = np.random.default_rng(0), {1: 0, 1.4: 0}, {1: 0, 1.4: 0}
    for _ in range(40):
        x, truth = world(rng, 6)
        atoms = rng.integers(0, len(x), 100)
        labels = (truth[atoms].cumsum(1) < rng.random((100, 1))).sum(1)
        u = UncertaintySet.heuristic(x[atoms], labels, n_classes=3, lambda_0=1e-5)
        for beta in alpha_misses:
            v = minimax_risk(x[atoms], u, beta=beta, labels=labels, tol=1e-5)
            alpha_risk, error = true_risks(x, truth, v.coef, beta)
            alpha_misses[beta] += alpha_risk > v.value
            error_misses[beta] += error > v.value
    for beta in alpha_misses:  # the last sample
        u = UncertaintySet.heuristic(x[atoms], labels, n_classes=3, lambda_0=math.sqrt(math.log(2 * 3 * 7 / 0.05) / 2))
        assert minimax_risk(x[atoms], u, beta=beta).value == pytest.approx(beta * (1 - 3 ** (-1 / beta)), abs=1e-6)
    assert min(alpha_misses.values()) >= 30
    assert error_misses[1] >= 30 > 15 > error_misses[1.4]


def test_pair_is_the_set_without_its_name(data):
    x, _ = data
    u = make_set(data)
    pair = minimax_risk(with_intercept(x), (u.tau, u.lambda_), beta=2)
    named = minimax_risk(torch.tensor(x), u, beta=2)
    assert pair.value == named.value
    np.testing.assert_array_equal(pair.coef, named.coef)


def test_worst_case_cannot_be_beaten_inside_the_set(data):
    # Weak duality from first principles: any distribution in the set has an entropy of at most V.
    x, y = data
    u = make_set(data)
    v = minimax_risk(x, u, beta=2)
    psi, target = with_intercept(x), one_hot(y, 3)
    for share in np.linspace(0, 1, 21):
        p = (1 - share) * target + share / 3
        if (np.abs(p.T @ psi / N - u.tau) <= u.lambda_).all():
            assert (2 * (1 - np.linalg.norm(p, axis=1))).mean() <= v.value + 1e-9


def test_same_as_the_solver_with_labels(data):
    x, y = data
    fit = fit_linear(with_intercept(x), labels=y, beta=1.4, lambda_=0.01)
    tau = one_hot(y, 3).T @ with_intercept(x) / N
    v = minimax_risk(with_intercept(x), (tau, np.full((3, 3), 0.01)), beta=1.4)
    assert v.value == pytest.approx(fit.value, abs=2e-6)


def test_errors(data):
    x, y = data
    u = make_set(data)
    with pytest.raises(ValueError, match=r"Expected `uncertainty` to be of shapes \(k, 4\)"):
        minimax_risk(np.hstack([x, x[:, :1]]), u, beta=2)
    with pytest.raises(ValueError, match="enlarge lambda"):
        minimax_risk(x, (np.full((3, 2), 9.0), np.full((3, 2), 0.1)), beta=2)
    with pytest.raises(ValueError, match="Expected `beta`"):
        minimax_risk(x, u, beta=0, labels=y)
