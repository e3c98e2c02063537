"""The kind of noise, by simulated predictions whose kind is known, and by hand."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, combine_pvalues

from mgce.labels import share as module
from mgce.labels.share import CLASS_DEPENDENT, UNKNOWN, kind_of_predictions
from mgce_lab.studies.noise_kind import CLASSES, NETWORKS, drawn, kinds

DRAWS = 200


def class_dependent(noise, rate, network, draws=DRAWS):
    """Return how many of the samples are called class-dependent."""
    rng = np.random.default_rng(1)
    samples = (drawn(noise, rate, rng, network=network) for _ in range(draws))
    return sum(kind_of_predictions(*one, CLASSES).kind == CLASS_DEPENDENT for one in samples)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_right_labels_and_symmetric_noise_are_rarely_called_class_dependent(rate, network):
    # By chance more than so many in one of a million tests, at the stated level.
    assert class_dependent("symmetric", rate, network) <= binom.ppf(1 - 1e-6, DRAWS, 0.05)


def test_strong_asymmetric_noise_is_seen_and_weak_noise_in_part():
    network = NETWORKS["18 % errors"]
    assert class_dependent("asymmetric", 0.4, network) > 0.95 * DRAWS
    assert 0.05 * DRAWS < class_dependent("asymmetric", 0.2, network) < 0.5 * DRAWS


def test_the_pairs_are_those_that_were_mapped():
    found = kinds("asymmetric", 0.5, NETWORKS["18 % errors"], draws=10)
    pairs = [pair for one in found for pair in one.pairs]
    assert {(c, c + 1) for c in range(CLASSES // 2)} == set(pairs)


@pytest.mark.parametrize("k, sure, kind", [(2, 8, UNKNOWN), (8, 19, CLASS_DEPENDENT)])
def test_the_tail_is_that_of_binomial_tests(k, sure, kind):
    """Classes of forty rows: of class 0, the label 1 on 10 of 20 unsure and on some of 20 sure rows."""
    predicted = np.repeat(np.arange(k), 40)
    target, confidence = predicted.copy(), np.tile(np.arange(40.0), k)
    target[:10], target[20 : 20 + sure] = 1, 1
    target[40::40], target[79::40] = 0, 0  # of the other classes, the label 0 on 1 and on 1
    found = kind_of_predictions(target, predicted, confidence, k)
    rate = binomtest(sure + k - 1, 20 * k).proportion_ci(1 - 2 * module.KIND_TEST.rate_level).high
    errs = [max(0.1, binomtest(one, 20).proportion_ci(0.5).high / 2) for one in (10, *[1] * (k - 1))]
    other = rate / (k - 1)
    tails = [
        binomtest(count, 20, max(e, other + e * max(0, 1 - rate - other)), alternative="greater").pvalue
        for count, e in zip((sure, *[1] * (k - 1)), errs, strict=True)
    ]
    fisher, bonferroni = combine_pvalues(tails).pvalue, k * min(tails)
    assert found.p_value == pytest.approx(min(1, 2 * min(fisher, bonferroni))) and found.kind == kind
    assert (bonferroni < fisher) == (k == 8)


def test_the_order_of_the_file_is_no_order_of_rows_that_tie():
    """Symmetric noise, sorted by given label: halves of a file would look like noise of the classes."""
    rng = np.random.default_rng(0)
    right = rng.integers(CLASSES, size=800)
    given = np.where(rng.random(800) < 0.3, rng.integers(CLASSES, size=800), right)
    order = np.argsort((given - right) % CLASSES, kind="stable")
    for confidence in (np.ones(800), rng.integers(3, size=800).astype(float)):
        found = kind_of_predictions(given, right, confidence, CLASSES)
        turned = kind_of_predictions(given[order], right[order], confidence[order], CLASSES)
        assert found == turned and found.kind == UNKNOWN
    assert kind_of_predictions(given, right, np.ones(800), CLASSES).p_value == 1


def test_the_order_of_rows_and_right_predictions_tell_nothing():
    rng = np.random.default_rng(0)
    sample = drawn("asymmetric", 0.3, rng, network=(0.03, 0.5))
    order = rng.permutation(len(sample[0]))
    one, other = (kind_of_predictions(*(part[o] for part in sample), CLASSES) for o in (slice(None), order))
    assert one == other
    right, confidence = sample[1], sample[2]
    assert kind_of_predictions(right, right, confidence, CLASSES).kind == UNKNOWN
    assert kind_of_predictions((right + 1) % CLASSES, right, confidence, CLASSES).kind == CLASS_DEPENDENT
