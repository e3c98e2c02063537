import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from contracts.estimator_contract import EstimatorContract
from mgce._row_order import content_order
from mgce.estimators import MGCEForestClassifier, load, save
from mgce.estimators.forest import best_scale
from mgce.functional import mgce_loss

FORESTS = {"best": RandomForestClassifier, "random": ExtraTreesClassifier}


def noisy_digits(rate):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(y)) < rate
    return X, np.where(wrong, (y + rng.integers(1, 10, len(y))) % 10, y), y


class TestContract(EstimatorContract):
    expected_failures = {  # noqa: RUF012
        "check_sample_weight_equivalence_on_dense_data": "rows are drawn for the trees whatever their weights"
    }

    @staticmethod
    def make(**parameters):
        return MGCEForestClassifier(**{"n_estimators": 8, "min_samples_leaf": 5, "random_state": 0, **parameters})

    def test_grid_search(self, data):
        search = self.grid_search(data, {"splitter": ["best", "random"], "min_samples_leaf": [2, 10]})
        assert set(search.best_params_) == {"splitter", "min_samples_leaf"}


@pytest.mark.parametrize("beta", [1.0, 1.4, np.inf])
def test_the_scale_has_the_least_mean_loss_of_all_up_to_a_hundred(beta):
    generator = np.random.default_rng(0)
    logs, index = np.log(generator.dirichlet(np.ones(3), 40)), generator.integers(0, 3, 40)
    index[:25] = logs[:25].argmax(1)  # mostly right
    weight = generator.random(40)

    def mean_loss(scale):
        losses = mgce_loss(torch.from_numpy(scale * logs), torch.from_numpy(index), beta=beta, reduction="none")
        return float(losses @ torch.from_numpy(weight / weight.sum()))

    found = best_scale(logs, index, weight, beta)
    assert mean_loss(found) <= min(map(mean_loss, np.geomspace(0.01, 100, 400))) + 1e-6 and found > 0
    # Rows that no model judged do not count; if there are no others, or none of a weight, logs stay as they are.
    gaps = np.vstack([logs, np.full((5, 3), np.nan)])
    assert best_scale(gaps, np.r_[index, np.zeros(5, int)], np.r_[weight, np.ones(5)], beta) == found
    assert best_scale(gaps[40:], np.zeros(5, int), np.ones(5), beta) == 1
    assert best_scale(logs, index, np.zeros(40), beta) == 1


@pytest.mark.parametrize("splitter", FORESTS)
def test_the_shares_are_those_of_scikit_learns_forest(splitter):
    X, y, _ = noisy_digits(0.2)
    clf = MGCEForestClassifier(n_estimators=9, splitter=splitter, min_samples_leaf=3, random_state=0).fit(X, y)
    # The first number drawn from the seed is that of the forest.
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    forest = FORESTS[splitter](9, min_samples_leaf=3, bootstrap=True, random_state=seed)
    order = content_order(X, y)  # in which the rows are drawn
    forest.fit(X[order], y[order], sample_weight=np.ones(len(y)))
    np.testing.assert_allclose(clf.tree_proba(X), forest.predict_proba(X), atol=1e-7)
    f = clf.scale_ * np.log(forest.predict_proba(X) + 1 / len(X))
    np.testing.assert_allclose(clf.decision_function(X), f, atol=1e-3 * clf.scale_)


def test_the_scale_is_the_best_for_rows_left_out():
    X, y, _ = noisy_digits(0.2)
    clf = MGCEForestClassifier(2.0, n_estimators=30, min_samples_leaf=5, random_state=0).fit(X, y)
    logs = torch.from_numpy(np.log(clf.oob_decision_function_ + 1 / len(X)))

    def loss(scale):
        return float(mgce_loss(scale * logs, torch.from_numpy(y), beta=2.0))

    assert clf.scale_ == pytest.approx(minimize_scalar(loss, bracket=(0.1, 1.0)).x, rel=1e-3)


@pytest.mark.slow
def test_large_leaves_are_chosen_where_labels_are_wrong():
    X, y, clean = noisy_digits(0.0)
    best = MGCEForestClassifier(n_estimators=30, random_state=0).fit(X[:1200], y[:1200])
    assert best.min_samples_leaf_ <= 2 and best.scores_.shape == (2, 6)
    rng = np.random.default_rng(0)
    pair = np.where(rng.random(len(y)) < 0.4, (y + 1) % 10, y)
    robust, usual = [], []
    for seed in range(2):
        forest = MGCEForestClassifier(n_estimators=30, random_state=seed).fit(X[:1200], pair[:1200])
        assert forest.min_samples_leaf_ > best.min_samples_leaf_
        robust.append(forest.score(X[1200:], clean[1200:]))
        usual.append(
            RandomForestClassifier(30, random_state=seed).fit(X[:1200], pair[:1200]).score(X[1200:], clean[1200:])
        )
    assert np.mean(robust) > np.mean(usual) + 0.03


def test_trees_of_a_changed_file_are_refused_before_a_walk(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = MGCEForestClassifier(n_estimators=3, min_samples_leaf=5, random_state=0).fit(X, y)
    inner = np.flatnonzero(clf.trees_.children[:, 0] >= 0)

    def changed(name, place, value):
        array = getattr(clf.trees_, name).copy()
        array[place] = value
        return name, array

    for name, array in (
        changed("children", (inner[1], 0), inner[0]),  # a circle
        changed("children", (inner[0], 1), 10**6),
        changed("features", inner[0], 4),
        changed("features", inner[0], -1),
        changed("starts", 0, 1),
        changed("starts", 1, 10**6),
        changed("starts", 2, 0),
        changed("children", (inner[0], 1), clf.trees_.starts[1]),  # into the next tree
        ("children", np.where(clf.trees_.children == inner[1], inner[1] - 0.5, clf.trees_.children)),
        ("features", clf.trees_.features.astype(float)),
        ("values", clf.trees_.values[:-1]),
        ("thresholds", clf.trees_.thresholds[:-1]),
    ):
        kept = getattr(clf.trees_, name)
        setattr(clf.trees_, name, array)
        save(clf, tmp_path / "model.mgce")
        setattr(clf.trees_, name, kept)
        with pytest.raises(ValueError, match="Expected `trees_` to be the trees of a fitted model"):
            load(tmp_path / "model.mgce").predict(X)


def test_training_rows_are_not_in_a_file(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = MGCEForestClassifier(n_estimators=3, min_samples_leaf=5, random_state=0).fit(X, y)
    save(clf, tmp_path / "model.mgce")
    assert not hasattr(load(tmp_path / "model.mgce"), "oob_decision_function_")
    assert clf.oob_decision_function_.shape == (150, 3)
