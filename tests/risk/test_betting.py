"""The gambler's random orders and verdicts, against the bound, counts and permutations."""

import math

import numpy as np
import pytest
from scipy import stats

from mgce.risk import betting_intervals, betting_upper
from mgce.risk.betting import CELLS, ORDERS, PROBABLE, betting_refutes, cells, n_orders, shuffled

RNG = np.random.default_rng(0)
DRAWS = RNG.beta(2, 5, (6, 80))


@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_a_mean_is_refuted_from_the_bound_on(delta):
    bounds = [betting_upper(row, delta) for row in DRAWS]
    for step, refuted in ((-1e-9, False), (1e-9, True)):
        assert [bool(betting_refutes(row[None], u + step, delta)[0]) for row, u in zip(DRAWS, bounds, strict=True)] == [
            refuted
        ] * 6
    assert betting_refutes(DRAWS, np.median(bounds), delta).tolist() == [u <= np.median(bounds) for u in bounds]


def test_an_interval_is_two_bounds_however_many_columns_are_worked_on_at_once(monkeypatch):
    low, high = betting_intervals(DRAWS.T, 0.05)
    np.testing.assert_allclose(high, [betting_upper(row, 0.05) for row in DRAWS], atol=2**-23)
    np.testing.assert_allclose(low, [1 - betting_upper(1 - row, 0.05) for row in DRAWS], atol=2**-23)
    monkeypatch.setattr("mgce.risk.betting.BLOCK", 160)
    for part, whole in zip(betting_intervals(DRAWS.T, 0.05), (low, high), strict=True):
        np.testing.assert_array_equal(part, whole)
    with pytest.raises(ValueError, match=r"Expected `columns` to be draws in \[0, 1\]"):
        betting_intervals(DRAWS.T * 9, 0.05)


def test_a_random_order_depends_on_the_values_alone_and_is_another_for_each_sample():
    once = shuffled(DRAWS)
    np.testing.assert_array_equal(np.sort(once), np.sort(DRAWS))
    np.testing.assert_array_equal(shuffled(RNG.permuted(DRAWS, axis=1)), once)
    others = [shuffled(DRAWS, b"rest"), shuffled(DRAWS, turn=1), shuffled(DRAWS, turn=2), shuffled(DRAWS[:5])]
    for other in others:
        assert (other != once[: len(other)]).mean() > 0.9
    ranks = [np.argsort(np.argsort(row)).tolist() for row in once]
    assert len(set(map(tuple, ranks))) == 6  # each row by itself


def test_the_number_of_orders_is_by_the_probability_of_the_sample():
    for counts in ([50, 50], [3, 97], [5] * 20, [1] * 40, [40, 1], [400, 300, 300]):
        kinds = np.repeat(np.arange(len(counts)), counts)[:, None]
        probable = stats.multinomial.pmf(counts, sum(counts), np.array(counts) / sum(counts))
        for delta in (0.001, 0.05, 0.5):
            assert n_orders(kinds, delta) == (ORDERS if probable > PROBABLE * delta else 1)


def test_cells_are_shares_of_a_range_of_more_than_rounding():
    values = np.array([[0.0, 0.25, 1.0], [5.0, 3.0, 4.0], [7.0, 7.0, 7.0], [-1e-9, 0.0, 1e-9]])
    want = [[0, round(CELLS / 4), round(CELLS)], [round(CELLS), 0, round(CELLS / 2)], [0, 0, 0]]
    assert cells(values).tolist() == [*want, [0, round(CELLS / 2), round(CELLS)]]
    for scale in (1.0, -1.0, 1e-20, 1e20):
        for eps in (2.0**-52, 2.0**-23):
            assert not cells(scale * (1 + eps * RNG.integers(-2, 3, 50))).any()
    assert math.isclose(CELLS, 31.4159, abs_tol=1e-4)
