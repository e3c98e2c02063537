import numpy as np
import pytest
import torch
from scipy.stats import binom, truncnorm

from mgce.noise import corrupt_by_features
from mgce.noise.corruption import _rates


def make(seed=0, n=6000, rate=0.3, k=4):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(k, (n,), generator=generator)
    features = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    return labels, features, *corrupt_by_features(labels, features, k, rate, generator)


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.4, 0.97, 1.0])
def test_the_mean_rate_is_the_rate(rate):
    labels, _, noisy, flipped = make(rate=rate)
    assert (flipped == (noisy != labels)).all()
    low, high = binom.ppf([1e-6, 1 - 1e-6], len(labels), rate)
    assert low <= flipped.sum() <= high


def test_rates_are_a_truncated_normal():
    drawn = _rates(20000, 0.2, torch.Generator().manual_seed(0)).numpy()
    want = truncnorm(-2, 2, loc=0.2, scale=0.1)
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(drawn, share) == pytest.approx(want.ppf(share), abs=0.004)
    assert drawn.min() >= 0 and drawn.max() <= 0.4


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.8])
def test_each_row_changes_at_its_own_rate(rate):
    """The first draws of the generator are the rates, by their quantile function; the next say which rows change."""
    n, half, generator = 4000, min(rate, 1 - rate), torch.Generator().manual_seed(0)
    first, second = (torch.rand(n, generator=generator, dtype=torch.float64).numpy() for _ in range(2))
    rates = truncnorm(-half / 0.1, half / 0.1, loc=rate, scale=0.1).ppf(first)
    assert rates.std() > 0.02
    _, flipped = corrupt_by_features(
        torch.zeros(n, dtype=torch.int64), torch.ones(n, 1), 3, rate, torch.Generator().manual_seed(0)
    )
    np.testing.assert_array_equal(flipped.numpy(), second >= 1 - rates)  # class 0 is the first to be drawn


def test_the_wrong_class_depends_on_the_features():
    """Two groups of rows of one class: each is mistaken for classes in its own proportions, unlike class noise."""
    generator = torch.Generator().manual_seed(0)
    features = torch.tensor([[3.0, 0.0], [0.0, 3.0]]).repeat_interleave(2000, 0)
    noisy, flipped = corrupt_by_features(torch.zeros(4000, dtype=torch.int64), features, 3, 0.4, generator)
    shares = [float((noisy[rows][flipped[rows]] == 1).double().mean()) for rows in (slice(2000), slice(2000, None))]
    assert abs(shares[0] - shares[1]) > 0.2


def test_reproducible_and_untouched():
    state = torch.get_rng_state()
    first, second = make(3), make(3)
    assert (first[2] == second[2]).all() and not (first[2] == make(4)[2]).all()
    assert (torch.get_rng_state() == state).all()


@pytest.mark.parametrize(
    "change, match",
    [
        ({"labels": torch.zeros(3)}, "labels"),
        ({"labels": torch.zeros(3, dtype=torch.int32)}, "`labels` to be a tensor of dtype torch.int64"),
        ({"features": torch.zeros(2, 2)}, "features"),
        ({"features": torch.full((3, 2), torch.nan)}, "finite"),
        ({"noise_rate": 1.5}, "noise_rate"),
        ({"n_classes": 1}, "n_classes"),
        ({"generator": None}, "generator"),
    ],
)
def test_bad_input(change, match):
    arguments = {
        "labels": torch.zeros(3, dtype=torch.int64),
        "features": torch.zeros(3, 2),
        "n_classes": 3,
        "noise_rate": 0.1,
        "generator": torch.Generator(),
    }
    with pytest.raises((ValueError, TypeError), match=match):
        corrupt_by_features(**{**arguments, **change})
