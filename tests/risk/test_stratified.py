"""The bound from looked-up rows of two cells: against sums over all outcomes, random draws, and the pooled bound."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mgce.risk import clopper_pearson_upper, stratified_upper


def draw(rng, m, n, weight, rates):
    first, size = rng.binomial(m, weight), rng.binomial(n - m, weight)
    looked_up = (int(first), int(m - first))
    errors = tuple(int(rng.binomial(*cell)) for cell in zip(looked_up, rates, strict=True))
    return errors, looked_up, (int(first + size), int(n - first - size))


@pytest.mark.parametrize("most", [(4, 4), (2, 4)])
def test_the_bound_misses_no_more_than_delta_at_any_rates_and_weight_by_sums_over_all_outcomes(most):
    # Of each cell so many rows are looked up: the size of a cell and the errors in both are all that is random.
    n, delta = 12, 0.2
    outcomes = []
    for size in range(n + 1):
        looked_up = min(most[0], size), min(most[1], n - size)
        for errors in itertools.product(*(range(m + 1) for m in looked_up)):
            bound = stratified_upper(errors, looked_up, (size, n - size), delta, ratio=most[1] / most[0], share=0.6)
            outcomes.append((size, *looked_up, *errors, bound))
    size, m1, m2, k1, k2, bounds = np.array(outcomes).T
    missed = []
    for weight, p, q in itertools.product(np.linspace(0.1, 0.9, 9), np.linspace(0, 1, 13), np.linspace(0, 1, 13)):
        likely = stats.binom.pmf(size, n, weight) * stats.binom.pmf(k1, m1, p) * stats.binom.pmf(k2, m2, q)
        missed.append(likely[bounds < weight * p + (1 - weight) * q - 1e-12].sum())
    assert 0.1 < max(missed) <= delta + 1e-12


def test_the_bound_on_these_rows_misses_no_more_than_delta_whichever_are_wrong_by_sums_over_all_outcomes():
    rows, looked_up, delta = (9, 6), (4, 3), 0.2
    outcomes = np.array([*itertools.product(range(5), range(4))])
    bounds = np.array([stratified_upper((k, j), looked_up, rows, delta, future=False) for k, j in outcomes.tolist()])
    missed = []
    for wrong in itertools.product(range(10), range(7)):
        cells = zip(outcomes.T, rows, wrong, looked_up, strict=True)
        likely = np.prod([stats.hypergeom.pmf(k, n, e, m) for k, n, e, m in cells], axis=0)
        missed.append(likely[bounds < sum(wrong) / 15 - 1e-12].sum())
    assert 0.1 < max(missed) <= delta + 1e-12


def test_the_bound_on_these_rows_is_their_error_if_all_are_looked_up_and_hardly_above_that_on_future_ones_else():
    assert stratified_upper((3, 2), (10, 5), (10, 5), future=False) == pytest.approx(1 / 3)
    assert stratified_upper((0, 2), (0, 5), (0, 5), future=False) == pytest.approx(0.4)
    few, many = ((4, 60), (190, 110), (1900, 1100)), ((24, 360), (1140, 660), (1900, 1100))
    for counts, most in ((few, 1.0), (many, 0.97)):
        assert stratified_upper(*counts, future=False) < most * stratified_upper(*counts)


@pytest.mark.parametrize(
    ("m", "weight", "rates", "most"),
    [
        (50, 0.5, (0.07, 0.44), 1.0),
        (100, 0.7, (0.02, 0.6), 0.98),
        (300, 0.75, (0.01, 0.78), 0.97),
        (50, 0.5, (0.2, 0.2), 1.02),
        (50, 0.9, (0.1, 0.1), 1.02),
        (100, 0.8, (0.05, 0.05), 1.02),
        (50, 0.8, (0.2, 0.2), 1.02),
        (80, 0.9, (0.1, 0.1), 1.02),
        (300, 0.9, (0.03, 0.8), 0.96),
        (300, 0.1, (0.8, 0.03), 0.96),
    ],
)
def test_draws_stay_below_the_bound_which_is_narrower_where_cells_differ(m, weight, rates, most):
    rng, repetitions, delta = np.random.default_rng(m), 40, 0.1
    truth = weight * rates[0] + (1 - weight) * rates[1]
    draws = [draw(rng, m, 3000, weight, rates) for _ in range(repetitions)]
    bounds = np.array([stratified_upper(*counts, delta) for counts in draws])
    pooled = np.array([clopper_pearson_upper(sum(errors), m, delta) for errors, *_ in draws])
    assert (bounds < truth).sum() <= stats.binom.ppf(0.999, repetitions, delta)
    assert bounds.mean() <= most * pooled.mean()


@pytest.mark.nightly
@pytest.mark.parametrize("weight", [0.275, 0.5, 0.725, 0.85])  # three of them lie between two weights that r is for
@pytest.mark.parametrize("rates", [(0.02, 0.7), (0.5, 0.1)])
def test_the_bound_holds_for_weights_between_those_that_its_ratio_is_computed_for(weight, rates):
    rng, repetitions, delta = np.random.default_rng(5), 200, 0.2
    truth = weight * rates[0] + (1 - weight) * rates[1]
    bounds = np.array([stratified_upper(*draw(rng, 120, 400, weight, rates), delta) for _ in range(repetitions)])
    assert (bounds < truth).sum() <= stats.binom.ppf(0.999, repetitions, delta)


def test_a_cell_that_is_hardly_looked_up_is_pooled():
    bound = stratified_upper((1, 9), (5, 45), (300, 2700))
    assert clopper_pearson_upper(10, 50) < bound < 1.005 * clopper_pearson_upper(10, 50)


def test_the_bound_is_that_of_a_plain_search_where_the_weight_is_known():
    # With so many rows the weight is known: a search over a fine grid of both rates, by sums of binomials.
    errors, looked_up, n, delta = (3, 20), (40, 40), 10**9, 0.05
    bound = stratified_upper(errors, looked_up, (n // 2, n // 2), delta)

    def quantile(first, second):
        p, q = (first + 0.5) / 41, (second + 0.5) / 41
        mean, spread = (p + q) / 2, (p * (1 - p) + q * (1 - q)) / 4 / 42
        size = mean * (1 - mean) / spread - 1
        return stats.beta.ppf(1 - delta, mean * size, (1 - mean) * size)

    x, y = np.meshgrid(np.arange(41), np.arange(41), indexing="ij")
    below = quantile(x, y) <= quantile(*errors) + 1e-9
    largest = 0.0
    for p in np.linspace(0.005, 0.4, 80):
        for q in np.linspace(0.2, 0.9, 141):
            likely = np.outer(stats.binom.pmf(np.arange(41), 40, p), stats.binom.pmf(np.arange(41), 40, q))
            if likely[below].sum() > delta:
                largest = max(largest, (p + q) / 2)
    assert largest - 0.003 <= bound <= largest + 0.01


@pytest.mark.parametrize(
    "counts",
    [
        ((3, 0), (2, 5), (9, 9)),
        ((0, 0), (5, 5), (4, 9)),
        ((0, 0), (0, 0), (9, 9)),
        ((0.5, 1), (5, 5), (9, 9)),
        ((np.nan, 1), (5, 5), (9, 9)),
        ((0, 1), (5, 5), (9,)),
        ((0, 1, 1), (5, 5, 5), (9, 9, 9)),
        (("0", "1"), (5, 5), (9, 9)),
        (0, 5, 9),
    ],
)
def test_counts_that_do_not_fit_are_refused(counts):
    with pytest.raises(ValueError, match="errors, looked_up, rows"):
        stratified_upper(*counts)


def test_more_looks_at_the_rows_that_vary_more_make_the_bound_narrower():
    widths = []
    for errors, looked_up, ratio in (((5, 55), (216, 84), 1.0), ((4, 84), (170, 130), 2.0)):
        mean = 0.72 * errors[0] / looked_up[0] + 0.28 * errors[1] / looked_up[1]
        widths.append(stratified_upper(errors, looked_up, (2160, 840), ratio=ratio) - mean)
    assert widths[1] < 0.95 * widths[0]


@pytest.mark.parametrize("ratio", [0, -1.0, np.inf, "twice"])
def test_a_ratio_that_is_none_is_refused(ratio):
    with pytest.raises((TypeError, ValueError), match="Expected `ratio` to be a finite number in"):
        stratified_upper((2, 4), (20, 10), (200, 100), ratio=ratio)


@pytest.mark.parametrize("share", [0, -1, 1.5, np.nan, "half"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises((TypeError, ValueError), match="Expected `share` to be a finite number in"):
        stratified_upper((2, 4), (20, 10), (200, 100), share=share)


def test_the_tiniest_delta_leaves_a_bound_that_is_no_smaller():
    bounds = [stratified_upper((2, 40), (200, 100), (2000, 1000), delta) for delta in (1e-20, 1e-150, 1e-200, 1e-305)]
    assert (np.diff(bounds) >= 0).all() and bounds[-1] <= 1


def test_errors_everywhere_leave_a_bound_of_one_and_more_errors_never_lower_it():
    assert stratified_upper((20, 20), (20, 20), (100, 100)) == 1.0
    bounds = [stratified_upper((k, 8), (30, 30), (300, 300)) for k in range(0, 31, 3)]
    assert (np.diff(bounds) > 0).all()
