"""The bound from a certified set and unlabelled examples."""

import numpy as np
import pytest

from mgce.linear.objective import phi_and_p
from mgce.risk import UncertaintySet, argmax_factor, linear_risk_bound, minimax_risk
from mgce.risk.minimax import _range_of_minus_phi


@pytest.fixture(scope="module")
def setting():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (4000, 2))
    y = (x[:, 0] + 0.1 * rng.normal(size=4000) > 0).astype(int)
    u = UncertaintySet.from_samples(x, y, n_classes=2, feature_range=(-1, 1), delta=0.02, bound="betting")
    return x, u, rng.uniform(-1, 1, (3000, 2))


@pytest.mark.parametrize("beta", [1.0, 1.4, 5.0])
def test_value(setting, beta):
    x, u, fresh = setting
    v = minimax_risk(x, u, beta=beta)
    c = linear_risk_bound(v.coef, u, fresh, beta=beta, delta=0.03)
    # Above V by what is not known of the marginal, and little more.
    assert v.value < c.alpha_risk + 0.02
    assert c.alpha_risk < v.value + 0.1
    assert c.randomized_error == c.alpha_risk
    assert c.argmax_error == pytest.approx(min(1, argmax_factor(beta) * c.alpha_risk))
    assert c.delta == pytest.approx(0.05)
    assert (c.n, c.n_classes, c.beta) == (3000, 2, beta)
    assert "without looking at them" in str(c)


@pytest.mark.parametrize("beta", [1.0, 1.4, 5.0, np.inf])
def test_range_of_phi(beta):
    rng = np.random.default_rng(1)
    for _ in range(20):
        mu = rng.normal(size=(3, 4)) * 3
        low, high = np.sort(rng.normal(size=(2, 4)), axis=0)
        x = np.vstack([rng.uniform(low, high, (500, 4)), np.where(rng.random((500, 4)) < 0.5, low, high)])
        least, most = _range_of_minus_phi(mu, (low, high), beta)
        phi = phi_and_p(x @ mu.T, beta)[0]
        assert least <= -phi.max()
        assert -phi.min() <= most


def test_errors(setting):
    x, u, fresh = setting
    heuristic = UncertaintySet.heuristic(x, np.arange(4000) % 2, lambda_0=0.3)
    with pytest.raises(ValueError, match="Expected `uncertainty` to be certified, but got 'a heuristic set'"):
        linear_risk_bound(np.zeros((2, 3)), heuristic, fresh, beta=1.4)
    with pytest.raises(ValueError, match=r"Expected `coef` to be of shape \(2, 3\)"):
        linear_risk_bound(np.zeros((3, 3)), u, fresh, beta=1.4)
    with pytest.raises(ValueError, match="Expected `sample` to be within"):
        linear_risk_bound([[9.0, 9, 0], [-9, -9, 0]], u, 10 * fresh, beta=1.4)
