"""No row is predicted by a model that was trained on it."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, StratifiedKFold, cross_val_predict

from mgce.labels.out_of_fold import completed, folds_of, out_of_fold, stratified_folds


def rows(n=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + 2 * np.eye(3, 4)[y], y


def test_the_probabilities_are_those_of_a_cross_validation():
    X, y = rows()

    def train(part, others):
        return LogisticRegression().fit(X[part], y[part]).predict_proba(X[others])

    number = np.random.default_rng(1).permutation(60) % 4
    for folds, cv in (
        (folds_of(number), PredefinedSplit(number)),
        (stratified_folds(y, 5, 7), StratifiedKFold(5, shuffle=True, random_state=7)),
    ):
        expected = cross_val_predict(LogisticRegression(), X, y, cv=cv, method="predict_proba")
        np.testing.assert_array_equal(out_of_fold(train, folds, (60, 3)), expected)


def test_a_row_in_no_fold_has_the_number_that_is_asked_for():
    found = out_of_fold(lambda part, others: np.full((len(others), 2), 0.5), [(np.arange(2), np.array([2]))], (4, 2))
    assert np.isnan(found[[0, 1, 3]]).all() and (found[2] == 0.5).all()


def test_other_rows_are_predicted():
    known = np.array([[0.1, 0.9], [0.2, 0.8]])
    found = completed(known, np.array([3, 1]), 4, lambda others: np.stack([others, -others], 1))
    np.testing.assert_array_equal(found, [[0, 0], [0.2, 0.8], [2, -2], [0.1, 0.9]])
    assert completed(known, np.array([0, 1]), 2, lambda others: 1 / 0).shape == (2, 2)
