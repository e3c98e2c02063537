"""Concentration bounds against their defining equations, written a second time or taken from scipy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mgce.risk import (
    betting_intervals,
    betting_upper,
    clopper_pearson_upper,
    hoeffding_bentkus_upper,
    hoeffding_radius,
    hoeffding_upper,
    maurer_pontil_radius,
    maurer_pontil_upper,
)

SAMPLE = [0, 0.1, 0.2, 0.05, 0.9, 0, 0.3, 0.02, 0, 0.6]
UPPER = [hoeffding_upper, hoeffding_bentkus_upper, maurer_pontil_upper, betting_upper]
samples = st.lists(st.floats(0, 1), min_size=2, max_size=40)


def capital(z, m, delta):
    """The largest log-capital of the gambler against the mean m, as a plain loop."""
    n, total, squares, mean_before, log, best = len(z), 0.0, 0.0, None, 0.0, -math.inf
    variance = 0.25
    for i, value in enumerate(z, start=1):
        bet = math.sqrt(2 * math.log(1 / delta) / (n * variance))
        if m < 1:
            bet = min(bet, 0.75 / (1 - m))
        log += math.log1p(bet * (m - value))
        best = max(best, log)
        total += value
        mean_before = (0.5 + total) / (i + 1)
        squares += (value - mean_before) ** 2
        variance = (0.25 + squares) / (i + 1)
    return best


@pytest.mark.parametrize(
    ("errors", "n", "golden"), [(0, 100, 0.029513049607), (3, 100, 0.075710793750), (125, 1000, 0.143526499334)]
)
def test_clopper_pearson_golden(errors, n, golden):
    assert clopper_pearson_upper(errors, n, 0.05) == pytest.approx(golden, abs=1e-12)


@pytest.mark.parametrize(("errors", "n", "delta"), [(0, 1, 0.5), (2, 7, 0.01), (499, 1000, 0.1), (9, 10, 0.05)])
def test_clopper_pearson_solves_its_equation(errors, n, delta):
    # At U, so few errors have probability delta.
    upper = clopper_pearson_upper(errors, n, delta)
    assert stats.binom.cdf(errors, n, upper) == pytest.approx(delta, rel=1e-9)


def test_clopper_pearson_is_one_where_all_are_errors():
    assert clopper_pearson_upper(5, 5, 0.05) == 1.0


def test_betting_golden():
    assert betting_upper(SAMPLE, 0.05) == pytest.approx(0.504957, abs=5e-7)


@given(z=samples, delta=st.floats(0.001, 0.5))
@settings(max_examples=60, deadline=None)
def test_betting_is_where_the_gambler_wins(z, delta):
    upper, goal = betting_upper(z, delta), math.log(1 / delta)
    assert upper >= np.mean(z) - 1e-12
    if upper < 1:
        assert capital(z, min(1.0, upper + 1e-9), delta) >= goal - 1e-6
    below = upper - 1e-6
    if below > np.mean(z):
        assert capital(z, below, delta) < goal


@pytest.mark.parametrize("bound", UPPER)
@given(z=samples, delta=st.floats(0.001, 0.4))
@settings(max_examples=40, deadline=None)
def test_upper_bounds_share_their_properties(bound, z, delta):
    upper = bound(z, delta)
    assert np.mean(z) - 1e-12 <= upper <= 1
    assert bound(z, delta / 2) >= upper - 1e-12  # surer is larger
    moved = bound(3 * np.array(z) - 2, delta, limits=(-2.0, 1.0))
    assert moved == pytest.approx(3 * upper - 2, abs=1e-9)
    assert bound(torch.tensor(z, dtype=torch.float64), delta) == upper


def test_hoeffding_and_maurer_pontil_equations():
    z, n, log = np.array(SAMPLE), 10, math.log(1 / 0.2)
    assert hoeffding_upper(z, 0.2) == pytest.approx(z.mean() + math.sqrt(log / 20), abs=1e-14)
    long = np.tile(z, 20)
    n, log = 200, math.log(2 / 0.2)
    expected = long.mean() + math.sqrt(2 * np.var(long, ddof=1) * log / n) + 7 * log / (3 * 199)
    assert maurer_pontil_upper(long, 0.2) == pytest.approx(expected, abs=1e-14)
    assert hoeffding_radius(50, 0.1, width=3) == pytest.approx(3 * math.sqrt(math.log(10) / 100), abs=1e-14)
    radii = maurer_pontil_radius(np.array([0.0, 0.5]), 11, 0.1, width=np.array([1.0, 2.0]))
    log = math.log(20)
    assert radii == pytest.approx([7 * log / 30, 0.5 * math.sqrt(2 * log / 11) + 14 * log / 30], abs=1e-14)


@given(z=samples, delta=st.floats(0.001, 0.5))
@settings(max_examples=60, deadline=None)
def test_hoeffding_bentkus_is_where_its_p_value_is_delta(z, delta):
    n, mean, upper = len(z), float(np.mean(z)), hoeffding_bentkus_upper(z, delta)

    def p_value(m):
        kl = stats.entropy([mean, 1 - mean], [m, 1 - m])
        return min(math.exp(-n * kl), math.e * stats.binom.cdf(math.ceil(n * mean * (1 - 1e-12)), n, m))

    assert hoeffding_upper(z, delta) >= upper - 1e-12  # Hoeffding's bound follows from the KL form by Pinsker
    if upper < 1 - 1e-9:
        assert p_value(upper + 1e-9) <= delta * (1 + 1e-6)
    if upper - 1e-6 > mean:
        assert p_value(upper - 1e-6) >= delta


def test_tightness_on_a_concentrated_sample():
    z = np.random.default_rng(0).beta(1, 9, 1000)
    betting, bernstein, hoeffding = betting_upper(z), maurer_pontil_upper(z), hoeffding_upper(z)
    assert z.mean() < betting < bernstein < hoeffding


def test_intervals_are_two_upper_bounds(monkeypatch):
    monkeypatch.setattr("mgce.risk.betting.BLOCK", 500)  # several blocks
    z = np.random.default_rng(1).random((100, 12)) ** np.arange(1, 13)
    low, high = betting_intervals(z, 0.01)
    for j in range(12):
        assert high[j] == pytest.approx(betting_upper(z[:, j], 0.01), abs=2**-22)
        assert low[j] == pytest.approx(1 - betting_upper(1 - z[:, j], 0.01), abs=2**-22)
        assert low[j] < z[:, j].mean() < high[j]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: clopper_pearson_upper(3, 2), "Expected `errors` to be an integer from 0 to n"),
        (lambda: clopper_pearson_upper(0, 9, 1.0), r"Expected `delta` to be in \(0, 1\), but got 1.0."),
        (lambda: hoeffding_radius(0), "Expected `n` to be at least 1, but got 0."),
        (lambda: maurer_pontil_radius(0.1, 1), "Expected `n` to be at least 2, but got 1."),
        (lambda: maurer_pontil_upper([0.5]), "Expected `sample` to be of at least 2 draws"),
        (
            lambda: betting_upper([0.5, 1.5]),
            r"Expected `sample` to be within \[0, 1\], but got 'values from 0.5 to 1.5'",
        ),
        (lambda: betting_upper([0.5, math.nan]), "Expected `sample` to be free of NaN"),
        (lambda: hoeffding_upper([]), r"Expected `sample` to be of shape \(n,\)"),
        (lambda: hoeffding_upper([0.5], limits=(1, 1)), r"Expected `limits` to be a pair \(a, b\)"),
    ],
)
def test_errors(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize("draw", [-0.1, 1.1, np.nan])
def test_betting_intervals_refuse_draws_outside_the_unit_interval(draw):
    with pytest.raises(ValueError, match=r"Expected `columns` to be draws in \[0, 1\]"):
        betting_intervals(np.array([[0.5], [draw]]), 0.05)


@pytest.mark.parametrize("delta", ["0.05", None, [0.05]])
def test_a_delta_that_is_no_number_is_refused_in_a_sentence(delta):
    with pytest.raises(TypeError, match=r"^Expected `delta` to be a number in \(0, 1\), but got"):
        clopper_pearson_upper(1, 10, delta)
