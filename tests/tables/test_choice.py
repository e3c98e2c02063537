import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

from mgce.estimators import MGCEClassifier
from mgce.estimators.linear_cv import BETAS, LAMBDA0S
from mgce.tables import choice as beta_choice
from mgce.tables.choice import choose_linear, choose_mlp, count_fits, folds

X, y = load_iris(return_X_y=True)
X = scale(X)


def test_the_penalty_is_the_best_of_cross_validation():
    X, y = make_classification(
        150, 30, n_informative=3, n_redundant=0, n_clusters_per_class=1, flip_y=0.1, class_sep=2, random_state=1
    )
    calls = []
    choice = choose_linear(X, y, 1.4, 0, calls.append)
    scores = [
        cross_val_score(MGCEClassifier(1.4, lambda0=lambda0), X, y, cv=folds(y, 0)).mean() for lambda0 in LAMBDA0S
    ]
    assert scores.index(max(scores)) == LAMBDA0S.index(choice.again.lambda0) == 2
    assert choice.betas == (1.4,) and abs(choice.accuracy[0] - max(scores)) < 1e-12
    assert len(calls) == count_fits("linear", 1.4)
    again = MGCEClassifier(1.4, lambda0=choice.again.lambda0).fit(X, y)
    np.testing.assert_array_equal(choice.fitted.coef_, again.coef_)


def test_beta_is_the_one_of_best_accuracy():
    calls = []
    choice = choose_linear(X, y, None, 0, calls.append)
    assert choice.betas == BETAS and len(choice.accuracy) == len(BETAS)
    assert choice.accuracy[BETAS.index(choice.fitted.beta_)] == max(choice.accuracy)
    assert len(calls) == count_fits("linear", None)
    assert choice.measured_on == "in 5-fold cross-validation on 150 training rows"


def test_many_rows_are_thinned_for_the_choice_alone(monkeypatch):
    monkeypatch.setattr(beta_choice, "CHOICE_ROWS", 60)
    choice = choose_linear(X, y, 1.4, 0, lambda what: None)
    assert choice.measured_on == "in 5-fold cross-validation on 60 training rows"
    again = MGCEClassifier(1.4, lambda0=choice.again.lambda0).fit(X, y)
    np.testing.assert_array_equal(choice.fitted.coef_, again.coef_)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [None, 2.0])
def test_a_network_for_each_beta(beta):
    calls = []
    choice = choose_mlp(X, y, beta, 0, calls.append)
    assert len(calls) == count_fits("mlp", beta) and choice.betas == (BETAS if beta is None else (2.0,))
    assert choice.accuracy[choice.betas.index(choice.fitted.beta_)] == max(choice.accuracy)
    assert choice.again.beta == choice.fitted.beta_ and not hasattr(choice.again, "coefs_")


def test_a_rare_class_has_fewer_folds():
    for rows, n_splits in ((2, 2), (3, 3), (9, 5)):
        assert folds(np.repeat([0, 1], [50, rows]), 0).n_splits == n_splits
