import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from mgce.tables.suspects import cross_validated_margins, margins, rank

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize("rows", [slice(None), slice(100)])  # three classes, and two
def test_cross_validated_margins_are_those_of_scikit_learn(rows):
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    calls = []
    estimator = LogisticRegression(max_iter=1000)
    f = cross_validated_margins(estimator, X[rows], y[rows], folds, calls.append)
    expected = cross_val_predict(estimator, X[rows], y[rows], cv=folds, method="decision_function")
    np.testing.assert_allclose(f if f.shape[1] == 3 else f[:, 1] - f[:, 0], expected)
    assert calls == ["Judging the labels"] * 3


def test_margins_of_two_classes_have_two_columns():
    classifier = LogisticRegression().fit(X[:100], y[:100])
    f = margins(classifier, X[:100])
    np.testing.assert_array_equal(classifier.classes_[f.argmax(1)], classifier.predict(X[:100]))


def test_the_rows_of_largest_loss_come_first():
    f = np.random.default_rng(0).normal(size=(40, 3)) * 3
    target = np.arange(40) % 3
    loss = logsumexp(f, axis=1) - f[np.arange(40), target]  # beta = inf is cross-entropy
    names = [f"row {i}" for i in range(40)]
    suspects = rank(f, target, float("inf"), "abc", names, 5)
    wrong = [row for row in np.argsort(-loss) if f[row].argmax() != target[row]][:5]
    assert [suspect.row for suspect in suspects] == [f"row {row}" for row in wrong]
    for suspect, row in zip(suspects, wrong, strict=True):
        assert (suspect.given, suspect.suggested) == ("abc"[target[row]], "abc"[f[row].argmax()])
        np.testing.assert_allclose(
            [suspect.loss, suspect.h_given, suspect.p_given], [loss[row], *[np.exp(-loss[row])] * 2], rtol=1e-9
        )


def test_labels_that_the_model_would_give_are_not_suspect():
    f = np.eye(3) * 2
    assert rank(f, np.arange(3), 1.4, "abc", "123", 5) == []
