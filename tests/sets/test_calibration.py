"""Prediction sets: exact coverage by enumeration, quantiles by hand, noise that plain conformal misses."""

import itertools

import numpy as np
import pytest
import torch
from scipy import special, stats

from grids import grid
from mgce.functional import minimax_probs
from mgce.noise import pair_flip, symmetric
from mgce.risk import betting_upper
from mgce.risk.betting import n_orders, shuffled
from mgce.risk.sample import Sample
from mgce.sets import ConformalSets, calibrate, calibration, conformal_scores

K = 4


def world(rng, size=60):
    """Return atoms with class probabilities, and what a classifier makes of them."""
    truth = rng.dirichlet(np.full(K, 0.3), size)
    return truth, 0.8 * truth + 0.2 * rng.dirichlet(np.ones(K), size)


def draw(rng, truth, n, matrix=None):
    atoms = rng.integers(0, len(truth), n)
    law = truth if matrix is None else truth @ np.asarray(matrix)
    return atoms, (law[atoms].cumsum(1) < rng.random((n, 1))).sum(1).clip(0, K - 1)


def coverage(sets, truth, probs, label=None):
    members = sets.predict(probs)
    return (
        (truth * members)[:, label].sum() / truth[:, label].sum()
        if label is not None
        else (truth * members).sum() / len(truth)
    )


@pytest.mark.parametrize("score", ["least_ambiguous", "adaptive"])
@pytest.mark.parametrize("per_class", [False, True])
def test_clean_calibration_covers_on_average(score, per_class):
    rng = np.random.default_rng(0)
    truth, probs = world(rng)
    covered = []
    for _ in range(200):
        atoms, y = draw(rng, truth, 150)
        sets = calibrate(y, probs[atoms], alpha=0.2, score=score, per_class=per_class)
        covered.append([coverage(sets, truth, probs, label) for label in (range(K) if per_class else [None])])
    mean, error = np.mean(covered, 0), np.std(covered, 0) / np.sqrt(200)
    assert (mean >= 0.8 - 3 * error).all()
    assert (mean < 0.87).all()  # atoms are lumps


def test_the_quantile_is_that_of_the_paper():
    probs = np.column_stack([np.arange(1, 20) / 20, 1 - np.arange(1, 20) / 20])
    sets = calibrate(np.zeros(19, int), probs, alpha=0.25)
    assert sets.thresholds == (np.sort(1 - probs[:, 0])[14],) * 2  # ceil(20 * 0.75) = 15
    assert calibrate(np.zeros(3, int), probs[:3], alpha=0.2).thresholds == (np.inf, np.inf)
    assert calibrate([0, 0, 0, -1], probs[:4], alpha=0.2).thresholds[0] == np.inf
    scores = np.arange(1, 25) / 25  # 25 * 0.56 is 14, and a little more in floating point
    sets = calibrate(np.zeros(24, int), np.column_stack([1 - scores, scores]), alpha=0.44)
    assert sets.thresholds[0] == pytest.approx(scores[13], abs=1e-12)


@pytest.mark.parametrize(
    ("noise", "drawn", "labels"),
    [
        ({}, "exchangeable with those to come", ""),
        (
            {"noise_rate": 0.1, "noise_type": "any"},
            "exchangeable with those to come",
            "; at most a share 0.1 of the labels is wrong, whichever and however",
        ),
        (
            {"noise_rate": 0.1},
            "independent draws from the distribution of interest",
            "; each label was replaced with probability 0.1 by one of the others, all alike and whatever the example",
        ),
        (
            {"transition": pair_flip(K, 0.2)},
            "independent draws from the distribution of interest",
            "; each label was drawn by the stated transition matrix (condition number 1.67) from the right label "
            "alone, whatever the example",
        ),
    ],
)
def test_what_is_assumed_is_said_in_full(noise, drawn, labels):
    atoms = np.random.default_rng(0).integers(0, K, 200)
    said = str(calibrate(atoms, np.full((200, K), 1 / K), alpha=0.3, **noise))
    examples = "and were not used to train, select, tune or calibrate the classifier"
    assert said.endswith(f". This assumes that the examples are {drawn}, {examples}{labels}.")


def test_scores():
    np.testing.assert_allclose(conformal_scores([[0.2, 0.5, 0.3]]), [[0.8, 0.5, 0.7]])
    np.testing.assert_allclose(conformal_scores([[0.25, 0.5, 0.25]], "adaptive"), [[0.5, 0.0, 0.5]])


@pytest.mark.parametrize("score", ["least_ambiguous", "adaptive"])
def test_classes_of_probability_zero_are_in_no_set_unless_they_are_right_too_often(score):
    rng = np.random.default_rng(0)
    probs = np.zeros((400, 10))
    first = rng.integers(0, 10, 400)
    probs[np.arange(400), first] = np.where(rng.random(400) < 0.7, 1.0, 0.8)  # many sure answers, as MGCE gives them
    probs[np.arange(400), (first + 1) % 10] = 1 - probs.max(1)
    right = np.where(rng.random(400) < 0.95, first, (first + 5) % 10)
    some = calibrate(right[:200], probs[:200], alpha=0.1, score=score).predict(probs[200:])
    assert not some[probs[200:] == 0].any()
    with pytest.warns(UserWarning, match="The right class has probability exactly 0 on about 5.5% of the rows, and"):
        sets = calibrate(right[:200], probs[:200], alpha=0.01, score=score)
    assert sets.predict(probs[200:]).all()


def sparse_world(rng, n):
    """Return labels, and the logits of a sharp network: MGCE gives the right class exactly 0 in one row of six."""
    y, logits = rng.integers(0, 10, n), 4 * rng.standard_normal((n, 10))
    logits[np.arange(n), y] += 9.5
    return y, logits


SPARSE = {
    "right labels": {},
    "for each class": {"per_class": True},
    "any noise": {"noise_type": "any", "noise_rate": 0.03},
    "symmetric noise": {"noise_rate": 0.2},
    "known matrix": {"transition": pair_flip(10, 0.2)},
}


@grid(
    "score, kind",
    ["least_ambiguous", "adaptive"],
    list(SPARSE),
    keep=lambda score, kind: (score == "adaptive") == ([*SPARSE].index(kind) % 2 == 0),
)
def test_sets_by_logits_cover_and_are_small_where_the_right_class_has_probability_0(score, kind):
    rng, options = np.random.default_rng(0), {"alpha": 0.1, "score": score, **SPARSE[kind]}
    y, logits = sparse_world(rng, 20_000)
    probs = minimax_probs(torch.from_numpy(logits), beta=1.05)
    matrix = SPARSE[kind].get("transition", symmetric(10, options.get("noise_rate", 0.0)))
    covered, sizes, before = [], [], []
    repetitions = (
        20 if kind in ("right labels", "for each class", "any noise") else 4
    )  # the others take ten times as long
    for _ in range(repetitions):
        rows = rng.choice(len(y), 1000, replace=False)
        given = (np.asarray(matrix)[y[rows]].cumsum(1) < rng.random((1000, 1))).sum(1).clip(0, 9)
        sets = calibrate(given, logits=logits[rows], **options)
        members = sets.predict(logits=logits)
        covered.append(members[np.arange(len(y)), y].mean())
        sizes.append(members.sum(1).mean())
        with pytest.warns(UserWarning, match="Give `logits` instead of `probs`, to `calibrate` and to `predict`"):
            before.append(calibrate(given, probs[rows], **options).predict(probs[:50]).sum(1).mean())
    assert np.mean(covered) >= 0.9 - 3 * np.std(covered) / np.sqrt(repetitions)
    if sets.delta is not None:
        assert sum(c < 0.9 for c in covered) <= stats.binom.ppf(0.999, repetitions, sets.delta)
    assert min(before) > 9 and max(sizes) < 5  # of 10 classes, one may be told apart by chance for each class


@pytest.mark.parametrize("score", ["least_ambiguous", "adaptive"])
def test_sets_by_logits_are_those_of_their_softmax_where_that_tells_classes_apart(score):
    rng = np.random.default_rng(0)
    y, logits = sparse_world(rng, 600)
    probs = special.softmax(logits / 4, axis=1)
    by_logits = calibrate(y[:200], logits=logits[:200] / 4 + 7, score=score)
    by_probs = calibrate(y[:200], probs[:200], score=score)
    np.testing.assert_array_equal(by_logits.predict(logits=logits / 4), by_probs.predict(probs))
    np.testing.assert_allclose(by_logits.thresholds, -np.log1p(-np.array(by_probs.thresholds)), rtol=1e-9)
    want = -np.log1p(-conformal_scores(probs, score))
    np.testing.assert_allclose(conformal_scores(logits=logits / 4, score=score), want, rtol=1e-6, atol=1e-9)


def test_scores_of_logits_that_softmax_rounds_to_0_and_of_masked_classes():
    f = [[0.0, -1000.0, -2000.0, -2000.0, -np.inf], [3.0, -np.inf, -np.inf, 3.0, 0.0]]
    two, six = -np.log(2), np.log(2 + np.exp(-3))
    want = [[0, 1000, 2000, 2000, np.inf], [six, np.inf, np.inf, six, 3 + six]]
    np.testing.assert_allclose(conformal_scores(logits=f), want)
    want = [[0, 1000, 2000 + two, 2000 + two, np.inf], [0, np.inf, np.inf, 0, 3 + six]]
    np.testing.assert_allclose(conformal_scores(logits=torch.tensor(f), score="adaptive"), want)


def test_sets_by_logits_do_not_depend_on_the_batch_or_precision():
    rng = np.random.default_rng(4)
    logits = 50 + 10 * np.log([[0.7, 0.1, 0.1, 0.1], [0.3, 0.3, 0.2, 0.2], [0.05, 0.05, 0.45, 0.45]])
    for score, options in itertools.product(["least_ambiguous", "adaptive"], [{}, {"noise_rate": 0.2}]):
        y = rng.integers(0, K, 400)
        sets = calibrate(y, logits=logits[rng.integers(0, 3, 400)], alpha=0.3, score=score, **options)
        for step in (-1, 1):
            near = (logits * (1 + step * np.finfo(np.float32).eps)).astype(np.float32)
            near[:, ::2] = logits[:, ::2]
            np.testing.assert_array_equal(sets.predict(logits=near), sets.predict(logits=logits))


def test_noise_that_is_stated_is_taken_off_the_share_that_the_warning_has():
    """Labels that are wrong have probability 0 and right ones never: no warning where the noise explains it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 4000)
    given = (y + (rng.random(4000) < 0.3) * rng.integers(1, K, 4000)) % K
    sets = calibrate(given, np.eye(K)[y], alpha=0.1, noise_rate=0.3)
    assert sets.predict(np.eye(K)).sum() == K
    with pytest.warns(UserWarning, match=r"exactly 0 on about (29|30|31)\.\d% of the rows"):
        calibrate(given, np.eye(K)[y], alpha=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("per_class", [False, True])
def test_a_known_matrix_covers_with_confidence_where_plain_conformal_does_not(per_class):
    rng, matrix, repetitions, delta = np.random.default_rng(1), pair_flip(K, 0.35), 25, 0.1
    truth, probs = world(rng)
    misses, plain, size = 0, 0, []
    for _ in range(repetitions):
        atoms, y = draw(rng, truth, 1500, matrix)
        options = {"alpha": 0.15, "per_class": per_class}
        sets = calibrate(y, probs[atoms], transition=matrix, delta=delta, **options)
        labels = range(K) if per_class else [None]
        misses += any(coverage(sets, truth, probs, label) < 0.85 for label in labels)
        size.append(sets.predict(probs).sum(1).mean())
        plain += calibrate(y, probs[atoms], **options).predict(probs).sum(1).mean()
    assert misses <= stats.binom.ppf(0.999, repetitions, delta)
    assert np.mean(size) < plain / repetitions  # plain conformal pays for the noise with larger sets
    assert sets.delta == 0.1


def proved(y, probs, matrix, alpha, delta, classes, steps):
    """Return the last candidate before the first that may leave out a share alpha, and alpha on the scale of draws."""
    sample, inverse = Sample(y, probs), np.linalg.inv(matrix)[:, classes]
    left_out = np.array(list(itertools.product([0, 1], repeat=len(classes))))  # all that may happen to an example
    ends = ((left_out - alpha) @ inverse.T).ravel()
    low, high = min(ends.min(), 0.0), max(ends.max(), 1 - alpha)
    unseen = 1 - alpha if len(classes) == K else 0.0  # an error, but of none of the classes

    def term(label, row, q):
        return inverse[label] @ ((1 - row > q) - alpha) if label >= 0 else unseen

    mean, last, turns = -low / (high - low), np.inf, range(n_orders(sample.kinds, delta))
    for start in range(0, len(calibration.CANDIDATES), steps):
        some = calibration.CANDIDATES[start : start + steps]
        z = np.array([[term(label, row, q) for label, row in zip(y, probs[:, classes], strict=True)] for q in some])
        orders = [shuffled((z - low) / (high - low), sample.content, turn) for turn in turns]
        for i, q in enumerate(some):
            if max(betting_upper(order[i], delta) for order in orders) > mean:
                return last, mean
            last = q
    return last, mean


@pytest.mark.parametrize("steps", [1, 7])  # candidates at once; their random orders depend on it
@grid(
    "matrix, per_class",
    [pair_flip(K, 0.2), symmetric(K, 0.05)],
    [False, True],
    keep=lambda matrix, per_class: (matrix[0][1] == 0.2) == per_class,
)
def test_a_noisy_threshold_is_the_last_one_proved_whatever_is_worked_on_at_once(per_class, matrix, steps, monkeypatch):
    rng, matrix, delta = np.random.default_rng(0), np.asarray(matrix), 0.2
    truth, probs = world(rng)
    atoms, y = draw(rng, truth, 150, matrix)
    y[:5] = -1
    p = probs[atoms] + 0.01 * rng.random((150, K))
    p /= p.sum(1, keepdims=True)
    monkeypatch.setattr(calibration, "CANDIDATES", calibration.CANDIDATES[::4])
    refutes, means = calibration.betting_refutes, set()
    monkeypatch.setattr(calibration, "BLOCK", steps * (p.size // K if per_class else p.size))
    monkeypatch.setattr(calibration, "betting_refutes", lambda *of: means.add(of[1]) or refutes(*of))
    sets = calibrate(y, p, transition=matrix, alpha=0.2, delta=delta, per_class=per_class)
    each = [([j], delta / K) for j in range(K)] if per_class else [(range(K), delta)]
    want, want_means = zip(*(proved(y, p, matrix, 0.2, share, classes, steps) for classes, share in each), strict=True)
    assert sets.thresholds == (want if per_class else want * K)
    np.testing.assert_array_equal(np.unique(np.round(list(means), 9)), np.unique(np.round(want_means, 9)))
    assert min(want) < 0.999


@pytest.mark.parametrize("seed", [0, 7, 31])
def test_rows_of_one_kind_have_to_prove_a_noisy_threshold_in_every_order(seed, monkeypatch):
    rng, matrix, alpha, delta = np.random.default_rng(seed), np.asarray(pair_flip(K, 0.1)), 0.3, 0.2
    monkeypatch.setattr(calibration, "CANDIDATES", calibration.CANDIDATES[::8])
    probs = np.repeat([[0.7, 0.1, 0.15, 0.05]], 60, axis=0)
    _, y = draw(rng, probs, 60, matrix)
    want, _ = proved(y, probs, matrix, alpha, delta, range(K), len(calibration.CANDIDATES))
    assert calibrate(y, probs, alpha=alpha, transition=matrix, delta=delta).thresholds == (want,) * K


@pytest.mark.parametrize("per_class", [False, True])
def test_a_noisy_threshold_keeps_a_class_whose_score_is_the_threshold(per_class, monkeypatch):
    """All right classes have the score 0.5: a set at this threshold holds them, and one at the next misses all."""
    rng, matrix = np.random.default_rng(0), np.asarray(pair_flip(K, 0.1))
    right = rng.integers(0, K, 2000)
    probs = np.where(np.arange(K) == right[:, None], 0.5, 0.5 / (K - 1))
    given = (matrix[right].cumsum(1) < rng.random((2000, 1))).sum(1)
    monkeypatch.setattr(calibration, "CANDIDATES", np.array([0.99, 0.75, 0.5, 0.25]))
    sets = calibrate(given, probs, alpha=0.3, transition=matrix, per_class=per_class)
    assert sets.thresholds == (0.5,) * K
    assert sets.predict(probs).sum(1).tolist() == [1] * 2000


def test_no_threshold_is_proved_by_few_rows_and_sets_hold_every_class():
    sets = calibrate(np.arange(8) % K, np.eye(K)[np.arange(8) % K], alpha=0.1, transition=pair_flip(K, 0.1))
    assert sets.thresholds == (np.inf,) * K
    assert sets.predict(np.eye(K)).all()


def in_another_batch(probs, rng, precision):
    """Return probabilities as another batch or precision would: margins change in their last digit, and so do these."""
    margins = np.log(probs).astype(precision)
    margins += np.finfo(precision).eps * rng.integers(-2, 3, probs.shape) * np.abs(margins)
    values = np.exp(margins)
    return values / values.sum(1, keepdims=True)


KINDS = {
    "right labels": {},
    "for each class": {"per_class": True},
    "any noise": {"noise_type": "any", "noise_rate": 0.05},
    "symmetric noise": {"noise_rate": 0.2},
    "known matrix": {"transition": pair_flip(K, 0.2)},
    "known matrix, for each class": {"transition": pair_flip(K, 0.2), "per_class": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", ["least_ambiguous", "adaptive"])
def test_sets_do_not_depend_on_the_batch_or_precision(score, kind):
    # Few kinds of rows, as in a table of categories: the threshold is the score of a third of them, and classes tie.
    rng = np.random.default_rng(4)
    probs = np.array([[0.7, 0.1, 0.1, 0.1], [0.3, 0.3, 0.2, 0.2], [0.05, 0.05, 0.45, 0.45]])
    covered = []
    for _ in range(12):
        atoms, y = draw(rng, probs, 200)
        sets = calibrate(y, in_another_batch(probs[atoms], rng, np.float64), alpha=0.2, score=score, **KINDS[kind])
        members = sets.predict(probs)
        for precision in (np.float64, np.float32):
            for row in range(3):
                alone = sets.predict(in_another_batch(probs[[row]], rng, precision))
                np.testing.assert_array_equal(alone, members[[row]])
        covered.append((probs * members).sum() / 3)
    assert np.mean(covered) >= 0.8


@pytest.mark.parametrize(
    "matrix",
    [pair_flip(K, 0.2), pytest.param(symmetric(K, 0.2), marks=pytest.mark.nightly)],
    ids=["pairs", "symmetric"],
)
def test_sets_do_not_depend_on_the_last_digits_of_a_matrix(matrix):
    """Which differ from machine to machine in its inverse; at the first thresholds all terms are equal but for them."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        truth, probs = world(rng)
        atoms, y = draw(rng, truth, 1000, matrix)
        steps = 2.0**-52 * rng.integers(-1, 2, (4, K, K))
        sets = [
            calibrate(y, probs[atoms], alpha=0.15, transition=np.asarray(matrix) * (1 + step)) for step in [0, *steps]
        ]
        assert len({each.thresholds for each in sets}) == 1


def test_any_noise_pays_its_share():
    rng = np.random.default_rng(2)
    truth, probs = world(rng)
    atoms, y = draw(rng, truth, 400)
    given = y.copy()
    given[:20] = probs[atoms][:20].argmax(1)  # at most a twentieth is made to look easy
    sets = calibrate(given, probs[atoms], alpha=0.15, noise_type="any", noise_rate=0.05)
    assert sets.thresholds == calibrate(given, probs[atoms], alpha=0.1).thresholds
    assert sets.coverage == 0.85 and "at most a share 0.05" in str(sets)


def test_symmetric_noise_is_its_matrix():
    rng = np.random.default_rng(3)
    truth, probs = world(rng)
    atoms, y = draw(rng, truth, 800, symmetric(K, 0.3))
    by_rate, by_matrix = (
        calibrate(y, probs[atoms], **o) for o in ({"noise_rate": 0.3}, {"transition": symmetric(K, 0.3)})
    )
    assert by_rate.thresholds == by_matrix.thresholds
    assert "or more" not in str(by_rate)


def test_sets_are_never_empty():
    by_logits = calibrate(np.zeros(30, int), logits=np.zeros((30, 2)), alpha=0.2)
    assert by_logits.of_logits
    none = ConformalSets((0.0, 0.0), "least_ambiguous", 0.9, False, None, 10, ())
    assert none.predict([[0.6, 0.4]]).tolist() == [[True, False]]


@pytest.mark.parametrize("score", ["least_ambiguous", "adaptive"])
@pytest.mark.parametrize("apart", [0.0, 1e-7, -1e-7])
def test_two_leading_classes_that_tie_are_in_every_set_together(apart, score):
    """Which of the two is the larger depends on the batch, by a last digit of float32."""
    probs = [[0.4, 0.4 + apart, 0.2 - apart]]
    assert ConformalSets((0.0,) * 3, score, 0.9, False, None, 10, ()).predict(probs).tolist() == [[True, True, False]]
    by_logits = ConformalSets((0.0,) * 3, score, 0.9, False, None, 10, (), of_logits=True)
    assert by_logits.predict(logits=[[4.0, 4.0 + apart, 2.0]]).tolist() == [[True, True, False]]
    if score == "adaptive":
        np.testing.assert_allclose(conformal_scores(probs, score), [[0.0, 0.0, 0.8]], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(alpha=0), r"Expected `alpha` to be in \(0, 1\)"),
        (dict(score="best"), "Expected `score` to be one of 'least_ambiguous', 'adaptive'"),
        (dict(noise_type="any", noise_rate=0.2), "Expected `noise_rate` to be below alpha = 0.1"),
        (dict(noise_type="any", noise_rate=0.05, per_class=True), "not for each class"),
        (dict(transition=np.full((2, 2), 0.5)), "Expected `transition` to be invertible"),
    ],
)
def test_errors(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        calibrate([0, 1], [[0.5, 0.5], [0.2, 0.8]], **options)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ({}, "Expected `probs` to be given, or `logits` in place of it, but got 'neither'"),
        ({"probs": np.full((2, 2), 0.5), "logits": np.zeros((2, 2))}, "but got 'both'"),
        ({"logits": np.zeros(2)}, r"Expected `logits` to be of shape \(n, k\) with n >= 1 and k >= 2, but got \(2,\)"),
        ({"logits": [[np.nan, 0], [0, 0]]}, "Expected `logits` to be free of NaN and inf, but got"),
        ({"logits": [[np.inf, 0], [0, 0]]}, "Expected `logits` to be free of NaN and inf, but got"),
        ({"logits": [[-np.inf, -np.inf], [0, 0]]}, "Expected `logits` to be a number in each row"),
    ],
)
def test_errors_of_logits(rows, sentence):
    with pytest.raises(ValueError, match=sentence):
        calibrate([0, 1], **rows)


def test_sets_take_what_they_were_calibrated_on():
    logits = np.array([[1.0, 0.0], [0.0, 1.0]])
    probs = special.softmax(logits, axis=1)
    with pytest.raises(ValueError, match="Expected `logits` to be given, since the sets were calibrated on logits"):
        calibrate([0, 1], logits=logits, alpha=0.4).predict(probs)
    with pytest.raises(ValueError, match="Expected `probs` to be given, since the sets were calibrated on probs"):
        calibrate([0, 1], probs, alpha=0.4).predict(logits=logits)
    with pytest.raises(ValueError, match="Expected `logits` to be of 2 classes, but got 3"):
        calibrate([0, 1], logits=logits, alpha=0.4).predict(logits=np.zeros((1, 3)))
