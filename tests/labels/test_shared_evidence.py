"""Probabilities of rows that are hard for all annotators and the classifier, against the right classes."""

import numpy as np
import pytest
from scipy.special import softmax

from crowds import K, made, prior
from mgce import find_consensus
from mgce.labels.annotators import Annotations, annotator_model, annotator_table
from mgce.labels.independence import shared_evidence


def hard_rows(n, seed=0):
    """Return right classes, labels of three annotators and a classifier's probabilities.

    30 % of the rows are hard. Half of their labels are wrong, and half of these name the class that the row looks like.
    The classifier takes half of the hard rows for that class, and knows how often it is wrong on them.
    """
    rng = np.random.default_rng(seed)
    right, labels = made(n, (0.05,) * 3, seed=seed)
    hard, near = rng.random(n) < 0.3, (right + rng.integers(1, K, n)) % K
    other = (right[:, None] + rng.integers(1, K, (n, 3))) % K
    wrong = hard[:, None] & (rng.random((n, 3)) < 0.5)
    labels = np.where(wrong, np.where(rng.random((n, 3)) < 0.5, near[:, None], other), labels)
    sure = np.where(hard, 0.5, 0.95)
    top = np.where(rng.random(n) < sure, right, np.where(hard, near, other[:, 0]))
    probs = np.repeat((1 - sure)[:, None] / (K - 1), K, 1)
    probs[np.arange(n), top] = sure
    return right, labels, probs


def gap(probs, right):
    """Return by how much the probability of the consensus is above the share of right ones."""
    return probs.max(1).mean() - (probs.argmax(1) == right).mean()


@pytest.mark.parametrize("asked", [2, 3])
def test_probabilities_hold_where_all_sources_are_wrong_on_the_same_rows(asked):
    right, labels, probs = hard_rows(4000)
    if asked == 2:
        labels[np.arange(4000), np.arange(4000) % 3] = -1
    model = annotator_model(Annotations.of(labels, K), probs)
    weaker, rho = shared_evidence(model)
    assert gap(model.probs, right) > 0.02 and abs(gap(weaker.probs, right)) < gap(model.probs, right) / 2
    assert rho > 0.1 and (weaker.probs.argmax(1) == model.probs.argmax(1)).all()


def test_sources_that_err_independently_stay_as_they_are():
    right, labels = made(4000, (0.2, 0.3, 0.3))
    model = annotator_model(Annotations.of(labels, K), prior(right, 0.7))
    weaker, rho = shared_evidence(model)
    assert rho < 0.05 and abs(gap(weaker.probs, right)) < 0.01


def test_rho_predicts_left_out_labels_best():
    """Each label is left out by hand, and predicted by the other sources of its row."""
    _, labels, probs = hard_rows(150)
    model = annotator_model(Annotations.of(labels, K), probs)
    _, rho = shared_evidence(model)

    def likelihood(rho):
        total = -rho
        weight = iter(model.weight)
        weights = [[next(weight) for _ in row] for row in labels]
        for i, row in enumerate(labels):
            for j, label in enumerate(row):
                logits = model.sharpness * np.log(probs[i] + 1e-3)
                for other in set(range(3)) - {j}:
                    logits = logits + weights[i][other] * np.log(model.transitions[other, :, row[other]])
                total += np.log(softmax(logits / (1 + 2 * rho)) @ model.transitions[j, :, label])
        return total

    best = likelihood(rho)
    assert rho > 0 and all(best >= likelihood(near) - 1e-6 for near in (0, 0.9 * rho, 1.1 * rho))


def test_nothing_is_weakened_where_no_row_has_two_sources_beside_a_label():
    right, labels = made(300, (0.3, 0.3))
    found = find_consensus(labels)
    np.testing.assert_allclose(found.probs.sum(1), 1)
    assert found.rho == 0
    labels[:, 1] = -1
    assert find_consensus(labels, prior(right, 0.7)).rho == 0


def test_intervals_of_accuracies_hold_on_hard_rows():
    """The intervals of the estimates that assume independent sources do not."""
    inside, before = [], []
    for seed in range(5):
        right, labels, probs = hard_rows(1500, seed)
        found = find_consensus(labels, probs)
        true = (labels == right[:, None]).mean(0)
        for place, table in (
            (inside, found.annotators),
            (before, annotator_table(found.independent, list("abc"), found.classes)),
        ):
            ranges = zip((one.estimated_range for one in table), true, strict=True)
            place += [lower < share < upper for (lower, upper), share in ranges]
    assert np.mean(inside) > 0.9 and np.mean(before) < 0.5
