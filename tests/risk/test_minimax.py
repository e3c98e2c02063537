"""The minimax risk of sets: duality, monotonicity, and the sets' ways in."""

import math

import numpy as np
import pytest
import torch

from mgce._arrays import one_hot, with_intercept
from mgce.risk import UncertaintySet, fit_linear, minimax_risk

N = 4000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    return np.clip(rng.normal(size=(N, 2)) + 2 * np.eye(3, 2)[y], -3, 5), y


def make_set(data, **options):
    return UncertaintySet.from_samples(*data, n_classes=3, feature_range=(-3, 5), **options)


@pytest.mark.parametrize("beta", [1, 1.05, 1.4, 2, 11, math.inf])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("bound", ["bernstein", "betting"])
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
    fit = fit_linear(with_intercept(x), labels=y, beta=1.4, l1=0.01)
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
