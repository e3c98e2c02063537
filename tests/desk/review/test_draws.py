import numpy as np
import pytest

from mgce.desk.review.draws import draw, share_range

KEYS = [f"k{place:03d}" for place in range(40)]
OURS = np.arange(40) % 4 == 0


def test_every_row_has_a_place_whatever_the_order_of_rows():
    drawn = draw(KEYS, OURS, 3)
    assert sorted(drawn.number) == list(range(1, 41))
    order = np.random.default_rng(0).permutation(40)
    again = draw([KEYS[i] for i in order], OURS[order], 3)
    np.testing.assert_array_equal(again.number, drawn.number[order])
    assert (draw(KEYS, OURS, 4).number != drawn.number).any()


def test_probabilities_are_those_of_the_first_draw():
    counts, seeds = np.zeros(40), 4000
    for seed in range(seeds):
        counts[draw(KEYS, OURS, seed).number.argmin()] += 1
    expected = draw(KEYS, OURS, 0).probability
    assert expected.sum() == pytest.approx(1) and expected[0] == pytest.approx(0.5 / 10)
    chi_square = ((counts - seeds * expected) ** 2 / (seeds * expected)).sum()
    assert chi_square < 39 + 5 * np.sqrt(2 * 39)


def test_rows_held_out_come_in_a_random_order_among_themselves():
    # The first two of them: each ordered pair as often as any other.
    counts = np.zeros((10, 10))
    for seed in range(3000):
        ours = draw(KEYS, OURS, seed).number[OURS]
        counts[tuple(np.argsort(ours)[:2])] += 1
    pairs = counts[~np.eye(10, dtype=bool)]
    assert counts.diagonal().sum() == 0
    assert ((pairs - 3000 / 90) ** 2 / (3000 / 90)).sum() < 89 + 5 * np.sqrt(2 * 89)


@pytest.mark.parametrize("held_out", [np.zeros(40, bool), np.ones(40, bool)])
def test_of_one_kind_all_rows_are_equally_probable(held_out):
    drawn = draw(KEYS, held_out, 0)
    assert sorted(drawn.number) == list(range(1, 41))
    np.testing.assert_allclose(drawn.probability, 1 / 40)


@pytest.mark.parametrize(("wrong", "n"), [(0, 1), (1, 1), (0, 28), (4, 28), (28, 28), (14, 100)])
def test_the_range_of_shares_is_what_a_bet_of_all_shares_does_not_beat(wrong, n):
    """The bet is computed draw by draw, from the share that is expected after the draws before."""
    bet = 1.0
    for place in range(n):
        counts = (place + 0.5, place + 1) if place < wrong else (place - wrong + 0.5, place + 1)
        bet *= counts[0] / counts[1]
    shares = np.linspace(0, 1, 10_001)
    left = shares[bet <= shares**wrong * (1 - shares) ** (n - wrong) / 0.05]
    assert share_range(wrong, n) == pytest.approx((left[0], left[-1]), abs=2e-4)
