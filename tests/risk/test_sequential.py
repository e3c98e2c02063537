"""Looking after every draw, and drift."""

import numpy as np
import pytest
from scipy import stats

from mgce.risk import betting_upper_sequence, clopper_pearson_upper, drift_upper_sequence
from mgce.risk.betting import MOST_OF_WEALTH

DELTA = 0.1


def test_looking_after_every_draw_misses_no_more_than_delta_and_a_fixed_bound_does():
    rng, repetitions, misses, fixed = np.random.default_rng(0), 60, 0, 0
    for _ in range(repetitions):
        z = (rng.random(400) < 0.2).astype(float)
        misses += (betting_upper_sequence(z, DELTA) < 0.2).any()
        counts = z.cumsum().astype(int)
        fixed += any(clopper_pearson_upper(int(counts[t - 1]), t, DELTA) < 0.2 for t in range(20, 401, 20))
    assert misses <= stats.binom.ppf(0.999, repetitions, DELTA)
    assert fixed > 0.15 * repetitions  # a bound for one look is wrong at one of many


def test_the_sequence_is_that_of_its_definition_and_never_rises():
    rng = np.random.default_rng(0)
    z, goal = rng.beta(1, 4, 5000), -np.log(DELTA)  # more than a chunk
    sequence = betting_upper_sequence(z, DELTA)
    assert (np.diff(sequence) <= 0).all()
    # Anew, draw by draw, at some candidates.
    grid = np.array([0.2, 0.21, 0.22, 0.25, 0.3, 0.5, 0.8])
    wealth, refuted, total, square = np.zeros(grid.size), np.zeros(grid.size, dtype=bool), 0.5, 0.25
    for j, draw in enumerate(z):
        stake = np.sqrt(2 * goal / (square / (j + 1) * (j + 1) * np.log(j + 2)))
        wealth += np.log1p(np.minimum(stake, MOST_OF_WEALTH / (1 - grid)) * (grid - draw))
        refuted |= wealth >= goal
        np.testing.assert_array_equal(refuted, sequence[j] <= grid + 1e-12)
        total += draw
        square += (draw - total / (j + 2)) ** 2
    assert refuted.any() and not refuted.all()


def test_bounds_of_any_range():
    z = np.random.default_rng(0).random(500)
    np.testing.assert_allclose(betting_upper_sequence(3 * z - 1, limits=(-1, 2)), 3 * betting_upper_sequence(z) - 1)
    np.testing.assert_allclose(drift_upper_sequence(3 * z - 1, limits=(-1, 2)), 3 * drift_upper_sequence(z) - 1)


def test_drift_is_bounded_on_average_and_by_betting_only_at_its_least():
    rng, repetitions, average, least, wrong = np.random.default_rng(0), 60, 0, 0, 0
    means = np.linspace(0.05, 0.6, 600)
    running = means.cumsum() / np.arange(1, 601)
    for _ in range(repetitions):
        z = rng.random(600) < means
        average += (drift_upper_sequence(z, DELTA) < running).any()
        betting = betting_upper_sequence(z, DELTA)
        least += (betting < 0.05).any()
        wrong += betting[-1] < running[-1]
    assert average <= stats.binom.ppf(0.999, repetitions, DELTA)
    assert least <= stats.binom.ppf(0.999, repetitions, DELTA)
    assert wrong > repetitions / 2  # it is no bound on the average


@pytest.mark.parametrize("bound", [betting_upper_sequence, drift_upper_sequence])
def test_errors(bound):
    with pytest.raises(ValueError, match=r"Expected `sample` to be within \[0, 1\]"):
        bound([0.5, 2.0])
    with pytest.raises(ValueError, match="Expected `delta`"):
        bound([0.5], 0)
