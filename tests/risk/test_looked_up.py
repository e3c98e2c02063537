"""Certificates from looked-up rows: no assumption on the noise, and noise that depends on the example."""

import numpy as np
import pytest
from scipy import stats

from mgce._rounding import percent_up
from mgce.risk import certify, certify_each, clopper_pearson_upper, share_looks, stratified_upper


def hidden_noise(rng, n=1500):
    """Return given labels that agree with most of the model's errors, its probabilities, and the right labels."""
    right = rng.integers(0, 4, n)
    hard = rng.random(n) < 0.4
    guess = np.where(hard & (rng.random(n) < 0.5), (right + 1) % 4, right)
    given = np.where(hard & (rng.random(n) < 0.8), guess, right)
    probs = np.where(np.eye(4)[guess] > 0, np.where(hard, 0.5, 0.9)[:, None], np.where(hard, 0.5, 0.1)[:, None] / 3)
    return given, probs, right


def test_it_holds_where_a_stated_rate_does_not():
    rng, repetitions, delta = np.random.default_rng(0), 60, 0.1
    missed, narrower, stated = 0, [], 0
    for _ in range(repetitions):
        given, probs, right = hidden_noise(rng)
        rows = rng.choice(right.size, 100, replace=False)
        own = certify(given, probs, bounds=["argmax"], checked=(rows, right[rows]), delta=delta)
        missed += own.argmax_error < 0.2
        narrower.append(
            own.argmax_error / certify(right[rows], probs[rows], bounds=["argmax"], delta=delta).argmax_error
        )
        rate = float((given != right).mean())
        stated += certify(given, probs, bounds=["argmax"], noise_rate=rate, delta=delta).argmax_error < 0.2
    assert missed <= stats.binom.ppf(0.999, repetitions, delta) and stated == repetitions
    assert np.mean(narrower) < 1.02


def test_cells_are_whether_the_given_label_agrees():
    given, probs, right = hidden_noise(np.random.default_rng(1))
    rows = np.arange(0, 1500, 10)
    guess = probs.argmax(1)
    agree, wrong = guess == given, (guess != right)[rows]
    counts = [
        (int((wrong & agree[rows]).sum()), int((wrong & ~agree[rows]).sum())),
        (int(agree[rows].sum()), int((~agree[rows]).sum())),
        (int(agree.sum()), int((~agree).sum())),
    ]
    certificate = certify(given, probs, bounds=["argmax"], checked=(rows, right[rows]))
    assert certificate.argmax_error == stratified_upper(*counts)
    assert certificate == certify(
        given, probs, bounds=["argmax"], checked=dict(zip(rows.tolist(), right[rows].tolist(), strict=True))
    )
    text = str(certificate)
    assert "150 of these examples were looked up; nothing is assumed of the noise." in text and "is wrong" in text
    assert certificate.looked_up == 150 and not certificate.against_given and certificate.refuted is None
    assert certificate.rows_error == stratified_upper(*counts, future=False) < certificate.argmax_error
    assert (
        f"class is wrong in at most {percent_up(certificate.rows_error)}, by itself with the same confidence." in text
    )
    assert "as many as were fixed beforehand" in text


@pytest.mark.parametrize("together", [certify, certify_each])
def test_labels_that_were_typed_into_the_target_are_said(together):
    given, probs, right = hidden_noise(np.random.default_rng(3))
    rows = np.random.default_rng(4).permutation(1500)[:200]
    by = {"by": "prediction"} if together is certify_each else {}
    together(given, probs, **by, checked=(rows, right[rows]))
    mended = given.copy()
    mended[rows] = right[rows]
    with pytest.warns(
        UserWarning, match="All labels that were looked up equal those of `target`. Pass `target` as it was"
    ):
        together(mended, probs, **by, checked=(rows, right[rows]))
    # Where the classifier errs on none of these rows, nothing is hidden.
    settled = rows[probs[rows].argmax(1) == right[rows]]
    together(mended, probs, **by, checked=(settled, right[settled]))


def test_two_chances_make_two_cells_whatever_they_are_of():
    rng = np.random.default_rng(2)
    given, probs, right = hidden_noise(rng)
    agree = probs.argmax(1) == given
    for chance in (np.where(agree, 0.05, 0.2), np.where(np.arange(1500) % 2, 0.1, 0.4)):
        missed = 0
        for _ in range(40):
            rows = np.flatnonzero(rng.random(1500) < chance)
            c = certify(given, probs, bounds=["argmax"], checked=(rows, right[rows]), checked_with=chance, delta=0.2)
            missed += c.argmax_error < (probs.argmax(1) != right).mean()
        assert missed <= stats.binom.ppf(0.999, 40, 0.2)
    of = [chance < 0.2, chance > 0.2]
    wrong = np.isin(np.arange(1500), rows[(probs.argmax(1) != right)[rows]])
    counts = [tuple(int(cell[part].sum()) for cell in of) for part in (wrong, rows, slice(None))]
    assert c.argmax_error == stratified_upper(*counts, 0.2, ratio=4.0)
    # Rows of chance 0 are not counted, and one chance for all others is none.
    part = np.where(np.arange(1500) < 1000, 0.3, 0.0)
    rows = np.arange(100)
    some = certify(given, probs, bounds=["argmax"], checked=(rows, right[rows]), checked_with=part)
    assert (
        some.argmax_error
        == certify(given[:1000], probs[:1000], bounds=["argmax"], checked=(rows, right[rows])).argmax_error
    )


def test_shared_out_looks_are_distinct_in_proportion_and_at_none_of_the_rows_that_decide_what_is_doubtful():
    rng, missed, repetitions = np.random.default_rng(4), np.zeros(2), 30
    for _ in range(repetitions):
        given, probs, right = hidden_noise(rng)
        rows, chance = share_looks(given, probs, generator=rng)
        assert np.unique(rows).size == rows.size == 1350 and (chance == 0).sum() == 150 and (chance[rows] > 0).all()
        found = rows[:150], right[rows[:150]]
        c = certify(given, probs, bounds=["argmax"], checked=found, checked_with=chance, delta=0.2)
        missed += np.array([c.argmax_error < 0.2, c.rows_error < (probs.argmax(1) != right)[chance > 0].mean()])
    assert missed.max() <= stats.binom.ppf(0.999, repetitions, 0.2)
    counts = [[(chance[part] == value).sum() for value in (1.0, 2.0)] for part in (rows[:150], rows)]
    (few, often), (all_few, all_often) = counts
    assert abs(few - 150 * all_few / (all_few + 2 * all_often)) <= 1 and few + often == 150
    guess = np.where(probs.argmax(1) == given, (1 - probs.max(1)) / 2, 1 - 0.75 * probs.max(1)).round(9)
    assert guess[chance == 2.0].min() > guess[chance == 1.0].max()


def test_a_part_without_doubtful_rows_is_bounded_by_the_shares_of_all_looks():
    """Whether a part has rows of both kinds is up to chance: the bound counts that it may have others in future."""
    given, probs, right = hidden_noise(np.random.default_rng(6))
    names, chance = np.arange(1500) // 500, np.where(np.arange(1500) % 5 == 0, 2.0, 1.0)
    chance[:500] = 1.0
    rows = np.arange(0, 1500, 5)
    looks = {"bounds": ["argmax"], "checked": (rows, right[rows]), "checked_with": chance}
    parts = certify_each(given, probs, names, **looks)
    for part, certificate in parts.items():
        looked = np.isin(np.arange(1500), rows) & (names == part)
        each = looked & (probs.argmax(1) != right), looked, names == part
        counts = [tuple(int((of & (chance == value)).sum()) for value in (1, 2)) for of in each]
        assert certificate.argmax_error == stratified_upper(*counts, 0.05 / 3, ratio=2.0, share=0.2)


def test_chances_of_rows_one_by_one_and_other_bounds_with_chances_are_refused():
    given, probs, right = hidden_noise(np.random.default_rng(5))
    looks = {"checked": ([0, 1], right[:2]), "checked_with": np.linspace(0.1, 0.9, 1500)}
    for call in (certify, lambda *a, **k: certify_each(*a, "prediction", **k)):
        with pytest.raises(ValueError, match="of one or two different values beside 0, as `share_looks` returns it"):
            call(given, probs, **looks)
        with pytest.raises(ValueError, match=r"Expected `bounds` to be \['argmax'\] with `checked_with`"):
            call(given, probs, checked=looks["checked"], checked_with=np.ones(1500))


def test_other_bounds_use_the_looked_up_rows_and_parts_their_own():
    given, probs, right = hidden_noise(np.random.default_rng(3))
    rows = np.arange(0, 1500, 7)
    both = certify(given, probs, checked=(rows, right[rows]), beta=1.4, bounds=["randomized", "alpha"])
    alone = certify(right[rows], probs[rows], beta=1.4, bounds=["randomized", "alpha"])
    assert (both.randomized_error, both.alpha_risk) == (alone.randomized_error, alone.alpha_risk)
    part = np.arange(1500) % 2
    parts = certify_each(given, probs, part, bounds=["argmax"], checked=(rows, right[rows]))
    own = part == 1
    places = np.flatnonzero(own[rows])
    half = certify(
        given[own], probs[own], bounds=["argmax"], delta=0.025, checked=(rows[places] // 2, right[rows][places])
    )
    assert parts[1].argmax_error == half.argmax_error
    assert certify_each(given, probs, part, bounds=["argmax"], checked=([0], [0]))[1].argmax_error == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checked": ([0, 0], [1, 1])}, "distinct rows, at least one, with a label each"),
        ({"checked": ([0, 1], [1])}, "with a label each"),
        ({"checked": ([], [])}, "at least one"),
        ({"checked": ([6], [1])}, "checked, rows"),
        ({"checked": ([0], [4])}, "checked, labels"),
        ({"checked": 3}, "a mapping of rows to right labels"),
        ({"checked": ([0], [1]), "noise_rate": 0.1}, "stated one at a time"),
        ({"checked": ([0], [1]), "groups": [1] * 6}, "left out where right labels"),
        (
            {"checked": ([0], [1]), "checked_with": [0.0] + [1.0] * 5},
            "but got '0, and 0 for a row that was looked up'",
        ),
        ({"checked_with": [0.5] * 6}, "left out without"),
        ({"checked": {0: "cat"}}, "Expected `checked, labels` to be numbers"),
        ({"checked": ([0], [1]), "checked_with": [0.5] * 5}, r"of shape \(6,\)"),
        ({"checked": ([0], [1]), "checked_with": [0.5, -1, 1, 1, 1, 1]}, "0 or more, and above 0"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        certify([0, 1, 0, 1, 0, 1], np.full((6, 2), 0.5), **options)


def test_a_looked_up_label_that_is_no_class_is_an_error():
    probs = np.tile([0.9, 0.1], (400, 1))
    right = np.where(np.arange(100) < 30, -1, 0)
    certificate = certify(np.zeros(400), probs, bounds=["argmax"], checked=(np.arange(100), right))
    assert certificate.argmax_error >= clopper_pearson_upper(30, 100)


def looks(seed, *, n=2000, m=200, error=0.1, wrong=0.03, prefilled=True):
    """A world where a share of the looks is wrong, and agrees with the classifier: labels, looks and second looks."""
    rng = np.random.default_rng(seed)
    right = rng.integers(2, size=n)
    guess = np.where(rng.random(n) < error, 1 - right, right)
    given = np.where(rng.random(n) < 0.3, right, guess) if prefilled else rng.permutation(right)
    found = np.where((guess != right) & (rng.random(n) < wrong / error), guess, right)
    rows = rng.choice(n, m, replace=False)
    return given, np.eye(2)[guess], right, found, rows, rng


@pytest.mark.slow
def test_second_looks_keep_the_bound_where_first_looks_are_wrong():
    """The bound of first looks is then false as often as the documentation says; that of second looks holds."""
    repetitions, delta, error = 60, 0.2, 0.1
    false, dropped, widened = 0, 0, {10: [], 60: []}
    for seed in range(repetitions):
        given, probs, right, found, rows, rng = looks(seed, error=error)
        options = {"bounds": ["argmax"], "delta": delta}
        false += certify(given, probs, checked=(rows, found[rows]), **options | {"delta": 0.05}).argmax_error < error
        kept = rows[given[rows] == right[rows]]
        with pytest.warns(UserWarning, match="equal those of `target`"):
            left = certify(given, probs, checked=(kept, right[kept]), **options | {"delta": 0.05}).argmax_error
        dropped += left < error
        for share, bounds in widened.items():
            some = rng.choice(rows, 2 * share, replace=False)
            again = certify(given, probs, checked=(rows, found[rows]), checked_again=(some, right[some]), **options)
            bounds.append(again.argmax_error)
    assert 0.28 <= false / repetitions <= 0.72 and dropped >= 0.9 * repetitions
    for bounds in widened.values():
        assert (np.array(bounds) < error).sum() <= stats.binom.ppf(0.999, repetitions, delta)
    assert np.mean(widened[60]) < np.mean(widened[10]) - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [pytest.param(0.03, marks=pytest.mark.nightly), 0.1])
def test_a_loss_of_probabilities_is_bounded_by_second_looks_too(wrong):
    """All looks may be wrong, and all be looked up twice: the bound is then near that of right looks."""
    repetitions, delta, misses = 60, 0.2, 0
    for seed in range(repetitions):
        given, probs, right, found, rows, _ = looks(seed, m=150, wrong=wrong, prefilled=False)
        h = 0.1 + 0.8 * probs
        true = 0.1 + 0.8 * 0.1  # a class that is drawn errs with 0.9 where the classifier is wrong, and 0.1 elsewhere
        options = {"bounds": ["randomized"], "delta": delta}
        again = certify(given, h, checked=(rows, found[rows]), checked_again=(rows, right[rows]), **options)
        misses += again.randomized_error < true
    assert misses <= stats.binom.ppf(0.999, repetitions, delta)


def test_the_bound_of_second_looks_is_the_sum_of_two():
    given, probs, right, found, rows, rng = looks(1)
    some = rng.choice(rows, 40, replace=False)
    options = {"bounds": ["argmax"]}
    again = certify(
        given,
        probs,
        checked=(rows, found[rows]),
        checked_again=dict(zip(some.tolist(), right[some].tolist(), strict=True)),
        **options,
    )
    guess = probs.argmax(1)
    hidden = int(((guess[some] != right[some]) & (guess[some] == found[some])).sum())
    first = certify(given, probs, checked=(rows, found[rows]), delta=0.01, **options).argmax_error
    assert again.argmax_error == pytest.approx(first + clopper_pearson_upper(hidden, 40, 0.04))
    assert again.looked_up_again == 40 and again.to_dict()["looked_up_again"] == 40
    assert "200 of these examples were looked up, 40 of them a second time; nothing is assumed" in str(again)
    assert "the rows of the second looks were drawn at random" in str(again) and "looked up are right" not in str(again)
    assert "guards against wrong first looks alone" in str(again) and again.rows_error is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "left out without `checked`"),
        ({"checked": ([0, 1], [1, 1]), "anytime": True}, "left out without `checked`, and with `checked_with` or"),
        ({"checked": ([0, 1], [1, 1]), "checked_with": np.full(4, 0.5)}, "left out without `checked`, and with"),
        ({"checked": ([1, 2], [0, 1])}, "rows of `checked`, looked up a second time, but got 'row 0, which was not"),
    ],
)
def test_second_looks_without_first_ones_are_refused(options, sentence):
    with pytest.raises(ValueError, match="Expected `checked_again` to be") as error:
        certify([0, 1, 1, 0], np.full((4, 2), 0.5), checked_again=([0], [0]), **options)
    assert sentence in str(error.value)
