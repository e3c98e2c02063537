"""`find_suspects`: in one call, from features or from probabilities."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from mgce import MGCEEmbeddingClassifier, find_suspects
from mgce.labels.correction import correct
from mgce.labels.doubtful import doubtful_labels


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        300, 8, n_informative=6, n_redundant=0, n_classes=3, n_clusters_per_class=1, class_sep=1.5, random_state=0
    )
    names = np.array(["ant", "bee", "cat"])
    wrong = np.random.default_rng(0).random(300) < 0.2
    return X, names[np.where(wrong, (y + 1) % 3, y)], wrong, names[y]


def test_features_are_judged_out_of_fold(data):
    X, labels, wrong, right = data
    found = find_suspects(X, labels, random_state=0)
    model = MGCEEmbeddingClassifier(random_state=0).fit(X, labels)
    own = doubtful_labels(model.oof_proba_, np.searchsorted(model.classes_, labels))
    np.testing.assert_array_equal(found.order, own.order)
    assert average_precision_score(wrong, found.wrong) > 0.8
    assert sorted(found.order) == list(range(300)) and (np.diff(found.wrong[found.order]) <= 0).all()
    top = found.order[:30]
    assert (found.suggested[top] == right[top]).mean() > 0.8 and found.is_issue[top].mean() > 0.8


def test_probabilities_are_taken_as_they_are(data):
    X, labels, wrong, _ = data
    probs = cross_val_predict(LogisticRegression(), X, labels, method="predict_proba")
    found = find_suspects(probs, labels, given="probs")
    names = np.array(["ant", "bee", "cat"])
    expected = correct(probs, np.searchsorted(names, labels))
    np.testing.assert_array_equal(found.suggested, names[expected.of_row.argmax(1)])
    assert average_precision_score(wrong, found.wrong) > 0.8


def test_a_function_trains_on_the_other_rows_and_gets_the_same_suspects(data):
    X, labels, wrong, _ = data
    classes = np.unique(labels)
    seen = []

    def train(rows, held_out):
        assert not set(rows) & set(held_out)
        seen.append(held_out)
        return torch.from_numpy(LogisticRegression().fit(X[rows], labels[rows]).predict_proba(X[held_out]))

    found = find_suspects(train, labels, n_folds=4, random_state=0)
    assert len(seen) == 4 and sorted(np.concatenate(seen)) == list(range(300))
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    probs = cross_val_predict(LogisticRegression(), X, labels, cv=folds, method="predict_proba")
    np.testing.assert_array_equal(found.order, find_suspects(probs, labels, given="probs").order)
    np.testing.assert_allclose(found.share_by_label, [found.wrong[labels == name].mean() for name in classes])
    # What it says of few rows is made smaller, and of labels that depend on the class more so: as these do.
    plain = correct(probs, np.searchsorted(classes, labels))
    assert plain.by_class
    np.testing.assert_allclose(found.wrong.mean(), (1 - plain.probs[np.arange(300), found.target]).mean() * 0.75 * 0.8)
    assert abs(found.wrong.mean() / (0.75 * 0.8) - wrong.mean()) < 0.06


def test_a_function_that_returns_another_shape_is_named(data):
    with pytest.raises(ValueError, match="Expected `rows` to be a function that returns probabilities of shape"):
        find_suspects(lambda rows, others: np.full((len(others), 2), 0.5), data[1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([[0.5, 0.5]] * 2, [0, 1], "rows"), "Expected `given` to be 'features' or 'probs', but got 'rows'"),
        (([[0.5, 0.6]] * 2, [0, 1], "probs"), "Expected `rows` to be rows that are not negative and sum to one"),
        (([[0.2, 0.3, 0.5]] * 2, [0, 1], "probs"), r"Expected `rows` to be of shape \(2, 2\), a row for each label"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, sentence):
    rows, labels, given = arguments
    with pytest.raises(ValueError, match=sentence):
        find_suspects(rows, labels, given=given)
