import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import average_precision_score

from mgce.desk.tables import judging
from mgce.desk.tables.judging import judge
from mgce.estimators import MGCEForestClassifier
from mgce.labels.share import noise_share


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


@pytest.mark.usefixtures("all_trees")
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
    monkeypatch.setattr(judging, "judges", lambda *_: None)
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
    monkeypatch.setattr(judging, "judges", lambda *_: None)
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
