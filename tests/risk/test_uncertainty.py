"""Uncertainty sets against their equations, coordinate by coordinate."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from mgce.risk import UncertaintySet, betting_upper
from mgce.risk.betting import shuffled

K, N = 3, 150


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 2, (N, 2)), rng.integers(0, K, N)


def coordinates(x, y):
    """Phi(x, y) = e_y (x) (x, 1) as rows of k (d + 1) numbers, as a loop."""
    rows = np.zeros((len(y), K, 3))
    for i, label in enumerate(y):
        rows[i, label, :2], rows[i, label, 2] = x[i], 1
    return rows


def make(data, **options):
    return UncertaintySet.from_samples(*data, **{"n_classes": K, "feature_range": ([-1, -1], [2, 2]), **options})


def test_hoeffding(data):
    u = make(data, bound="hoeffding", delta=0.1)
    np.testing.assert_allclose(u.tau, coordinates(*data).mean(0), atol=1e-14)
    unit = math.sqrt(math.log(2 * 9 / 0.1) / (2 * N))
    np.testing.assert_allclose(u.lambda_, np.tile([3 * unit, 3 * unit, unit], (K, 1)), rtol=1e-14)
    assert (u.certified, u.delta, u.n, u.bound) == (True, 0.1, N, "hoeffding")


def test_bernstein(data):
    u = make(data, bound="bernstein", delta=0.1)
    s, log = coordinates(*data).std(0, ddof=1), math.log(4 * 9 / 0.1)
    width = np.array([3, 3, 1])
    np.testing.assert_allclose(u.lambda_, s * math.sqrt(2 * log / N) + 7 * width * log / (3 * (N - 1)), rtol=1e-12)
    np.testing.assert_allclose(u.tau, coordinates(*data).mean(0), atol=1e-14)


def test_betting(data):
    u = make(data, bound="betting", delta=0.1)
    z = shuffled(((coordinates(*data)[:, 1] - [-1, -1, 0]) / [3, 3, 1]).T)[0] * 3 - 1
    side = 0.1 / (2 * 9)
    upper = betting_upper(z, side, limits=(-1, 2))
    lower = -betting_upper(-z, side, limits=(-2, 1))
    assert u.tau[1, 0] + u.lambda_[1, 0] == pytest.approx(upper, abs=1e-6)
    assert u.tau[1, 0] - u.lambda_[1, 0] == pytest.approx(lower, abs=1e-6)
    assert (np.abs(u.tau - coordinates(*data).mean(0)) <= u.lambda_).all()
    assert u.lambda_.mean() < make(data, bound="bernstein", delta=0.1).lambda_.mean()


def test_sorted_samples_give_the_same_kind_of_betting_set(data):
    x, y = data
    order = np.argsort(y)
    shuffled, ordered = make(data, bound="betting"), make((x[order], y[order]), bound="betting")
    np.testing.assert_allclose(ordered.lambda_, shuffled.lambda_, rtol=0.2)


@pytest.mark.parametrize("bound", ["bernstein", "hoeffding", "betting"])
def test_inputs_may_be_sparse_or_tensors(data, bound):
    x, y = data
    x = np.where(x < 0.5, 0, x)
    dense = make((x, y), bound=bound)
    for other in (make((csr_array(x), y), bound=bound), make((torch.tensor(x), torch.tensor(y)), bound=bound)):
        np.testing.assert_allclose(other.tau, dense.tau, atol=1e-14)
        np.testing.assert_allclose(other.lambda_, dense.lambda_, atol=1e-14)


def test_intercept_is_optional(data):
    with_one, without = make(data, bound="bernstein"), make(data, bound="bernstein", intercept=False)
    assert (with_one.tau.shape, without.tau.shape) == ((K, 3), (K, 2))
    np.testing.assert_array_equal(with_one.tau[:, :2], without.tau)


def test_heuristic_is_never_certified(data):
    u = UncertaintySet.heuristic(*data, lambda_0=0.3)
    np.testing.assert_allclose(u.lambda_, 0.3 * coordinates(*data).std(0, ddof=1), rtol=1e-10)
    assert not u.certified
    assert u.delta is None
    assert u.feature_range is None
    with pytest.raises(AttributeError):
        u.certified = True
    with pytest.raises(dataclasses.FrozenInstanceError):
        u.bound = "hoeffding"
    for change in (dict(bound="hoeffding"), dict(delta=0.05)):
        with pytest.raises(ValueError, match="Expected `delta` to be None for a heuristic set"):
            dataclasses.replace(u, **change)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(feature_range=(-1, 1)), r"Expected `features` to be within `feature_range`.*in column 0'.* clip the"),
        (dict(feature_range=(3, -3)), "Expected `feature_range` to be a pair of lower and upper bounds"),
        (dict(bound="gauss"), "Expected `bound` to be one of 'betting', 'bernstein', 'hoeffding'"),
        (dict(bound="heuristic"), "Expected `bound` to be one of 'betting', 'bernstein', 'hoeffding'"),
        (dict(delta=0), r"Expected `delta` to be in \(0, 1\), but got 0."),
        (dict(n_classes=2), "Expected `labels` to be integers from 0 to 1"),
    ],
)
def test_errors(data, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(data, **options)


def test_heuristic_errors(data):
    with pytest.raises(ValueError, match="Expected `lambda_0` to be a number in"):
        UncertaintySet.heuristic(*data, lambda_0=-1)
    with pytest.raises(ValueError, match="Expected `labels` to be at least 2 samples, but got 1."):
        UncertaintySet.heuristic([[1.0]], [0])
