import importlib.util
import math
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold, train_test_split

from contracts.estimator_contract import EstimatorContract
from mgce.estimators import save
from mgce.functional import mgce_loss, worst_case_probs
from mgce.integrations.boosting import BoostedClassifier, Rows, gradient_and_step, start_margins
from mgce.noise import corrupt, symmetric

QUICK = True  # but where a test says otherwise


@pytest.mark.parametrize("beta", [1.0, 1.4, 5.0, math.inf])
def test_the_gradient_is_that_of_the_weighted_loss(beta):
    f = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    y, weight = torch.tensor([0, 1, 2, 0, 1, 2]), torch.rand(6, dtype=torch.float64)
    (want,) = torch.autograd.grad((weight * mgce_loss(f, y, beta=beta, reduction="none")).sum(), f)
    g, step = gradient_and_step(f.detach().numpy(), y.numpy(), weight.numpy(), beta)
    np.testing.assert_allclose(g, want.numpy(), atol=1e-12)
    np.testing.assert_allclose(step, np.maximum(np.abs(g), 1e-6))


@pytest.mark.parametrize("beta", [1.4, 5.0, math.inf])
def test_the_start_has_the_least_loss_of_all_constants(beta):
    shares = np.array([0.6, 0.3, 0.1])
    start = start_margins(shares, beta)
    np.testing.assert_allclose(worst_case_probs(torch.from_numpy(start), beta=beta).numpy(), shares, atol=1e-9)

    def mean_loss(f):
        rows = torch.from_numpy(np.tile(f, (3, 1)))
        return float(mgce_loss(rows, torch.arange(3), beta=beta, reduction="none") @ torch.from_numpy(shares))

    assert mean_loss(start) <= minimize(mean_loss, np.zeros(3), method="Nelder-Mead").fun + 1e-9
    assert (start_margins(shares, 1.0) == 0).all()


class Steps(BoostedClassifier):
    """Steps along the gradient for each of the two values of a column: what a library does, without one."""

    def _boost(self, train, held_out, seed):
        self.values_ = np.zeros((2, self.classes_.size))
        self.accuracies_ = []
        for _ in range(self.n_estimators):
            g, step = self._objective(self._raw_margins(train.X), train)
            for value in (0, 1):
                own = train.X[:, 0] == value
                self.values_[value] -= self.learning_rate * g[own].sum(0) / step[own].sum(0)
            if held_out is not None:
                self.accuracies_.append(self._accuracy(self._raw_margins(held_out.X), held_out))
        return self.n_estimators

    def _raw_margins(self, X):
        return self.values_[X[:, 0].astype(int)]


def test_what_is_common_to_all_trees():
    X = (np.arange(200) % 2)[:, None].astype(float)
    wrong = np.arange(200) % 10 == 0
    y = np.where((X[:, 0] == 1) ^ wrong, "ant", "bee")
    weight = np.where(wrong, 0.5, 1.0)
    clf = Steps(beta=1.4, random_state=0).fit(X, y, weight)
    assert (clf.predict(X) == np.where(X[:, 0] == 1, "ant", "bee")).all()
    found = clf._accuracy(clf._raw_margins(X), Rows(X, (y == "bee").astype(int), weight))
    assert found == pytest.approx(180 / 190) and 0.8 < clf.accuracies_[-1] < 1
    for bad in ({"validation_fraction": 1.5}, {"beta": 0.9}):
        with pytest.raises(ValueError, match=f"^Expected `{next(iter(bad))}` to be a float in "):
            Steps(**bad).fit(X, y)


def test_flat_margins_of_lightgbm_are_sorted_by_class_first(monkeypatch):
    if importlib.util.find_spec("lightgbm") is None:
        monkeypatch.setitem(sys.modules, "mgce.integrations.lightgbm", None)  # so that it is forgotten afterwards
        monkeypatch.delitem(sys.modules, "mgce.integrations.lightgbm")
        monkeypatch.setitem(sys.modules, "lightgbm", SimpleNamespace())
    by_row = importlib.import_module("mgce.integrations.lightgbm")._by_row
    by_class = np.array([[0, 1, 2], [10, 11, 12]])  # of two classes, and three rows
    np.testing.assert_array_equal(by_row(by_class.ravel(), 3), by_class.T)
    np.testing.assert_array_equal(by_row(by_class.T, 3), by_class.T)


@pytest.mark.integration
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_trees_of_others_are_no_pytorch_module(name):
    clf = classifier(name)(n_estimators=2, early_stopping=False).fit(np.arange(60.0)[:, None], np.arange(60) % 2)
    with pytest.raises(TypeError, match="Expected `estimator` to be of mgce.estimators.*but got 'MGCE"):
        clf.to_torch()


def classifier(name):
    library = pytest.importorskip(name, reason=f"needs {name}")
    assert library
    if name == "xgboost":
        from mgce.integrations.xgboost import MGCEXGBClassifier as Classifier
    else:
        from mgce.integrations.lightgbm import MGCELGBMClassifier as Classifier
    return Classifier


FEW = {"n_estimators": 15, "learning_rate": 0.3, "min_child_weight": 0.1, "early_stopping": False, "n_jobs": 1}


class BoostedContract(EstimatorContract):
    """What trees promise: not to be stored in files, and to rank labels that they have not been trained on."""

    # The bins of the features, and sums in float32, tell a row of weight 2 from the row given twice.
    expected_failures = {  # noqa: RUF012
        f"check_sample_weight_equivalence_on_{kind}_data": "bins of weighted rows" for kind in ("dense", "sparse")
    }

    def test_saved_and_loaded(self, fitted, data, tmp_path):
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict_proba(data[0]), fitted.predict_proba(data[0]))
        with pytest.raises(ValueError, match="one that a file can hold"):
            save(fitted, tmp_path / "model.mgce")

    def test_finds_flipped_labels(self, data):
        X, y = data
        flipped = np.random.default_rng(0).choice(150, 15, replace=False)
        noisy = y.copy()
        noisy[flipped] = np.where(y[flipped] == "ant", "bee", "ant")
        loss = np.empty(150)
        for rows, held_out in KFold(5, shuffle=True, random_state=0).split(X):
            clf = self.make(learning_rate=0.1, min_child_weight=2, n_estimators=30).fit(X[rows], noisy[rows])
            f = torch.from_numpy(clf.decision_function(X[held_out]))
            target = torch.from_numpy(np.searchsorted(clf.classes_, noisy[held_out]))
            loss[held_out] = mgce_loss(f, target, beta=clf.beta_, reduction="none").numpy()
        assert len(set(np.argsort(-loss)[:15]) & set(flipped)) >= 9


@pytest.mark.integration
class TestXGBoost(BoostedContract):
    @staticmethod
    def make(**parameters):
        return classifier("xgboost")(random_state=0, **{**FEW, **parameters})


@pytest.mark.integration
class TestLightGBM(BoostedContract):
    @staticmethod
    def make(**parameters):
        few = {"params": {"min_data_in_leaf": 1, "min_data_in_bin": 1}}
        return classifier("lightgbm")(random_state=0, **{**FEW, **few, **parameters})


@pytest.mark.integration
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_noisy_digits_do_not_lose_to_the_cross_entropy_of_the_library(name):
    """A hand-written objective lost 7 to 9 points: at the library's learning rate every row is fitted at once."""
    Classifier = classifier(name)
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    noisy = corrupt(torch.from_numpy(y), symmetric(10, 0.4), torch.Generator().manual_seed(0)).labels.numpy()
    ours = Classifier(random_state=0, n_jobs=1, n_estimators=120).fit(X, noisy)
    if name == "xgboost":
        import xgboost

        theirs = xgboost.XGBClassifier(n_jobs=1).fit(X, noisy)
    else:
        import lightgbm

        theirs = lightgbm.LGBMClassifier(n_jobs=1, verbosity=-1).fit(X, noisy)
    assert ours.score(X_test, y_test) > np.mean(theirs.predict(X_test) == y_test)
    assert 1 <= ours.n_iter_ <= 120


@pytest.mark.integration
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_sparse_rows_missing_values_and_weights(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = (X[:, 0] > 0).astype(int)
    make = lambda: classifier(name)(random_state=0, **{**FEW, "early_stopping": True})  # noqa: E731
    X[rng.random(X.shape) < 0.05] = np.nan
    clf = make().fit(X, y)
    assert clf.score(X, y) > 0.9
    dense = np.nan_to_num(X)
    weight = np.r_[np.zeros(20), np.ones(100)]
    weighted, removed = make().fit(dense, y, weight), make().fit(dense[20:], y[20:])
    np.testing.assert_allclose(weighted.predict_proba(dense), removed.predict_proba(dense), atol=1e-6)
    assert make().fit(csr_matrix(dense), y).score(csr_matrix(dense), y) > 0.9


@pytest.mark.integration
@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_the_order_of_the_rows_does_not_matter(name):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    by_label = np.argsort(y, kind="stable")
    options = {**FEW, "early_stopping": True, "random_state": 0}
    as_drawn, ordered = (classifier(name)(**options).fit(X[rows], y[rows]) for rows in (np.arange(300), by_label))
    np.testing.assert_allclose(ordered.predict_proba(X), as_drawn.predict_proba(X), atol=1e-6)  # float32 sums
