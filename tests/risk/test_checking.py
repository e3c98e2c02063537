"""Rows looked up one after the other: the bound at every look, which rows to look up, and how many."""

import numpy as np
import pytest
from scipy import stats

from mgce.risk import (
    betting_upper_sequence,
    certify,
    clopper_pearson_upper,
    looked_up_upper_sequence,
    rows_to_check,
    stratified_upper,
)
from mgce.risk.betting import refuted_from
from mgce.risk.checking import upper_after
from mgce.risk.looks import SHARING, _weights, reserved

DELTA = 0.1


def world(rng, n, errors):
    """Return given labels of two classes, a classifier's probabilities, and right labels: P(error | agrees or not)."""
    disagrees = rng.random(n) < 0.25
    guess = rng.integers(0, 2, n)
    wrong = rng.random(n) < np.where(disagrees, errors[1], errors[0])
    return np.where(disagrees, 1 - guess, guess), np.eye(2)[guess] * 0.8 + 0.1, np.where(wrong, 1 - guess, guess)


def test_every_look_holds_and_the_other_rows_help_where_they_can():
    rng, repetitions, missed, ratio = np.random.default_rng(0), 60, 0, {}
    for errors in ((0.03, 0.8), (0.2, 0.2)):
        truth, ratios = 0.75 * errors[0] + 0.25 * errors[1], []
        for _ in range(repetitions):
            disagrees = rng.random(2300) < 0.25
            wrong = rng.random(300) < np.where(disagrees[:300], errors[1], errors[0])
            own = looked_up_upper_sequence(wrong, disagrees[:300], (int(disagrees[300:].sum()), 2000), DELTA)
            missed += own.min() < truth
            ratios.append(own[-1] / betting_upper_sequence(wrong, DELTA)[-1])
        ratio[errors] = np.mean(ratios)
    assert missed <= stats.binom.ppf(0.999, 2 * repetitions, DELTA)
    assert ratio[0.03, 0.8] < 0.97 and ratio[0.2, 0.2] < 1.01


def test_a_rate_of_disagreement_that_is_too_low_would_be_seen():
    # Were the rate taken from the looked-up rows' betters, with far fewer disagreements, the bound would be false.
    rng = np.random.default_rng(1)
    disagrees = rng.random(300) < 0.25
    wrong = rng.random(300) < np.where(disagrees, 0.8, 0.03)
    few, many = (looked_up_upper_sequence(wrong, disagrees, (count, 2000))[-1] for count in (100, 500))
    assert few < 0.2225 < many


def test_certify_at_every_look_takes_the_rate_from_reserved_rows():
    given, probs, right = world(np.random.default_rng(2), 1500, (0.03, 0.8))
    rows = rows_to_check(given, probs, 0.12, anytime=True)
    kept, disagrees = reserved(1500), probs.argmax(1) != given
    assert kept.sum() == 1000 and not kept[rows].any() and np.unique(rows).size == rows.size
    c = certify(given, probs, bounds=["argmax"], checked=(rows, right[rows]), anytime=True)
    wrong = (probs.argmax(1) != right)[rows]
    others = int(disagrees[kept].sum()), 1000
    assert c.argmax_error == looked_up_upper_sequence(wrong, disagrees[rows], others)[-1]
    assert any("at every look" in text for text in c.assumptions) and c.looked_up == rows.size
    drawn = certify(given, probs, bounds=["randomized"], checked=(rows, right[rows]), anytime=True)
    assert drawn.randomized_error == betting_upper_sequence(1 - probs[rows, right[rows]])[-1]


def test_the_bounds_at_all_looks_are_of_one_sequence_also_where_reserved_rows_are_looked_up():
    """Someone who may stop at any look may choose between two sequences: together these fail more often than delta."""
    given, probs, right = world(np.random.default_rng(4), 300, (0.03, 0.8))
    rows = np.concatenate([rows_to_check(given, probs, 0.2, anytime=True)[:90], np.flatnonzero(reserved(300))[:60]])
    looks = [*range(60, 150, 10), 91, 92, 150]
    bounds = [
        certify(given, probs, bounds=["argmax"], checked=(rows[:t], right[rows[:t]]), anytime=True).argmax_error
        for t in sorted(looks)
    ]
    assert (np.diff(bounds) <= 0).all() and bounds[-1] < bounds[0]
    # At a reserved row the weight is 0: given labels of these rows count for the rate alone.
    kept, disagrees, wrong = reserved(300), probs.argmax(1) != given, probs.argmax(1) != right
    most = clopper_pearson_upper(int(disagrees[kept].sum()), int(kept.sum()), SHARING.for_rate * 0.05)
    weight = np.where(kept[rows], 0.0, _weights(wrong[rows] * 1.0, disagrees[rows] * 1.0))
    z = wrong[rows] - weight * (disagrees[rows] - most)
    assert bounds[-1] == refuted_from(z, (1 - SHARING.for_rate) * 0.05, largest=1 + weight * most)[-1]


@pytest.mark.parametrize("anytime", [False, True])
def test_so_many_rows_give_the_wanted_width_and_one_less_does_not(anytime):
    given, probs, _ = world(np.random.default_rng(3), 1500, (0.1, 0.5))
    error = float((probs.argmax(1) != given).mean())
    m = rows_to_check(given, probs, 0.08, anytime=anytime).size

    def width(m):
        if anytime:
            steps = np.floor(np.arange(m + 1) * error + 0.5)
            return betting_upper_sequence(np.diff(steps))[-1] - error
        found = np.ceil(m * error)
        return clopper_pearson_upper(int(found), m) - found / m

    assert width(m) <= 0.08 < width(m - 1)
    assert rows_to_check(given, probs, 1e-4, anytime=anytime).size == 1500


def test_the_bound_after_more_looks_is_that_of_as_many_looks_with_the_same_findings():
    given, probs, right = world(np.random.default_rng(4), 1500, (0.05, 0.6))
    rows = np.arange(100)
    now = certify(given, probs, bounds=["argmax"], checked=(rows, right[:100])).argmax_error
    assert upper_after(given, probs, (rows, right[:100]), 0, 0.05) == now
    later = [upper_after(given, probs, (rows, right[:100]), more, 0.05) for more in (50, 200, 5000)]
    assert now > later[0] > later[1] > later[2] >= (probs.argmax(1) != right)[:100].mean() * 0.5
    agree = (probs.argmax(1) == given)[:100]
    wrong = (probs.argmax(1) != right)[:100]
    thrice = [3 * int(part.sum()) for part in (wrong & agree, wrong & ~agree, agree, ~agree)]
    whole = probs.argmax(1) == given
    counts = tuple(thrice[:2]), tuple(thrice[2:]), (int(whole.sum()), int((~whole).sum()))
    assert later[1] == stratified_upper(*counts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: looked_up_upper_sequence([1], [1, 0], (1, 2)), "of one shape"),
        (lambda: looked_up_upper_sequence([1], [1], (3, 2)), "a count and a number of rows"),
        (lambda: looked_up_upper_sequence([0.5], [1], (1, 2)), "to be truth values, or 0 and 1"),
        (lambda: rows_to_check([0, 1], np.eye(2), 0.0), "`width` to be in"),
        (lambda: certify([0, 1], np.eye(2), anytime=True), "`anytime` to be left out without `checked`"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
