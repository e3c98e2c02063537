from itertools import product

import numpy as np
import pytest

from mgce.desk.review.bounds import MORE, error_bound, share_left_sequence
from mgce.desk.review.draws import HELD_OUT, draw
from mgce.risk import betting_upper_sequence, certify
from mgce.risk.looks import foretold_widths, reserved


def test_the_error_bound_holds_at_all_times_by_an_exact_computation():
    """Over every sequence of errors: the probability that the bound is ever below the truth is delta at most."""
    n, delta = 9, 0.2  # of 27 rows, whose given labels agree with the model
    sequences = np.array(list(product((0, 1), repeat=n)))
    bounds = np.empty(sequences.shape)
    for row, errors in enumerate(sequences):
        right, guess = ["a"] * n, ["b" if error else "a" for error in errors] + ["a"] * 2 * n
        for t in (3, 6, n):  # whoever looks after three, six and nine
            bounds[row, t - 1] = error_bound(right[:t], guess, guess, delta).upper
    looked = bounds[:, [2, 5, 8]]
    missed = []
    for p in np.linspace(0.05, 0.95, 19):
        probability = p ** sequences.sum(1) * (1 - p) ** (n - sequences.sum(1))
        missed.append(probability[(looked < p - 1e-9).any(1)].sum())
    assert 0.01 < max(missed) <= delta


def test_skipped_examples_are_errors():
    guess = ["a", "a", "a", "b"] * 5
    found = error_bound(["a", None, "b", None] * 5, guess, guess)
    assert (found.n, found.errors, found.unsettled) == (20, 15, 10)
    assert found.upper == error_bound(["a", "b", "b", "a"] * 5, guess, guess).upper
    assert error_bound([], guess, guess) is None is error_bound([None], guess, guess, is_open=[True])


def test_the_error_bound_is_that_of_certify_and_the_one_foretold_comes_if_errors_stay_as_frequent():
    """Of a sample whose reserved rows are those of the last draws."""
    n, m = 1500, 100
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, n)
    hard = rng.random(n) < 0.3
    guess, given = (np.where(hard & (rng.random(n) < 0.5), 1 - right, right) for _ in range(2))
    rows = np.concatenate([np.flatnonzero(~reserved(n)), np.flatnonzero(reserved(n))])
    labels, probs = np.empty(n, int), np.empty((n, 2))
    labels[rows], probs[rows] = given, np.eye(2)[guess]
    found = error_bound(right[:m].tolist(), guess.tolist(), given.tolist())
    alike = certify(labels, probs, bounds=["argmax"], checked=(rows[:m], right[:m]), anytime=True)
    assert found.upper == alike.argmax_error
    later = [error_bound(right[: m + more // 2].tolist(), guess.tolist(), given.tolist()).upper for more in MORE]
    np.testing.assert_allclose(found.after, later, atol=0.02)
    # Given labels that say nothing of errors: a rate that nobody knows makes the bound hardly wider.
    blind = error_bound(right[:m].tolist(), guess.tolist(), rng.integers(0, 2, n).tolist()).upper
    assert found.upper < betting_upper_sequence(guess[:m] != right[:m])[-1] - 0.01 < blind < found.upper + 0.03


def test_the_bound_foretold_is_the_bound_of_draws_that_go_on_as_before():
    """Half of the further rows are held out. Of an hour's work, twice as many are checked as of half an hour's."""
    m, n = 20, 400
    errs, disagrees = np.arange(n) % m < 3, np.arange(n) % m < 5
    guess, given = ["a"] * n, ["b" if one else "a" for one in disagrees]
    right = ["b" if one else "a" for one in errs]
    further = [int(HELD_OUT * more) for more in MORE]
    assert further == [HELD_OUT * more for more in MORE] == [hours * further[1] for hours in (0.5, 1, 2)]
    later = [error_bound(right[: m + more], guess, given).upper for more in further]
    assert error_bound(right[:m], guess, given).after == tuple(later)
    # As many as there are examples, but no more.
    for n_rows, n_foretold in ((m + further[1], 2), (m + further[1] - 1, 1)):
        assert len(error_bound(right[:m], guess[:n_rows], given[:n_rows]).after) == n_foretold


@pytest.mark.parametrize("where", ["held out", "others", "anywhere"])
def test_the_share_that_is_left_wrong_is_bounded_whatever_is_mended_in_between(where):
    """Monte Carlo: wrong labels where the draws go least or most, suspects mended as the draws go on, three looks."""
    n, delta, runs, missed, widths = 120, 0.2, 300, 0, []
    held_out = np.arange(n) % 4 == 0
    keys = [f"{place:03d}" for place in range(n)]
    among = {"held out": np.flatnonzero(held_out), "others": np.flatnonzero(~held_out), "anywhere": np.arange(n)}[where]
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        wrong = np.zeros(n, bool)
        wrong[rng.choice(among, 25, replace=False)] = True
        drawn = draw(keys, held_out, seed)
        suspects = rng.permutation(np.flatnonzero(wrong)).tolist()[:12]
        found, order, looks = [], np.argsort(drawn.number), []
        for t, row in enumerate(order[:60], 1):
            found.append(bool(wrong[row]))
            wrong[row] = False
            if t % 5 == 0 and suspects and not any(found[-5:]):  # depends on what was found so far
                wrong[suspects.pop()] = False
            if t in (15, 30, 60):
                q = drawn.probability[order[:t]].tolist()
                upper = share_left_sequence(found, q, n, delta, least=drawn.probability.min())[-1]
                looks.append(upper < wrong.mean() - 1e-9)
        missed += any(looks)
        widths.append(upper - wrong.mean())
    assert missed / runs <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)
    assert np.mean(widths) < 0.3


def test_draws_of_unknown_probability_are_refused():
    with pytest.raises(ValueError, match="Expected `probability` to be within"):
        share_left_sequence([True], [0.001], 100, least=0.01)


def test_the_foretold_width_is_about_the_one_that_comes():
    for n, error in ((25, 0.1), (100, 0.2), (50, 0.0)):
        rng = np.random.default_rng(0)
        found = []
        for _ in range(40):
            wrong = rng.random(n) < error
            found.append(betting_upper_sequence(wrong)[-1] - error)
        assert foretold_widths(error, n, 0.05)[-1] == pytest.approx(np.mean(found), abs=0.05)
