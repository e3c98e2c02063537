import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier

from contracts.estimator_contract import EstimatorContract
from mgce.estimators import MGCEBoostingClassifier, MGCEForestClassifier, load, save
from mgce.estimators.boosting import _with_every_class


class TestContract(EstimatorContract):
    expected_failures = {  # noqa: RUF012
        "check_sample_weight_equivalence_on_dense_data": "rows are drawn for the forest's trees whatever their weights"
    }

    @staticmethod
    def make(**parameters):
        forest = MGCEForestClassifier(n_estimators=12, splitter="best", min_samples_leaf=5, random_state=0)
        small = {"max_iter": 10, "min_samples_leaf": 5, "forest": forest, "random_state": 0}
        return MGCEBoostingClassifier(**{**small, **parameters})

    def test_grid_search(self, data):
        search = self.grid_search(data, {"max_iter": [2, 5], "beta": [1.4, 2.0]})
        assert set(search.best_params_) == {"max_iter", "beta"}


@pytest.mark.parametrize("loader", [load_iris, load_breast_cancer])
def test_the_margins_are_those_of_scikit_learns_boosting_of_the_corrected_labels(loader):
    X, y = loader(return_X_y=True)
    clf = MGCEBoostingClassifier(max_iter=10, random_state=0).fit(X, y)
    boosting = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X, clf.labels_)
    np.testing.assert_allclose(clf.decision_function(X), boosting.decision_function(X), atol=1e-12)


def test_wrong_labels_are_corrected_and_boosting_gains_by_it():
    X, right = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    order, wrong = rng.permutation(len(right)), rng.random(400) < 0.3
    X, right = X[order], right[order]
    y = np.where(wrong, 1 - right[:400], right[:400])
    forest = MGCEForestClassifier(n_estimators=50, min_samples_leaf=20, splitter="random", random_state=0)
    clf = MGCEBoostingClassifier(max_iter=60, forest=forest, random_state=0).fit(X[:400], y)
    assert (clf.labels_ == right[:400]).mean() > 0.85 > (y == right[:400]).mean()
    usual = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X[:400], y)
    assert clf.score(X[400:], right[400:]) > usual.score(X[400:], right[400:]) + 0.05


def test_no_class_is_corrected_away():
    X, y = load_iris(return_X_y=True)
    X, y = np.vstack([X, X[:3]]), np.r_[y, [3, 3, 3]]  # a class of its own among a hundred rows of another
    clf = MGCEBoostingClassifier(max_iter=2, random_state=0).fit(X, y)
    assert set(clf.labels_) == {0, 1, 2, 3} and clf.predict_proba(X).shape == (153, 4)


def test_a_label_that_is_given_back_may_have_been_the_last_of_another_class():
    given = np.array([0, 0, 1, 1, 2, 2])
    # 0 keeps none of its own and is proposed to nobody; its first row is the only one proposed for 1.
    proposed = np.array([1, 2, 2, 2, 2, 2])
    assert _with_every_class(given, proposed).tolist() == [0, 0, 1, 1, 2, 2]
    assert _with_every_class(given, np.array([0, 1, 1, 2, 2, 0])).tolist() == [0, 1, 1, 2, 2, 0]


def test_trees_of_a_changed_file_are_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = MGCEBoostingClassifier(max_iter=2, random_state=0).fit(X, y)
    save(clf, tmp_path / "model.mgce")
    same = load(tmp_path / "model.mgce")
    np.testing.assert_array_equal(same.predict_proba(X), clf.predict_proba(X))
    assert not hasattr(same, "labels_")
    clf.trees_.features[:] = 10**6
    save(clf, tmp_path / "model.mgce")
    with pytest.raises(ValueError, match="Expected `trees_` to be the trees of a fitted model"):
        load(tmp_path / "model.mgce").predict(X)
