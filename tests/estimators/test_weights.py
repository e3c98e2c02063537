"""Weights of rows and of classes, over every estimator: what is asked of the one is asked of the other."""

import numpy as np
import pytest
from sklearn.svm import SVC

from every_estimator import EVERY, MADE, make
from mgce import MGCEClassifier, estimators

rng = np.random.default_rng(0)
y = np.array(["ant", "bee", "cat"])[np.arange(60) % 3]
X = rng.normal(size=(60, 2)) + 3 * np.eye(3)[np.arange(60) % 3][:, :2]


def takes_class_weights(name):
    return "class_weight" in make(name).get_params(deep=False)


def test_every_estimator_is_in_the_table():
    of_single_labels = {name for name in estimators.__all__ if name.endswith("Classifier")}
    assert set(MADE) == of_single_labels - {"ConsensusClassifier"}  # which takes several labels a row
    assert {name for name in MADE if takes_class_weights(name)} == {"MGCEClassifier"}


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), -float("inf"), 1e308])
@pytest.mark.parametrize("name", EVERY)
def test_weights_are_finite_and_not_negative(name, bad):
    with pytest.raises(ValueError, match="sample_weight"):
        make(name).fit(X, y, sample_weight=np.where(y == "ant", bad, 1.0))
    if takes_class_weights(name):
        for weights in ({"ant": bad}, {"ant": bad, "bee": 1.0, "cat": 2.0}, {"ant": 1.0, "bee": 1.0, "cat": bad}):
            with pytest.raises(ValueError, match="^Expected `class_weight` to be .*finite"):
                make(name, class_weight=weights).fit(X, y)


@pytest.mark.parametrize("bad", ["heavy", None, 10**400, [1.0, 2.0]], ids=["word", "none", "huge", "pair"])
@pytest.mark.parametrize("name", EVERY)
def test_class_weights_are_numbers(name, bad):
    if takes_class_weights(name):
        with pytest.raises(ValueError, match="^Expected `class_weight` to be finite numbers"):
            make(name, class_weight={"ant": bad}).fit(X, y)


@pytest.mark.parametrize("name", EVERY)
def test_weights_leave_two_classes(name):
    for rows, said in ((np.zeros(60), "zero"), ((y == "bee").astype(float), "")):  # scikit-learn's checks want the word
        with pytest.raises(ValueError, match=f"(`sample_weight`|Sample weights).*{said}"):
            make(name).fit(X, y, sample_weight=rows)
    if takes_class_weights(name):
        for weights in ({"ant": 0, "bee": 0, "cat": 0}, {"ant": 1, "bee": 0, "cat": 0}):
            with pytest.raises(ValueError, match="^Expected `class_weight` to be positive .* at least 2 classes"):
                make(name, class_weight=weights).fit(X, y)
        assert "cat" not in make(name, class_weight={"cat": 0.0}).fit(X, y).predict(X)
    with pytest.raises(ValueError, match="^Expected `y` to be of at least 2 classes, but got '1 class'"):
        make(name).fit(X, np.zeros(60))


@pytest.mark.parametrize("name", EVERY)
def test_class_weights_of_unknown_classes_are_taken_as_scikit_learn_takes_them(name):
    if not takes_class_weights(name):
        return
    every = {"ant": 1.0, "bee": 2.0, "cat": 1.0}
    known, more = (make(name, class_weight=weights).fit(X, y) for weights in (every, {**every, "dog": 5.0}))
    np.testing.assert_array_equal(more.decision_function(X), known.decision_function(X))
    for classifier in (make(name, class_weight={"ant": 1.0, "dog": 5.0}), SVC(class_weight={"ant": 1.0, "dog": 5.0})):
        with pytest.raises(ValueError, match="The classes, .*, are not in class_weight"):
            classifier.fit(X, y)


def test_chunks_and_batches_are_checked_alike():
    clf = MGCEClassifier(class_weight={"ant": -1.0})
    for fit in (lambda: clf.fit_chunks([(X, y)]), lambda: clf.partial_fit(X, y, classes=["ant", "bee", "cat"])):
        with pytest.raises(ValueError, match="Expected `class_weight` to be finite numbers .*, but got -1.0"):
            fit()
    assert not hasattr(clf, "coef_")
