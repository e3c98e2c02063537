"""Intervals of the noise rate: coverage where the assumption holds, and where it does not; T as cleanlab has it."""

import numpy as np
import pytest
from scipy import stats

from mgce.labels import noise_share
from mgce.risk import certify, estimate_transition, noise_rate_interval, repeated_labels_interval

K, DELTA = 4, 0.1


def flip(rng, y, rate):
    return np.where(rng.random(y.size) < rate, (y + rng.integers(1, K, y.size)) % K, y)


def classifier(rng, y, sure_error):
    """Sure on 40 % of the rows, and wrong on a share of these; wrong on a tenth of the others."""
    sure = rng.random(y.size) < 0.4
    wrong = rng.random(y.size) < np.where(sure, sure_error, 0.1)
    probs = np.full((y.size, K), 0.1)
    probs[np.arange(y.size), np.where(wrong, (y + 1) % K, y)] = np.where(sure, 5.0, 0.5) * rng.uniform(1, 1.2, y.size)
    return probs / probs.sum(1, keepdims=True), wrong.mean()


# How many samples: few in every tier, and nightly three times as many, with the same share of misses allowed.
SAMPLES = pytest.mark.parametrize("samples", [10, pytest.param(30, marks=pytest.mark.nightly)])


@SAMPLES
@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_the_interval_holds_the_rate_where_the_classifier_is_right_when_sure(rate, samples):
    rng, misses, above = np.random.default_rng(0), 0, 0
    for _ in range(samples):
        y = rng.integers(0, K, 1000)
        probs, _ = classifier(rng, y, 0.0)
        interval = noise_rate_interval(flip(rng, y, rate), probs, delta=DELTA)
        misses += not interval.lower <= rate <= interval.upper
        probs, _ = classifier(rng, y, 0.3)  # the upper end needs no classifier that is right
        above += noise_rate_interval(flip(rng, y, rate), probs, delta=DELTA).upper < rate
    assert misses <= stats.binom.ppf(0.999, samples, DELTA) and above == 0


@SAMPLES
def test_the_certificate_by_an_estimated_rate_is_valid_and_breaks_with_its_assumption(samples):
    rng, missed = np.random.default_rng(1), {0.0: 0, 0.1: 0}
    for sure_error in missed:
        for _ in range(samples):
            y = rng.integers(0, K, 2000)
            probs, _ = classifier(rng, y, sure_error)
            truth = 0.4 * sure_error + 0.06
            certificate = certify(flip(rng, y, 0.2), probs, noise_rate="auto", bounds=["argmax"], delta=DELTA)
            missed[sure_error] += certificate.assumed.argmax_error < truth
    assert missed[0.0] <= stats.binom.ppf(0.999, samples, DELTA)
    assert missed[0.1] > 0.3 * samples  # wrong where it is sure: the page says so


def test_a_file_sorted_by_its_labels_gives_the_rate_that_it_has_as_drawn():
    # Equally sure rows, as h of MGCE has them at 1: the first of a sorted file all have one label, here the rarer one.
    missed = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y, sure = (rng.random(2000) >= 0.4).astype(int), rng.random(2000) < 0.5
        predicted = np.where(~sure & (rng.random(2000) < 0.3), 1 - y, y)  # right wherever it is sure
        probs = np.where(sure, 1.0, 0.8)[:, None] * np.eye(2)[predicted]
        probs[np.arange(2000), 1 - predicted] = 1 - probs.max(1)
        given = np.where(rng.random(2000) < 0.2, 1 - y, y)
        order = np.argsort(given, kind="stable")
        certificate = certify(given[order], probs[order], noise_rate="auto", bounds=["argmax"])
        missed += certificate.refuted is None and certificate.assumed.argmax_error < 0.15
        assert certificate == certify(given, probs, noise_rate="auto", bounds=["argmax"])
    assert missed <= stats.binom.ppf(0.999, 12, 0.05)


@SAMPLES
@pytest.mark.parametrize("places", [1, 2, 4])
def test_equally_sure_rows_do_not_make_errors_of_the_classifier_wrong_labels(places, samples):
    rng, false = np.random.default_rng(0), 0
    for _ in range(samples):
        y = rng.integers(0, K, 2000)
        predicted = np.where(rng.random(2000) < 0.15, (y + 1) % K, y)
        own = 1 - 0.1 * rng.integers(places, size=2000)
        probs = np.full((2000, K), 0.0) + ((1 - own) / (K - 1))[:, None]
        probs[np.arange(2000), predicted] = own
        given = flip(rng, y, 0.2)
        certificate = certify(given, probs, noise_rate="auto", bounds=["argmax"])
        false += certificate.refuted is None and certificate.assumed.argmax_error < 0.15
        interval = noise_rate_interval(given, probs)
        assert interval.lower == 0 and interval.upper > 0.2 and interval.reason == noise_share(given, probs).reason
        assert f"the noise rate is 0 or more, and no more is known, since {interval.reason}" in str(certificate)
        assert estimate_transition(given, probs).noise_rate is None
    assert not false


def test_repeated_labels():
    rng, misses = np.random.default_rng(0), 0
    for _ in range(300):
        y = rng.integers(0, K, 400)
        interval = repeated_labels_interval(flip(rng, y, 0.25), flip(rng, y, 0.25), n_classes=K, delta=DELTA)
        misses += not interval.lower <= 0.25 <= interval.upper
    assert 0 < misses <= stats.binom.ppf(0.999, 300, DELTA)


def test_the_estimate_is_that_of_cleanlab():
    count = pytest.importorskip("cleanlab.count")
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 3000)
    probs, _ = classifier(rng, y, 0.02)
    noisy = flip(rng, y, 0.3)
    estimate = estimate_transition(noisy, probs)
    joint = count.estimate_joint(noisy, probs)  # given label by right label
    ours = estimate.matrix
    theirs = (joint / joint.sum(0)).T
    np.testing.assert_allclose(ours, theirs, atol=0.02)
    assert (estimate.lower <= ours).all() and (ours <= estimate.upper).all()
    found = noise_share(noisy, probs)  # nearer to the truth than the trace of the joint distribution
    assert (estimate.noise_rate, estimate.noise_rate_interval) == (found.share, (found.lower, found.upper))
    assert abs(estimate.noise_rate - (noisy != y).mean()) < abs(1 - np.trace(joint) - (noisy != y).mean())


def test_the_rate_of_overlapping_classes_has_the_lower_end_0():
    rng = np.random.default_rng(0)
    p = 1 / (1 + np.exp(-1.5 * rng.normal(size=1000)))
    interval = noise_rate_interval((rng.random(1000) < p).astype(int), np.stack([1 - p, p], 1))
    assert interval.lower == 0 and interval.upper > 0.2


def test_errors():
    with pytest.raises(ValueError, match="Expected `target` to be labels with every class among them"):
        estimate_transition([0, 0], [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match=r"Expected `second` to be of shape \(2,\)"):
        repeated_labels_interval([0, 1], [0], n_classes=2)
    with pytest.raises(ValueError, match="Expected `delta`"):
        noise_rate_interval([0], [[1.0, 0.0]], delta=2)


def test_a_row_that_reaches_no_threshold_is_not_counted():
    target = np.repeat([0, 1], 4)
    probs = np.array([[0.9, 0.1]] * 3 + [[0.5, 0.5]] + [[0.1, 0.9]] * 3 + [[0.4, 0.6]])  # thresholds 0.8 and 0.825
    np.testing.assert_array_equal(estimate_transition(target, probs).matrix, np.eye(2))
