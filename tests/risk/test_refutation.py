"""The test of whether the right label alone determines the noise: when it may refute, and what it then says."""

import numpy as np
import pytest
from scipy import stats

from mgce.noise import symmetric
from mgce.risk import certify
from mgce.risk.label_noise import SURE, examine_noise
from mgce.risk.sample import Sample


def world(rng, n, rate, slope, k=4):
    """Return labels that are wrong at `rate` in the mean, and the less, the surer the classifier is."""
    right, sure = rng.integers(0, k, n), rng.random(n)
    wrong = rng.random(n) < rate * (1 + slope * (1 - 2 * sure))
    given = np.where(wrong, (right + rng.integers(1, k, n)) % k, right)
    top = 0.4 + 0.59 * sure
    predicted = np.where(rng.random(n) < 0.4 * (1 - sure), (right + 1) % k, right)
    return given, np.where(np.eye(k)[predicted] > 0, top[:, None], ((1 - top) / (k - 1))[:, None])


@pytest.mark.parametrize("options", [{"noise_rate": 0.3}, {"transition": symmetric(4, 0.3)}])
def test_noise_that_spares_easy_examples_is_refuted_and_noise_as_stated_is_not(options):
    rng = np.random.default_rng(0)
    spared = [certify(*world(rng, 3000, 0.3, 0.8), bounds=["argmax"], **options) for _ in range(20)]
    as_stated = [certify(*world(rng, 3000, 0.3, 0.0), bounds=["argmax"], **options) for _ in range(60)]
    assert all(c.refuted is not None and c.against_given for c in spared)
    assert "labels where it is most sure" in str(spared[0])
    assert sum(c.refuted is not None for c in as_stated) <= stats.binom.ppf(0.999, 60, 0.02)
    assert "do not refute the condition, nor do they prove it" in str(as_stated[0]) and as_stated[0].noise_tested
    assert str(as_stated[0]).startswith("If labels are wrong as stated, whatever the example, then")
    assert all(c.argmax_error is None and c.conditional.argmax_error > 0 for c in as_stated if c.refuted is None)


def test_each_part_refutes_at_its_share_and_not_before():
    # All of 2,000 rows tie: every part is all of them, and refutes from the count that a binomial tail gives.
    n, most, delta = 2000, 0.7, 0.05
    first = next(a for a in range(1400, n) if stats.binom.sf(a - 1, n, most) <= delta / len(SURE))
    for agree, refuted in ((first, True), (first - 1, False)):
        labels = np.where(np.arange(n) < agree, 0, 1)
        sample = Sample(labels, np.tile([0.9, 0.1], (n, 1)))
        assert (examine_noise(sample, np.full(2, most), delta).refuted is not None) is refuted


def test_agreements_with_unlike_bounds_are_refuted_at_most_at_delta():
    rng, delta, repetitions = np.random.default_rng(1), 0.2, 400
    most = np.array([0.95, 0.5])
    predicted = np.arange(300) % 2
    probs = np.eye(2)[predicted] * 0.8 + 0.1
    draws = np.where(rng.random((repetitions, 300)) < most[predicted], predicted, 1 - predicted)
    refuted = sum(examine_noise(Sample(labels, probs), most, delta).refuted is not None for labels in draws)
    assert refuted <= stats.binom.ppf(0.999, repetitions, delta)


def test_where_nothing_could_be_refuted_the_sentence_says_so():
    given, probs = world(np.random.default_rng(2), 40, 0.1, 0.0)
    few = certify(given, probs, bounds=["argmax"], noise_rate=0.02)
    assert few.noise_tested is False and "Whether that is so was not tested" in str(few)
    grouped = certify(given, probs, bounds=["argmax"], noise_rate=0.02, groups=np.arange(40) // 2)
    assert grouped.noise_tested is False
    free = certify(given, probs, bounds=["argmax"], noise_rate=0.1, noise_type="any")
    assert free.noise_tested is None and "tested" not in str(free)
