"""Certified cleaning: how often more wrong labels are left than promised, and what it asks for."""

import math

import numpy as np
import pytest
from scipy import stats

from mgce.desk.review.cleaning import allowance, clean_labels, sample_share

N, DELTA = 400, 0.2


def cleaned(rng, doubt, wrong, **options):
    """Look up the sample, then all that is asked for."""
    state = int(rng.integers(1 << 60))
    first = clean_labels(doubt, {}, delta=DELTA, generator=np.random.default_rng(state), **options)
    found = {int(row): bool(wrong[row]) for row in np.flatnonzero(first.to_check)}
    return clean_labels(doubt, found, delta=DELTA, generator=np.random.default_rng(state), **options), found


# The doubts are worth much or nothing, or mislead; all wrong rows are the surest, which is the hardest case.
@pytest.mark.parametrize("shape", ["sorted", "blind", "reverse"])
def test_more_wrong_labels_are_left_at_most_as_often_as_delta_says(shape):
    rng, missed, repetitions = np.random.default_rng(0), 0, 400
    for _ in range(repetitions):
        doubt = rng.random(N)
        wrong = {"sorted": rng.random(N) < doubt**2, "blind": rng.random(N) < 0.2, "reverse": doubt < 0.3}[shape]
        then, _ = cleaned(rng, doubt, wrong, at_most=0.05)
        assert then.wrong_left == 20
        missed += int((wrong & then.kept).sum()) > 20
    assert missed <= stats.binom.ppf(0.999, repetitions, DELTA)
    if shape == "reverse":
        # Exactly: at most k draws without a success before the 21st, for the largest k that delta allows.
        assert missed >= stats.binom.ppf(0.001, repetitions, DELTA)  # the number in the sample spends all of delta


def test_the_bound_holds_for_the_rows_that_stay_if_a_person_cannot_label_some():
    """Whether one step or the next is reached depends on the sample: rows without an answer are as many as foreseen."""
    rng, missed, repetitions, steps = np.random.default_rng(0), 0, 300, set()
    for _ in range(repetitions):
        doubt = rng.random(N)
        wrong, silent = doubt < 0.3, rng.random(N) < 0.035
        state, found = int(rng.integers(1 << 60)), {}
        while True:
            left_out = int(silent[list(found)].sum())
            may = allowance(doubt, left_out, 0.05, DELTA)
            generator = np.random.default_rng(state)
            then = clean_labels(doubt, found, may.at_most, delta=may.delta, sampled=may.sampled, generator=generator)
            if then.is_done:
                break
            found |= {int(row): bool(wrong[row] or silent[row]) for row in np.flatnonzero(then.to_check)}
        steps.add(may.delta)
        assert then.wrong_left <= 0.05 * (N - left_out)
        missed += int((wrong & then.kept).sum()) > 0.05 * (N - left_out)
    assert missed <= stats.binom.ppf(0.999, repetitions, DELTA) and len(steps) > 1


def test_no_more_is_allowed_than_asked_and_all_steps_together_spend_delta():
    for n in (1, 7, 100, 901):
        each = [allowance(np.full(n, 0.1), left_out, 0.07, DELTA) for left_out in range(n + 1)]
        assert all(math.floor(may.at_most * n) <= 0.07 * (n - gone) for gone, may in enumerate(each[:-1]))
        assert sum({may.delta for may in each}) <= DELTA + 1e-12 and len({may.sampled for may in each}) == 1
    with pytest.raises(ValueError, match="`at_most` to be in"):
        allowance(np.zeros(10), 0, 1.0, 0.05)


def test_good_doubts_spare_looks_and_dropping_spares_more():
    rng = np.random.default_rng(1)
    doubt = rng.random(3000)
    wrong = rng.random(3000) < doubt**4
    looks = {}
    for drop in (0.0, 0.1):
        then, found = cleaned(np.random.default_rng(2), doubt, wrong, drop=drop)
        looks[drop] = len(found) + int(then.to_check.sum())
        assert not then.is_done and then.dropped.sum() == 3000 * drop
        assert not (then.kept & (then.to_check | then.dropped)).any()
        left = np.flatnonzero(then.to_check)
        done = clean_labels(
            doubt,
            found | dict.fromkeys(left.tolist(), False),
            drop=drop,
            delta=DELTA,
            generator=np.random.default_rng(int(np.random.default_rng(2).integers(1 << 60))),
        )
        assert done.is_done and (done.kept == then.kept).all()
        assert doubt[then.kept].max() < doubt[then.to_check].min()
    assert looks[0.1] < looks[0.0] < 0.6 * 3000


def test_the_stop_is_the_one_of_the_negative_binomial():
    # No wrong label at all: everything is kept, if so many looks without any would be rare with more than A left.
    doubt = np.linspace(0, 1, 200)
    for at_most, keeps in ((0.2, True), (0.005, False)):
        then, _ = cleaned(np.random.default_rng(0), doubt, np.zeros(200, bool), at_most=at_most, sampled=0.1)
        rare = stats.binom.cdf(0, then.wrong_left + 1, 0.1) <= DELTA
        assert rare == keeps and then.is_done == keeps


def test_the_sample_is_the_larger_the_more_proposals_are_expected_to_be_wrong_and_near_the_best():
    rng = np.random.default_rng(3)
    shares = [sample_share(np.full(2000, p), 100, DELTA) for p in (0.0, 0.01, 0.03, 0.045)]
    assert shares == sorted(shares)
    # With no wrong proposal, one look at any A + 1 wrong ones is enough.
    assert shares[0] == pytest.approx(1 - DELTA ** (1 / 101))
    doubt = rng.beta(0.3, 3, 2000)
    looks = {}
    for share in (sample_share(doubt, 100, DELTA), 0.02, 0.3):
        every = []
        for _ in range(40):
            wrong = rng.random(2000) < doubt
            then, found = cleaned(rng, doubt, wrong, at_most=0.05, sampled=share)
            every.append(len(found) + int(then.to_check.sum()))
        looks[share] = np.mean(every)
    assert min(looks, key=looks.get) == sample_share(doubt, 100, DELTA)


def test_rows_known_beforehand_are_asked_for_no_more_and_equal_doubts_stay_together():
    doubt, known = np.repeat([0.1, 0.5], 100), np.arange(200) < 50
    wrong = np.arange(200) % 3 == 0
    then, found = cleaned(np.random.default_rng(0), doubt, wrong, at_most=0.1, known=known)
    assert not then.sample[known].any() and not then.to_check[known].any() and not then.kept[known].any()
    for value in (0.1, 0.5):
        rest = (doubt == value) & ~known & ~np.isin(np.arange(200), [*found])
        assert then.kept[rest].all() or then.to_check[rest].all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_most": 0.0}, "`at_most` to be in"),
        ({"delta": 1.0}, "`delta`"),
        ({"drop": -0.1}, "`drop`"),
        ({"sampled": 0.0}, "`sampled`"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        clean_labels([0.1, 0.2], {}, **options)
    for doubt in ([[0.1]], [], 0.1):
        with pytest.raises(ValueError, match="`doubt` to be of shape"):
            clean_labels(doubt, {})


def test_a_table_of_one_row_has_its_label_looked_up():
    first = clean_labels([0.1], {})
    assert first.to_check.tolist() == [True] and first.wrong_left == 0
    assert clean_labels([0.1], {0: False}).is_done


@pytest.mark.parametrize("sampled", [0.2, 0.25, 0.3, 0.35, 0.4])
def test_rows_are_kept_up_to_as_many_wrong_proposals_of_the_sample_as_the_binomial_allows(sampled):
    then, found = cleaned(np.random.default_rng(0), np.arange(300), np.ones(300, bool), at_most=0.1, sampled=sampled)
    k = max(j for j in range(300) if stats.binom.cdf(j, 30 + j + 1, sampled) <= DELTA)
    end = sorted(found)[k]
    assert then.wrong_left == 30
    assert then.kept.tolist() == [row < end and row not in found for row in range(300)]
