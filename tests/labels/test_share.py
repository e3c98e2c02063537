"""The bound on the share of wrong labels: against scipy, and in worlds whose right labels are known."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from mgce.labels import noise_share


def test_the_bound_is_that_of_clopper_and_pearson():
    given = np.repeat([0, 1], 50)
    found = noise_share(given, np.eye(2)[np.repeat([0, 1], [60, 40])], delta=0.1)
    assert found.upper == pytest.approx(binomtest(10, 100).proportion_ci(0.8).high)
    assert (found.disagreement, found.n, found.delta) == (0.1, 100, 0.1)
    assert noise_share(given, np.eye(2)[1 - given]).upper == 1


@pytest.mark.parametrize("overlap", [0.0, 0.3])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_the_bound_holds_whether_or_not_classes_overlap(overlap, rate):
    """The model knows the better class of each row, and labels are drawn before some are made wrong."""
    rng, false, draws = np.random.default_rng(0), 0, 200
    for _ in range(draws):
        likely = rng.integers(0, 3, 300)
        right = np.where(rng.random(300) < overlap, rng.integers(0, 3, 300), likely)
        given = np.where(rng.random(300) < rate, (right + rng.integers(1, 3, 300)) % 3, right)
        false += noise_share(given, np.eye(3)[likely]).upper < (given != right).mean()
    assert false <= binom.ppf(0.999, draws, 0.05)


def test_the_order_of_rows_does_not_matter_and_more_rows_narrow_it():
    rng = np.random.default_rng(0)
    given, probs = rng.integers(0, 2, 400), rng.dirichlet([1, 1], 400)
    order = rng.permutation(400)
    once, often = noise_share(given, probs), noise_share(np.tile(given, 9), np.tile(probs, (9, 1)))
    assert once == noise_share(given[order], probs[order])
    assert often.disagreement == once.disagreement < often.upper < once.upper


def test_errors():
    with pytest.raises(ValueError, match="Expected `delta` to be in"):
        noise_share([0, 1], [[0.5, 0.5]] * 2, delta=0)
    with pytest.raises(ValueError, match="Expected `probs` to be of shape"):
        noise_share([0], [[1.0]])
    with pytest.raises(ValueError, match="Expected `target`"):
        noise_share([0], [[0.5, 0.5]] * 2)
