import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import scale

from mgce.desk.tables.learning import judge_labels
from mgce.estimators import LabelCorrectionClassifier, MGCEEmbeddingClassifier
from mgce.labels.doubtful import doubtful_labels


def judged(X, given, distinct=None, first=None, **parameters):
    """Fit a classifier that corrects labels to distinct rows, and judge the labels of all."""
    every = np.arange(len(X))
    distinct, first = every if distinct is None else distinct, every if first is None else first
    small = {"n_estimators": 50, "n_components": 200, "random_state": 0, **parameters}
    classifier = LabelCorrectionClassifier(**small).fit(X[distinct], given[distinct])
    return judge_labels(classifier, "correction", X, given, distinct, first)


def test_rare_classes_do_not_spoil_the_ranking():
    # Wrong labels at random; a class of 1 % of the rows has hardly any row from which its noise could be told.
    rng = np.random.default_rng(1)
    n, shares = 1000, np.array([0.6, 0.35, 0.03, 0.01, 0.01])
    right = rng.choice(5, size=n, p=shares)
    bad = rng.random(n) < 0.2
    given = np.where(bad, (right + rng.integers(1, 5, n)) % 5, right)
    X = rng.normal(size=(n, 6)) + 2 * rng.normal(size=(5, 6))[right]
    found = judged(X, given)
    prob_given = found.probs[np.arange(n), given]
    margin = prob_given - np.where(np.eye(5, dtype=bool)[given], -1, found.probs).max(1)
    assert average_precision_score(bad, found.wrong) > average_precision_score(bad, -margin) - 0.03


@pytest.mark.usefixtures("all_trees")
@pytest.mark.parametrize("kind", ["symmetric", "pair"])
def test_wrong_labels_are_found(kind):
    X, y = load_digits(return_X_y=True)
    X, y = X[:1200] / 16, y[:1200]
    rng = np.random.default_rng(0)
    bad = rng.random(len(y)) < 0.2
    given = np.where(bad, (y + (1 if kind == "pair" else rng.integers(1, 10, len(y)))) % 10, y)
    found = judged(X, given)
    assert found.source == "correction" and found.classes.tolist() == list(range(10))
    assert average_precision_score(bad, found.wrong) > 0.95
    assert bad.mean() <= found.share.upper < 0.35
    assert bad[found.suspects(50)].mean() > 0.95
    assert bad[found.is_issue].mean() > 0.95 and found.is_issue[bad].mean() > 0.5  # it is said of the surest only


def test_a_row_is_judged_by_what_has_not_learnt_its_label():
    X, y = load_iris(return_X_y=True)
    rows = np.flatnonzero(y == 0)[:3]
    given = y.copy()
    given[rows] = 2  # who has learnt these labels would believe them
    found = judged(scale(X), given)
    assert (found.suggested[rows] == 0).all() and set(rows.tolist()) <= set(found.suspects(4).tolist())


def test_all_copies_of_a_row_are_judged_alike_by_the_row_that_stands_for_them():
    X, y = load_iris(return_X_y=True)
    X, first = scale(X), np.r_[np.arange(150), np.zeros(30, int), 149]
    X, y, distinct = X[first], y[first], np.random.default_rng(0).permutation(150)
    found = judged(X, y, distinct, first)
    classifier = LabelCorrectionClassifier(n_estimators=50, n_components=200, random_state=0)
    probs = np.empty((150, 3))
    probs[distinct] = classifier.fit(X[distinct], y[distinct]).left_out_proba_
    np.testing.assert_array_equal(found.probs, probs[first])
    assert found.is_distinct.sum() == found.share.n == 150
    expected = doubtful_labels(probs[first], y, first=first, X=X)
    np.testing.assert_array_equal(found.order, expected.order)


def test_rows_that_were_dropped_are_judged_by_what_was_learnt_from_the_others():
    """Their probabilities were whatever the memory held."""
    X, y = load_iris(return_X_y=True)
    X, dropped, rest = scale(X), np.array([3, 70, 149]), np.delete(np.arange(150), [3, 70, 149])
    wrong = y.copy()
    wrong[3] = 1
    found = judged(X, wrong, rest)
    classifier = LabelCorrectionClassifier(n_estimators=50, n_components=200, random_state=0).fit(X[rest], y[rest])
    given = classifier.predict_proba(X[dropped]) @ classifier.transition_
    np.testing.assert_allclose(found.probs[dropped], given)
    np.testing.assert_allclose(found.probs.sum(1), 1)
    assert found.suspects(1).tolist() == [3]


def test_heads_judge_by_their_folds_and_dropped_rows_by_all():
    X, y = load_iris(return_X_y=True)
    X, rest = scale(X), np.delete(np.arange(150), [3, 70, 149])
    head = MGCEEmbeddingClassifier(random_state=3).fit(X[rest], y[rest])
    found = judge_labels(head, "head", X, y, rest, np.arange(150))
    np.testing.assert_array_equal(found.probs[rest], head.oof_proba_)
    np.testing.assert_allclose(found.probs[[3, 70, 149]], head.predict_proba(X[[3, 70, 149]]), atol=1e-9)
    assert found.source == "head"
