import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from contracts.estimator_contract import EstimatorContract
from mgce.estimators import MGCEClassifier, MGCEFourierClassifier


class TestContract(EstimatorContract):
    expected_failures = {  # noqa: RUF012
        f"check_sample_weight_equivalence_on_{kind}_data": "the median distance is that of rows of any weight"
        for kind in ("dense", "sparse")
    }

    @staticmethod
    def make(**parameters):
        return MGCEFourierClassifier(**{"n_components": 50, "random_state": 0, **parameters})

    def test_grid_search(self, data):
        search = self.grid_search(data, {"gamma": [0.1, "median"], "lambda0": [1e-3, 1e-2]})
        assert set(search.best_params_) == {"gamma", "lambda0"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_features_approximate_the_kernel():
    X = StandardScaler().fit_transform(load_iris().data)
    clf = MGCEFourierClassifier(n_components=10_000, random_state=0, max_iter=1).fit(X[:, :2], load_iris().target)
    features = clf._features(X[:, :2]) + clf.means_
    kernel = rbf_kernel(X[:, :2], gamma=clf.gamma_)
    np.testing.assert_allclose(2 * features @ features.T / 10_000, kernel, atol=0.05)
    squared = ((X[:, None, :2] - X[None, :, :2]) ** 2).sum(2)[np.triu_indices(150, 1)]
    assert abs(clf.gamma_ * 2 * np.median(squared) - 1) < 1e-12


def test_it_is_the_linear_classifier_of_the_centred_features():
    X, y = make_circles(120, noise=0.1, random_state=0)
    clf = MGCEFourierClassifier(2.0, n_components=40, random_state=0).fit(X, y)
    features, cosines = clf._features(X), np.cos(X @ clf.random_weights_ + clf.random_offset_)
    # NumPy's cosines and PyTorch's differ in the last bit, and the minimisers of both by more.
    np.testing.assert_allclose(features, cosines - cosines.mean(0), rtol=0, atol=1e-14)
    linear = MGCEClassifier(2.0, lambda0=3e-3).fit(features, y)
    np.testing.assert_allclose(clf.decision_function(X), linear.decision_function(features), rtol=1e-12, atol=1e-13)
    assert clf.minimax_risk_ == pytest.approx(linear.minimax_risk_, rel=1e-13) and clf.beta_ == 2.0


def test_where_the_features_lie_does_not_matter():
    X, y = load_iris(return_X_y=True)
    here, there = (MGCEFourierClassifier(random_state=0).fit(X + shift, y).score(X + shift, y) for shift in (0, 273))
    assert here > 0.95 and there > 0.95


def test_it_is_robust_where_logistic_regression_of_the_same_features_is_not():
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    rng = np.random.default_rng(0)
    given = np.where(rng.random(len(y)) < 0.4, (y + rng.integers(1, 10, len(y))) % 10, y)
    clf = MGCEFourierClassifier(lambda0=1e-2, n_components=300, tol=1e-3, random_state=0).fit(X[:1200], given[:1200])
    other = LogisticRegression(max_iter=300).fit(clf._features(X[:1200]), given[:1200])
    assert clf.score(X[1200:], y[1200:]) > other.score(clf._features(X[1200:]), y[1200:]) + 0.02


def test_rows_predicted_in_parts_are_those_predicted_alone(monkeypatch):
    X, y = make_circles(50, noise=0.1, random_state=0)
    clf = MGCEFourierClassifier(n_components=20, random_state=0).fit(X, y)
    whole = clf.decision_function(X)
    monkeypatch.setattr("mgce.estimators.fourier.CHUNK_ROWS", 7)
    np.testing.assert_allclose(clf.decision_function(X), whole, rtol=1e-12)
