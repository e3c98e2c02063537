"""Labels of several annotators: matrices, copying and right classes, against made annotators whose errors are known."""

import itertools

import numpy as np
import pytest

from crowds import K, made, prior
from mgce.labels.annotators import ESTIMATION, Annotations, annotator_model, transitions_of


@pytest.fixture(scope="module")
def crowd():
    right, labels = made(3000, (0.1, 0.2, 0.3, 0.5), asked=3)
    return right, labels, prior(right, 0.7)


def test_posterior_is_that_of_bayes_when_matrices_are_given(crowd):
    _, labels, probs = crowd
    found = annotator_model(Annotations.of(labels, K), probs)
    some = np.arange(20)
    q = (probs[some] + 1e-3) ** found.sharpness
    given = found.annotations.row, found.annotations.annotator
    place = {pair: number for number, pair in enumerate(zip(*given, strict=True))}
    for i, c in itertools.product(some, range(K)):
        for j in np.flatnonzero(labels[i] >= 0):
            q[i, c] *= found.transitions[j, c, labels[i, j]] ** found.weight[place[i, j]]
    np.testing.assert_allclose(found.probs[some], q / q.sum(1, keepdims=True), atol=2e-3)  # one step behind


def test_matrices_are_those_that_labels_were_made_with(crowd):
    _, labels, probs = crowd
    found = annotator_model(Annotations.of(labels, K), probs)
    diagonal = found.transitions[:, np.arange(K), np.arange(K)].mean(1)
    np.testing.assert_allclose(diagonal, [0.9, 0.8, 0.7, 0.5], atol=0.04)
    np.testing.assert_allclose(found.transitions.sum(2), 1)
    assert found.copying.max() < 0.1  # nobody copies


def test_consensus_is_better_than_votes_and_than_the_prior(crowd):
    right, labels, probs = crowd
    found = annotator_model(Annotations.of(labels, K), probs)
    ours = (found.probs.argmax(1) == right).mean()
    votes = Annotations.of(labels, K).votes() + 0.01 * np.random.default_rng(0).random((len(right), K))
    assert ours > (votes.argmax(1) == right).mean() + 0.05
    assert ours > 0.7 + 0.15
    assert abs(found.probs.max(1).mean() - ours) < 0.02  # calibrated, as errors are independent


def test_two_who_copy_count_once():
    right, labels = made(2500, (0.1, 0.15, 0.2, 0.2, 0.4), copies=4, asked=3)
    probs = prior(right, 0.7)
    found = annotator_model(Annotations.of(labels, K), probs)
    others = found.copying[:4, :4][~np.eye(4, dtype=bool)]
    assert found.copying[4, 5] > 0.5 and others.max() < 0.25
    entries = zip(found.annotations.row, found.annotations.annotator, found.annotations.label, strict=True)
    for number, (i, j, label) in enumerate([*entries][:300]):
        shared = sum(found.copying[j, other] for other in range(6) if other != j and labels[i, other] == label)
        assert found.weight[number] == pytest.approx(1 / (1 + shared))
    both = (labels[:, 4:] >= 0).all(1)
    twice = annotator_model(Annotations.of(labels[both], K), probs[both])  # the same rows, with no one to compare
    assert (found.probs.argmax(1) == right)[both].mean() > (twice.probs.argmax(1) == right[both]).mean() + 0.02


def test_few_labels_are_drawn_to_the_pooled_matrix():
    right, labels = made(1000, (0.1,) * 6)
    labels[5:, 5] = -1  # the last annotator has labelled five rows
    labels[:5, 5] = (right[:5] + 1) % K
    found = annotator_model(Annotations.of(labels, K), prior(right, 0.7))
    own = np.abs(found.transitions[5] - found.pooled).max()
    assert own < 0.35  # with its counts alone, rows of the matrix would be 0 or 1


def test_nobody_is_asked_about_a_row():
    right, labels = made(300, (0.1, 0.2))
    labels[:10] = -1
    probs = prior(right, 0.7)
    found = annotator_model(Annotations.of(labels, K), probs)
    np.testing.assert_array_equal(found.probs[:10].argmax(1), probs[:10].argmax(1))


def test_entries_of_some_rows_keep_their_labels():
    _, labels = made(50, (0.1, 0.2), asked=1)
    some = Annotations.of(labels, K).only(np.array([7, 3, 40]))
    matrix = np.full((3, 2), -1)
    matrix[some.row, some.annotator] = some.label
    np.testing.assert_array_equal(matrix, labels[[7, 3, 40]])


def test_a_class_out_of_range_is_refused():
    with pytest.raises(ValueError, match="classes below 3"):
        Annotations.of(np.array([[0, 3]]), 3)


def test_annotators_who_never_err_are_expected_to_err_rarely():
    right = np.repeat([0, 1], 10)
    labels = np.stack([right, right], 1)
    given = Annotations.of(labels, 2).matrix()
    own, pooled = transitions_of(given, np.eye(2)[right], (20, 2, 2))
    # Of each class 20 labels, and as many as the prior counts with one wrong label in the 40.
    np.testing.assert_allclose(np.diag(pooled), (20 + ESTIMATION.prior * 39 / 40) / (20 + ESTIMATION.prior))
    assert (np.diagonal(own, axis1=1, axis2=2) > 0.99).all()
