import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_iris, make_moons
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from contracts.estimator_contract import EstimatorContract
from mgce._row_order import content_order
from mgce.estimators import MGCEClassifier, MGCEForestClassifier, MGCEVotingClassifier, load, save
from mgce.functional import mgce_loss

X, y = load_iris(return_X_y=True)
NAMES = np.array(["ant", "bee", "cat"])


def members():
    return [("linear", MGCEClassifier(tol=1e-3)), ("bayes", GaussianNB())]


class TestContract(EstimatorContract):
    expected_failures = {  # noqa: RUF012
        "check_sample_weight_equivalence_on_dense_data": "1/n counts rows, whatever their weights"
    }

    @staticmethod
    def make(**parameters):
        # Not naive Bayes, which takes the logarithm of 0 where a class has no weight.
        pairs = [("linear", MGCEClassifier(tol=1e-3)), ("logistic", LogisticRegression(tol=1e-8, max_iter=1000))]
        return MGCEVotingClassifier(**{"estimators": pairs, "cv": 2, "random_state": 0, **parameters})

    def test_grid_search(self, data):
        search = self.grid_search(data, {"linear__beta": [1.4, 3.0], "beta": [1.4, 2.0]})
        assert set(search.best_params_) == {"linear__beta", "beta"}


def test_the_average_is_that_of_scikit_learns_soft_voting():
    clf = MGCEVotingClassifier(members(), random_state=0).fit(X, NAMES[y])
    voting = VotingClassifier(members(), voting="soft").fit(X, NAMES[y])
    np.testing.assert_allclose(clf.average_proba(X), voting.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(clf.predict(X), voting.predict(X))
    f = clf.scale_ * np.log(voting.predict_proba(X) + 1 / len(X))
    np.testing.assert_allclose(clf.decision_function(X), f, atol=1e-9)


def test_the_scale_is_the_best_for_rows_not_fitted_to():
    clf = MGCEVotingClassifier(members(), 2.0, cv=5, random_state=0).fit(X, y)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    voting = VotingClassifier(members(), voting="soft")
    order = content_order(X, y)  # in which the folds are drawn
    rows, labels = X[order], y[order]
    logs = np.log(cross_val_predict(voting, rows, labels, cv=folds, method="predict_proba") + 1 / len(X))

    def loss(scale):
        return float(mgce_loss(scale * torch.from_numpy(logs), torch.from_numpy(labels), beta=2.0))

    assert clf.scale_ == pytest.approx(minimize_scalar(loss, bounds=(0, 100), method="bounded").x, rel=1e-3)


def test_an_average_needs_a_fit():
    with pytest.raises(NotFittedError):
        MGCEVotingClassifier(members()).average_proba(X)


def test_weights_reach_every_member():
    moons, side = make_moons(120, noise=0.2, random_state=0)
    weight = np.where(np.arange(120) < 60, 1.0, 0.0)
    clf = MGCEVotingClassifier(members(), scale=1.0).fit(moons, side, weight)
    order = content_order(moons, side, weight)  # of the sums
    alone = GaussianNB().fit(moons[order], side[order], weight[order])
    np.testing.assert_array_equal(clf.estimators_[1].predict_proba(moons), alone.predict_proba(moons))


def test_a_class_of_one_row_leaves_the_scale_at_one():
    clf = MGCEVotingClassifier(members()).fit(np.vstack([X[:100], X[149:]]), np.r_[y[:100], 2])
    assert clf.scale_ == 1.0


def test_it_survives_a_file(tmp_path):
    pairs = [("forest", MGCEForestClassifier(n_estimators=5, random_state=0)), ("linear", MGCEClassifier())]
    clf = MGCEVotingClassifier(pairs, random_state=0).fit(X, y)
    save(clf, tmp_path / "voting.mgce")
    np.testing.assert_array_equal(load(tmp_path / "voting.mgce").predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([], "Expected `estimators` to be pairs of unique names and classifiers, at least one, but got"),
        ([("a", GaussianNB()), ("a", LogisticRegression())], "Expected `estimators` to be pairs of unique names"),
        ([("a", LinearSVC())], "to be a classifier with `predict_proba`, but got"),
    ],
)
def test_bad_members_are_refused(pairs, sentence):
    with pytest.raises(ValueError, match=sentence):
        MGCEVotingClassifier(pairs).fit(X, y)
