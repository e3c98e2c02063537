"""The test whether annotators err independently, on made labels that do and do not."""

import numpy as np
import pytest

from crowds import K, made, prior
from mgce.noise.annotators import Annotations, annotator_model
from mgce.noise.independence import independence


def found(labels, probs):
    return independence(annotator_model(Annotations.of(labels, K), probs))


def test_independent_errors_are_seldom_refuted():
    refuted = 0
    for seed in range(10):
        right, labels = made(500, (0.2, 0.2, 0.3), seed=seed)
        refuted += found(labels, prior(right, 0.7, seed=seed + 1000)).refuted
    assert refuted <= 3  # of 10 at level 0.05: more has a probability of 0.1 %


def test_common_errors_are_refuted():
    right, labels = made(2000, (0.2, 0.2, 0.2))
    hard = np.random.default_rng(5).random(2000) < 0.3  # rows whose next class two of three take for right
    labels[hard, :2] = (right[hard, None] + 1) % K
    said = found(labels, prior(right, 0.7))
    assert said.refuted and said.observed != pytest.approx(said.by_chance, rel=0.1)
    assert "do not err independently" in str(said) and "certify" in str(said)


def test_one_label_a_row_tests_nothing():
    right, labels = made(100, (0.2, 0.2), asked=1)
    said = found(labels, prior(right, 0.7))
    assert said.refuted and said.n_pairs == 0 and "No row has two labels" in str(said)


def test_pairs_are_counted_one_by_one():
    right, labels = made(60, (0.3, 0.3, 0.4), asked=2)
    model = annotator_model(Annotations.of(labels, K), prior(right, 0.7))
    said, observed, by_chance, pairs = independence(model), 0.0, 0.0, 0
    for i, row in enumerate(labels):
        given = np.flatnonzero(row >= 0)
        for a in given:
            for b in given[given > a]:
                pairs += 1
                observed += (row[a] == row[b]) * (1 - model.probs[i, row[a]])
                both = model.transitions[a] * model.transitions[b]
                by_chance += model.probs[i] @ (both.sum(1) - np.diag(both))
    assert said.n_pairs == pairs
    np.testing.assert_allclose([said.observed, said.by_chance], [observed, by_chance], rtol=1e-9)
