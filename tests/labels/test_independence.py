"""The test whether annotators err independently, on made labels that do and do not."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from crowds import K, made, prior
from mgce.labels.annotators import Annotations, annotator_model
from mgce.labels.independence import as_independent, independence, shared_evidence


def found(labels, probs):
    return independence(annotator_model(Annotations.of(labels, K), probs))


def dependent(n, kind, seed=0):
    """Return right classes and labels of three annotators, wrong on about 20 % of the rows, who err in some way.

    Args:
        n: number of rows.
        kind: "independent"; "alike", two of three give the same wrong class of hard rows; "together", wrong labels of
            different classes come together: where one is wrong, others are in 28 %; "apart", no two are wrong.
        seed: seed of the draw.
    """
    rng = np.random.default_rng(seed)
    right = rng.integers(K, size=n)
    wrong = rng.random((n, 3)) < 0.2
    if kind == "together":
        hard = rng.random(n) < 0.5
        wrong = rng.random((n, 3)) < np.where(hard, 0.33, 0.08)[:, None]
    elif kind == "apart":
        who = rng.choice(4, n, p=[0.2, 0.2, 0.2, 0.4])
        wrong = who[:, None] == np.arange(3)
    labels = np.where(wrong, (right[:, None] + rng.integers(1, K, (n, 3))) % K, right[:, None])
    if kind == "alike":
        labels[rng.random(n) < 0.1, :2] = -1
        labels[:, :2] = np.where(labels[:, :2] < 0, (right[:, None] + 1) % K, labels[:, :2])
    return right, labels


def test_together_is_28_of_100_where_20_would_be():
    right, labels = dependent(100_000, "together")
    wrong = labels != right[:, None]
    assert wrong.mean() == pytest.approx(0.2, abs=0.01)
    assert wrong[wrong[:, 0], 1].mean() == pytest.approx(0.28, abs=0.01)


def test_independent_errors_are_seldom_refuted():
    refuted = 0
    for seed in range(10):
        right, labels = made(500, (0.2, 0.2, 0.3), seed=seed)
        refuted += found(labels, prior(right, 0.7, seed=seed + 1000)).refuted
    assert refuted <= 3  # of 10 at level 0.05: more has a probability of 0.1 %


@pytest.mark.parametrize(
    ("draws", "most"),
    [pytest.param(40, 6, marks=pytest.mark.slow), pytest.param(200, 18, marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("sure", [pytest.param(0.7, marks=pytest.mark.nightly), 0.9, None])
def test_the_level_holds(sure, draws, most):
    """With a weak, a strong and no classifier. More than `most` at level 0.05 have a probability of 0.5 % or less."""
    assert stats.binom.sf(most, draws, 0.05) < 0.006
    refuted = 0
    for seed in range(draws):
        right, labels = made(500, (0.2, 0.2, 0.3), seed=seed)
        refuted += found(labels, None if sure is None else prior(right, sure, seed=seed + 1000)).refuted
    assert refuted <= most


@pytest.mark.parametrize(
    ("draws", "most"), [pytest.param(12, 3, marks=pytest.mark.slow), pytest.param(60, 8, marks=pytest.mark.nightly)]
)
def test_the_level_holds_with_many_annotators(draws, most):
    """Of whom some seem to err together by chance."""
    assert stats.binom.sf(most, draws, 0.05) < 0.003
    refuted = 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        right = rng.integers(K, size=1000)
        labels, wrong_rate = np.full((1000, 60), -1), rng.uniform(0.1, 0.3, 60)
        for who in rng.integers(60, size=(3, 1000)):
            other = (right + rng.integers(1, K, 1000)) % K
            labels[np.arange(1000), who] = np.where(rng.random(1000) < wrong_rate[who], other, right)
        refuted += found(labels, prior(right, 0.7, seed=seed)).refuted
    assert refuted <= most


def test_independent_estimates_are_those_of_plain_expectation_maximisation():
    """Two of six annotators are copies, whose labels count half in the model and fully here."""
    right, labels = made(1500, (0.1, 0.2, 0.2, 0.3, 0.4), copies=4, asked=3)
    probs = prior(right, 0.7)
    model = annotator_model(Annotations.of(labels, K), probs)
    plain = as_independent(model)
    assert model.weight.min() < 0.7 and (plain.weight == 1).all()
    posterior = np.log(probs + 1e-3) * model.sharpness
    for j in range(6):
        given = labels[:, j] >= 0
        posterior[given] += np.log(plain.transitions[j][:, labels[given, j]].T)
    np.testing.assert_allclose(plain.probs, softmax(posterior, axis=1), atol=0.01)
    assert np.abs(plain.probs - model.probs).max() > 0.1


@pytest.mark.parametrize("kind", ["alike", "together", "apart"])
@pytest.mark.parametrize("sure", [0.7, 0.9])
def test_dependent_errors_are_refuted_in_either_direction(kind, sure):
    right, labels = dependent(3000, kind)
    said = found(labels, prior(right, sure))
    assert said.refuted and said.p_value < 1e-3
    assert "do not err independently" in str(said) and "certify" in str(said)
    if sure == 0.9:  # a weak classifier cannot tell which of two labels is wrong
        assert (said.both_wrong > said.both_by_chance) == (kind != "apart")


def test_pairs_are_counted_by_the_weaker_estimates_where_all_are_wrong_on_hard_rows():
    right, labels = dependent(6000, "together")
    model = annotator_model(Annotations.of(labels, K), prior(right, 0.9))
    plain, said = independence(model), independence(model, shared_evidence(model)[0])
    wrong = labels != right[:, None]
    truth = sum((wrong[:, a] & wrong[:, b]).sum() for a, b in ((0, 1), (0, 2), (1, 2)))
    assert said.p_value == plain.p_value
    assert abs(said.both_wrong - truth) < 0.75 * abs(plain.both_wrong - truth)


@pytest.mark.parametrize("kind", ["together", "apart"])
def test_three_annotators_alone_refute_too(kind):
    assert found(dependent(3000, kind)[1], None).p_value < 0.01


@pytest.mark.parametrize(
    ("annotators", "classes", "testable"), [(2, 4, False), (3, 2, False), (3, 4, True), (4, 2, True)]
)
def test_too_few_annotators_alone_test_nothing(annotators, classes, testable):
    right, labels = made(400, (0.2,) * annotators)
    labels %= classes
    said = independence(annotator_model(Annotations.of(labels, classes), None))
    assert said.is_testable == testable and (testable or said.refuted)
    assert ("cannot show" in str(said)) != testable
    sure = np.full((400, classes), 0.2 / (classes - 1))
    sure[np.arange(400), right % classes] = 0.8
    assert independence(annotator_model(Annotations.of(labels, classes), sure)).is_testable


def test_one_label_a_row_tests_nothing():
    right, labels = made(100, (0.2, 0.2), asked=1)
    said = found(labels, prior(right, 0.7))
    assert said.refuted and said.n_pairs == 0 and "No row has two labels" in str(said)


def test_pairs_are_counted_one_by_one():
    right, labels = made(60, (0.3, 0.3, 0.4), asked=2)
    model = annotator_model(Annotations.of(labels, K), prior(right, 0.7))
    said, pairs = independence(model, as_independent(model)), 0
    model = as_independent(model)
    both, same = np.zeros((2, 2))
    difference = np.zeros((60, 2))
    for i, row in enumerate(labels):
        given = np.flatnonzero(row >= 0)
        for a in given:
            for b in given[given > a]:
                pairs += 1
                for c in range(K):
                    wrong = np.arange(K) != c
                    first, second = (np.eye(K)[row[j]][wrong] for j in (a, b))
                    chances = (model.transitions[j, c][wrong] for j in (a, b))
                    by_first, by_second = chances
                    both += model.probs[i, c] * np.array([first.sum() * second.sum(), by_first.sum() * by_second.sum()])
                    same += model.probs[i, c] * np.array([first @ second, by_first @ by_second])
                    u, v = first - by_first, second - by_second
                    difference[i] += model.probs[i, c] * np.array([u.sum() * v.sum(), u @ v])
    assert said.n_pairs == pairs
    np.testing.assert_allclose([said.both_wrong, said.both_by_chance], both, rtol=1e-9)
    np.testing.assert_allclose([said.observed, said.by_chance], same, rtol=1e-9)
    mean, covariance = difference.mean(0), np.cov(difference.T) / 60
    assert said.p_value == pytest.approx(stats.chi2.sf(mean @ np.linalg.inv(covariance) @ mean, 2))
