"""The interval of the noise rate by labels given twice: its coverage; T as cleanlab has it."""

import numpy as np
import pytest
from scipy import stats

from mgce.risk import estimate_transition, repeated_labels_interval

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


def test_errors():
    with pytest.raises(ValueError, match="Expected `target` to be labels with every class among them"):
        estimate_transition([0, 0], [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match=r"Expected `second` to be of shape \(2,\)"):
        repeated_labels_interval([0, 1], [0], n_classes=2)
    with pytest.raises(ValueError, match="Expected `delta`"):
        repeated_labels_interval([0], [0], n_classes=2, delta=2)


def test_a_row_that_reaches_no_threshold_is_not_counted():
    target = np.repeat([0, 1], 4)
    probs = np.array([[0.9, 0.1]] * 3 + [[0.5, 0.5]] + [[0.1, 0.9]] * 3 + [[0.4, 0.6]])  # thresholds 0.8 and 0.825
    np.testing.assert_array_equal(estimate_transition(target, probs).matrix, np.eye(2))
