"""Probabilities that are too even are sharpened to what the labels say; others stay as they are."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

import mgce
from mgce.labels.sharpened import sharpened


def drawn(n=2000, k=4, seed=0):
    """Return probabilities, and labels that are drawn from them."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.4), n)
    return probs, (probs.cumsum(1) > rng.random((n, 1))).argmax(1)


def powered(probs, power):
    return probs**power / (probs**power).sum(1, keepdims=True)


def test_the_probabilities_that_drew_the_labels_come_back():
    probs, target = drawn()
    found = sharpened(powered(probs, 0.25), target)
    assert np.abs(found - probs).max() < 0.03


@pytest.mark.parametrize("power", [1.0, 1.5, 4.0])
def test_probabilities_that_are_right_or_too_sure_stay(power):
    probs, target = drawn()
    given = powered(probs, power)
    assert sharpened(given, target) is given


@pytest.mark.parametrize("alike", ["same", "certain", "few"])
def test_labels_that_say_nothing_change_nothing(alike):
    probs, target = drawn(4 if alike == "few" else 50)
    if alike == "same":
        probs = np.full_like(probs, 0.25)
    elif alike == "certain":
        probs = np.eye(4)[(target + 1) % 4]
    assert sharpened(probs, target) is probs


def test_a_shallow_forest_lists_wrong_labels_as_cleanlab_does():
    filter_ = pytest.importorskip("cleanlab.filter")
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(len(y)) < 0.05, (y + rng.integers(1, 10, len(y))) % 10, y)
    forest = RandomForestClassifier(20, max_depth=5, random_state=0)
    probs = cross_val_predict(forest, X, labels, cv=3, method="predict_proba")
    found = mgce.find_suspects(probs, labels, given="probs")
    theirs = filter_.find_label_issues(labels, probs, n_jobs=1)
    wrong = labels != y
    np.testing.assert_allclose(found.probs, probs, rtol=1e-12)
    assert wrong[found.is_issue].mean() > max(0.8, wrong[theirs].mean())
    assert wrong[found.is_issue].sum() > wrong.sum() / 2
