import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import average_precision_score

from mgce.estimators import MGCEForestClassifier
from mgce.noise.confident import confident_labels
from mgce.noise.share import noise_share
from mgce.tables import suspects
from mgce.tables.suspects import judge, judgement


def test_by_hand(monkeypatch):
    # Without rows given beforehand, and with steps to the end, q solves p = q T, or is zero where that is negative.
    monkeypatch.setattr(suspects, "PRIOR_ROWS", 1e-12)
    monkeypatch.setattr(suspects, "EM_STEPS", 10_000)
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7], [0.88, 0.12]])
    target = np.array([0, 0, 1, 1, 1])
    found = judgement(probs, target)
    # Thresholds: .85 of class 0, .54 of class 1. The last row has .88 of class 0 and is an issue.
    assert found.is_issue.tolist() == [False, False, False, False, True]
    assert found.suggested.tolist() == [0, 0, 1, 1, 0]
    # The issues make T = ((2/3, 1/3), (0, 1)): a label 0 is right, and q = p T^-1 = (3/2 p_0, p_1 - p_0 / 2).
    q = np.stack([1.5 * probs[:, 0], probs[:, 1] - probs[:, 0] / 2], 1).clip(0)
    q /= q.sum(1, keepdims=True)
    wrong = [q[i, 0] / 3 / (q[i, 0] / 3 + q[i, 1]) for i in (2, 3, 4)]
    np.testing.assert_allclose(found.wrong, [0, 0, *wrong], atol=1e-6)
    first = np.array([1, 1, *wrong])  # the probability of class 0 to be the right one, given the row and its label
    by_class = suspects.right_class_probs(probs, target, confident_labels(probs, target))
    np.testing.assert_allclose(by_class, np.stack([first, 1 - first], 1), atol=1e-6)
    assert found.order()[0] == 4 and found.suspects(9).tolist() == [4]


def test_the_noise_matrix_counts_rows_and_some_that_are_given_beforehand():
    target, confident = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 1])
    # A third of the rows are issues. 10 rows of each class beforehand, a third of them with one of the other labels.
    beforehand = 10 * np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4]]) / 6
    expected = (np.array([[2, 0, 0], [1, 2, 1], [0, 0, 0]]) + beforehand) / [[12], [14], [10]]
    np.testing.assert_allclose(suspects._noise_matrix(target, confident, 3), expected)


def test_each_step_makes_the_probabilities_likelier(monkeypatch):
    rng = np.random.default_rng(0)
    probs, target = rng.dirichlet(np.ones(4), size=30), np.arange(30) % 4
    noise = suspects._noise_matrix(target, confident_labels(probs, target), 4)
    least = [
        minimize(
            lambda a, p=p: -p @ np.log(np.exp(a) / np.exp(a).sum() @ noise), np.zeros(4), method="BFGS", tol=1e-9
        ).fun
        for p in probs
    ]
    monkeypatch.setattr(suspects, "EM_STEPS", 20_000)
    right = suspects._right(probs, noise)
    np.testing.assert_allclose(right.sum(1), 1)
    np.testing.assert_allclose(-(probs * np.log(right @ noise)).sum(1), least, atol=1e-5)


def test_rare_classes_do_not_spoil_the_ranking():
    # Wrong labels at random; a class of 1 % of the rows has hardly any row from which its noise could be told.
    rng = np.random.default_rng(1)
    n, shares = 1000, np.array([0.6, 0.35, 0.03, 0.01, 0.01])
    right = rng.choice(5, size=n, p=shares)
    bad = rng.random(n) < 0.2
    given = np.where(bad, (right + rng.integers(1, 5, n)) % 5, right)
    X = rng.normal(size=(n, 6)) + 2 * rng.normal(size=(5, 6))[right]
    found = judge(X, given, np.arange(n), 0)
    prob_given = found.probs[np.arange(n), given]
    margin = prob_given - np.where(np.eye(5, dtype=bool)[given], -1, found.probs).max(1)
    assert average_precision_score(bad, found.wrong) > average_precision_score(bad, -margin) - 0.03


@pytest.mark.parametrize("kind", ["symmetric", "pair"])
def test_wrong_labels_are_found_and_counted(kind, monkeypatch):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    bad = rng.random(len(y)) < 0.2
    given = np.where(bad, (y + (1 if kind == "pair" else rng.integers(1, 10, len(y)))) % 10, y)
    train = rng.permutation(len(y))[:1200]
    found = judge(X, given, train, 0)
    held_out = np.setdiff1d(np.arange(len(y)), train)
    for rows in (train, held_out):
        assert average_precision_score(bad[rows], found.wrong[rows]) > 0.95
    monkeypatch.setattr(suspects, "judges", lambda *_: None)
    grown = judge(X, given, train, 0)  # the share is that of fully grown trees, whatever ranks the labels
    assert found.share == grown.share == noise_share(given, grown.probs)
    assert not np.array_equal(found.probs, grown.probs)
    assert found.share.lower <= bad.mean() <= found.share.upper and abs(found.share.share - 0.2) < 0.03
    assert bad[found.suspects(50)].mean() > 0.95


def test_a_row_is_judged_by_trees_that_have_not_seen_it(monkeypatch):
    X, y = load_iris(return_X_y=True)
    rows = np.flatnonzero(y == 0)[:3]
    given = y.copy()
    given[rows] = 2  # trees that have seen these rows would believe them
    found = judge(X, given, np.arange(150), 0)
    assert (found.suggested[rows] == 0).all() and set(rows.tolist()) <= set(found.suspects(4).tolist())
    monkeypatch.setattr(suspects, "judges", lambda *_: None)
    grown = judge(X, given, np.arange(150), 0)
    assert (grown.suggested[rows] == 0).all() and set(grown.suspects(3).tolist()) == set(rows.tolist())


def test_a_forest_that_was_fitted_gives_the_same_judgement():
    X, target = load_iris(return_X_y=True)
    train = np.arange(0, 150, 2)
    named = np.array(["a", "b", "c"])[target[train]]
    fitted = MGCEForestClassifier(3.0, random_state=7).fit(X[train], named)
    found = judge(X, target, train, 7, fitted=[fitted])
    alone = judge(X, target, train, 7, fitted=["a model of another kind"])
    np.testing.assert_array_equal(found.probs, alone.probs)


def test_ties_do_not_depend_on_the_order_of_the_rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    target = np.r_[np.zeros(40, int), np.ones(20, int)]
    probs = np.where(np.arange(60)[:, None] % 3 == 0, [[0.2, 0.8]], [[0.7, 0.3]])  # two kinds of rows, many ties
    listed = X[judgement(probs, target, X=X).suspects(10)]
    assert len(np.unique(listed, axis=0)) == 10
    for order in (np.arange(60)[::-1], generator.permutation(60)):
        found = judgement(probs[order], target[order], X=X[order])
        np.testing.assert_array_equal(X[order][found.suspects(10)], listed)
