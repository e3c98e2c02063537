import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import scale

from contracts.estimator_contract import EstimatorContract
from mgce.estimators import LabelCorrectionClassifier, correction, fourier_ridge, load, save
from mgce.estimators.fourier_ridge import FourierRidge, on_simplex
from mgce.labels.correction import correct


def make(**parameters):
    return LabelCorrectionClassifier(**{"n_estimators": 12, "n_components": 50, "random_state": 0, **parameters})


class TestContract(EstimatorContract):
    make = staticmethod(make)
    expected_failures = {  # noqa: RUF012
        "check_sample_weight_equivalence_on_dense_data": "rows are drawn for the forest's trees whatever their weights"
    }

    def test_grid_search(self, data):
        assert set(self.grid_search(data, {"n_components": [20, 50]}).best_params_) == {"n_components"}


def blobs(n, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, 2)) + 3 * np.c_[np.cos(y), np.sin(y)], y


def test_wrong_labels_are_corrected_and_the_model_gains_by_it():
    X, right = load_digits(return_X_y=True)
    X, right = X[:800] / 16, right[:800]
    rng = np.random.default_rng(0)
    given = np.where(rng.random(400) < 0.4, rng.integers(10, size=400), right[:400])
    clf = LabelCorrectionClassifier(n_estimators=50, n_components=300, random_state=0).fit(X[:400], given)
    assert (clf.right_proba_.argmax(1) == right[:400]).mean() > (given == right[:400]).mean() + 0.15
    forest = RandomForestRegressor(50, max_features="sqrt", random_state=0).fit(X[:400], np.eye(10)[given])
    assert clf.score(X[400:], right[400:]) > (forest.predict(X[400:]).argmax(1) == right[400:]).mean() + 0.02


def test_it_is_the_mean_of_a_forest_and_a_kernel_regression_of_the_estimated_labels():
    X, y = blobs(60)
    clf = make().fit(X, y)
    X, _, weight, order = make()._sorted_training(X, y)
    right = clf.right_proba_[order]
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    forest = RandomForestRegressor(12, min_samples_leaf=2, max_features="sqrt", random_state=seed)
    by_trees = forest.fit(X, right, weight).predict(X)
    regressed = clf.ridge_.features(X)  # zero on average
    np.testing.assert_allclose(regressed.mean(0), 0, atol=1e-12)
    by_kernel = np.clip(regressed @ clf.ridge_.coef_.T + right.mean(0), 0, 1) + fourier_ridge.LEAST
    expected = ((by_trees + by_kernel / by_kernel.sum(1, keepdims=True)) / 2 + 1 / 60) ** clf.scale_
    np.testing.assert_allclose(clf.predict_proba(X), expected / expected.sum(1, keepdims=True), atol=1e-6)


def test_the_scale_makes_up_for_what_many_features_cost_a_model_of_its_sureness():
    rng = np.random.default_rng(0)
    right = np.arange(1800) % 3
    X = rng.normal(size=(1800, 200)) + 2.5 * np.eye(3, 200)[right]
    given = np.where(rng.random(600) < 0.2, (right[:600] + 1 + rng.integers(2, size=600)) % 3, right[:600])
    clf = LabelCorrectionClassifier(n_estimators=50, n_components=500, random_state=0).fit(X[:600], given)
    probs = clf.predict_proba(X[600:])
    accuracy = (probs.argmax(1) == right[600:]).mean()
    unscaled = probs ** (1 / clf.scale_)
    gaps = [accuracy - (p / p.sum(1, keepdims=True)).max(1).mean() for p in (unscaled, probs)]
    assert gaps[0] > 0.3  # 54 % sure, 89 % right
    assert 0 <= gaps[1] < gaps[0] / 2


def test_right_labels_follow_from_predictions_without_the_label_in_the_rows_order():
    X, y = blobs(90)
    order = np.random.default_rng(1).permutation(90)
    clf, other = make().fit(X, y), make().fit(X[order], y[order])
    found = correct(clf.left_out_proba_, y)
    np.testing.assert_allclose(clf.right_proba_, found.probs, atol=1e-12)
    np.testing.assert_allclose(clf.transition_, found.transition)
    np.testing.assert_array_equal(other.left_out_proba_, clf.left_out_proba_[order])
    np.testing.assert_array_equal(other.right_proba_, clf.right_proba_[order])
    np.testing.assert_array_equal(other.predict_proba(X), clf.predict_proba(X))


def without_row(features, target, weight, penalty, row):
    """Fit a weighted ridge regression with a free intercept to all other rows; return what it says of the row."""
    kept = np.arange(len(features)) != row
    columns = np.c_[np.ones(len(features)), features]
    root = np.sqrt(weight[kept])[:, None]
    penalties = np.sqrt(penalty) * np.eye(columns.shape[1])[1:]
    wanted = np.r_[root * target[kept], np.zeros((len(penalties), target.shape[1]))]
    return columns[row] @ np.linalg.lstsq(np.r_[root * columns[kept], penalties], wanted, rcond=None)[0]


@pytest.mark.parametrize("ridge", [0.03, 1.0, 10.0])
@pytest.mark.parametrize("n_components", [12, 60])  # fewer than rows, and more
def test_what_is_said_of_a_row_is_what_a_fit_without_it_says(n_components, ridge, monkeypatch):
    monkeypatch.setattr(fourier_ridge, "RIDGES", (ridge,))
    X, y = blobs(30)
    weight, target = np.random.default_rng(2).uniform(0.2, 3, 30), np.eye(3)[y]
    regression = FourierRidge(X, target, weight, n_components, np.random.RandomState(0))
    features, penalty = regression.features(X), ridge * n_components / 2
    expected = [without_row(features, target, weight / weight.mean(), penalty, row) for row in range(30)]
    np.testing.assert_allclose(regression.fit(target), expected, atol=1e-8)
    # The fit to all rows is the one without a row that has no weight.
    features = np.r_[features, features[:1]]
    all_rows = without_row(features, np.eye(3)[np.r_[y, 0]], np.r_[weight / weight.mean(), 0], penalty, 30)
    np.testing.assert_allclose(regression.predict(X)[0], all_rows, atol=1e-8)


def test_the_ridge_and_the_width_have_the_least_error_of_left_out_rows(monkeypatch):
    X, y = make_moons(120, noise=0.3, random_state=0)
    target, weight = np.eye(2)[y], np.ones(120)

    def error(ridges, widths):
        monkeypatch.setattr(fourier_ridge, "RIDGES", ridges)
        monkeypatch.setattr(fourier_ridge, "WIDTHS", widths)
        regression = FourierRidge(X, target, weight, 40, np.random.RandomState(0))
        return np.square(regression.fit(target) - target).mean()

    ridges, widths = fourier_ridge.RIDGES, fourier_ridge.WIDTHS
    chosen = error(ridges, widths)
    assert chosen == pytest.approx(min(error((ridge,), (width,)) for ridge in ridges for width in widths))


def test_a_rows_own_label_says_nothing_of_it(monkeypatch):
    """Once leaves, width and ridge are chosen: by trees without the row, and a regression without it."""
    monkeypatch.setattr(correction, "LEAVES", (1,))
    monkeypatch.setattr(fourier_ridge, "WIDTHS", (1.0,))
    monkeypatch.setattr(fourier_ridge, "RIDGES", (0.03,))
    X, y = blobs(40)
    for trees in (1, 30):  # of one tree, two rows of three are in its sample
        before = make(n_estimators=trees).fit(X, y).left_out_proba_
        for row in (0, 17, 39):
            changed = y.copy()
            changed[row] = (y[row] + 1) % 3
            after = make(n_estimators=trees).fit(X, changed).left_out_proba_
            np.testing.assert_allclose(after[row], before[row], atol=1e-9)
            assert not np.allclose(after, before, atol=1e-3)


def test_rows_of_no_weight_are_left_out():
    X, y = blobs(80)
    weight = np.where(np.arange(80) % 5, 1.5, 0.0)
    clf, fewer = make().fit(X, y, weight), make().fit(X[weight > 0], y[weight > 0], weight[weight > 0])
    np.testing.assert_array_equal(clf.predict_proba(X), fewer.predict_proba(X))
    np.testing.assert_array_equal(clf.left_out_proba_[weight > 0], fewer.left_out_proba_)
    assert np.isnan(clf.left_out_proba_[weight == 0]).all() and np.isnan(clf.right_proba_[weight == 0]).all()
    # Hardly any row has one.
    few = np.where(np.arange(80) < 3, 1.0, 0.0)
    assert np.isfinite(make().fit(X, y, few).predict_proba(X)).all()


def test_weights_count():
    X, y = np.zeros((60, 1)), np.arange(60) % 2  # a kernel of no width
    clf = make().fit(X, y, np.where(y == 1, 9.0, 1.0))
    np.testing.assert_allclose(clf.ridge_.intercept_, np.average(clf.right_proba_, axis=0, weights=1 + 8 * y))
    same = make().fit(X, y, np.where(y == 1, 900.0, 100.0))
    np.testing.assert_allclose(same.predict_proba(X), clf.predict_proba(X), atol=1e-9)
    assert clf.predict_proba(X)[0, 1] > 0.8


def test_many_rows_are_regressed_by_some_of_them(monkeypatch):
    X, y = blobs(150)
    monkeypatch.setattr(fourier_ridge, "MOST_ROWS", 60)
    monkeypatch.setattr(fourier_ridge, "WIDTH_ROWS", 30)
    regression = FourierRidge(X, np.eye(3)[y], np.ones(150), 40, np.random.RandomState(0))
    kept, others = regression._kept, np.setdiff1d(np.arange(150), regression._kept)
    assert len(kept) == 60
    left_out = regression.fit(np.eye(3)[y])
    np.testing.assert_allclose(left_out[others], regression.predict(X[others]))
    assert not np.allclose(left_out[kept], regression.predict(X[kept]), atol=1e-4)
    monkeypatch.setattr(fourier_ridge, "CHUNK_ROWS", 7)
    np.testing.assert_allclose(regression.predict(X[others]), left_out[others])
    clf = make().fit(X, y)
    assert clf.score(X, y) > 0.85 and np.isfinite(clf.left_out_proba_).all()
    assert not any(name.startswith("_") for name in vars(clf.ridge_))  # no training row is kept


def test_files_and_pickles_hold_no_training_row(tmp_path):
    X, y = blobs(60)
    clf = make().fit(X, y)
    save(clf, tmp_path / "model.mgce")
    same = load(tmp_path / "model.mgce")
    np.testing.assert_array_equal(same.predict_proba(X), clf.predict_proba(X))
    assert not {"left_out_proba_", "right_proba_"} & set(vars(same))
    clf.trees_.features[:] = 10**6
    save(clf, tmp_path / "model.mgce")
    with pytest.raises(ValueError, match="Expected `trees_` to be the trees of a fitted model"):
        load(tmp_path / "model.mgce").predict(X)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["random_weights_", "random_offset_", "means_", "coef_", "intercept_"])
def test_a_changed_file_of_huge_numbers_gives_probabilities_or_a_sentence(name, tmp_path):
    X, y = blobs(60)
    clf = make().fit(X, y)
    setattr(clf.ridge_, name, np.full_like(getattr(clf.ridge_, name), 1.7e308))
    save(clf, tmp_path / "model.mgce")
    try:
        np.testing.assert_allclose(load(tmp_path / "model.mgce").predict_proba(X).sum(1), 1)
    except ValueError as error:
        assert str(error).startswith("Expected `X` to be rows whose margins are finite in float64")


rng = np.random.default_rng(0)
ODD = {
    "one column": (blobs(40)[0][:, :1], blobs(40)[1]),
    "a constant column": (np.c_[blobs(40)[0], np.ones(40)], blobs(40)[1]),
    "constant columns only": (np.ones((40, 2)), np.arange(40) % 2),
    "every row five times": (np.repeat(blobs(8)[0], 5, axis=0), np.repeat(blobs(8)[1], 5)),
    "equal rows of two labels": (np.repeat(blobs(20)[0], 2, axis=0), np.tile([0, 1], 20)),
    "two classes": blobs(40, 2),
    "a class of one row": (blobs(40)[0], np.r_[3, blobs(40)[1][1:]]),
    "one class predicted": (rng.normal(size=(60, 2)), (np.arange(60) % 15 == 0).astype(int)),
    "as many classes as rows": (blobs(20)[0], np.arange(20)),
    "two rows": (np.array([[0.0], [1.0]]), np.array([0, 1])),
    "large": (blobs(40)[0] * 1e30, blobs(40)[1]),
    "tiny": (blobs(40)[0] * 1e-30, blobs(40)[1]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("trees", [pytest.param(1, marks=pytest.mark.nightly), 12])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_odd_rows_give_probabilities(name, trees):
    X, y = ODD[name]
    clf = make(n_estimators=trees).fit(X, y)
    for probs in (clf.predict_proba(X), clf.left_out_proba_, clf.right_proba_, clf.transition_):
        assert (probs >= 0).all()
        np.testing.assert_allclose(probs.sum(1), 1)


def test_single_and_double_precision_give_one_model():
    """Values that float32 holds exactly; random features were drawn in the precision of the rows."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = (scale(X[:90]) * 16).round() / 16, y[:90]
    double, single = make().fit(X, y), make().fit(X.astype(np.float32), y)
    assert single.ridge_.random_weights_.dtype == single.ridge_.coef_.dtype == np.float64
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(single.left_out_proba_, double.left_out_proba_, atol=1e-9)


def test_values_beyond_0_and_1_are_cut_off():
    least = fourier_ridge.LEAST
    expected = np.array([[1 + least, least], [0.5, 0.5]]) / [[1 + 2 * least], [1]]
    np.testing.assert_allclose(on_simplex(np.array([[1.3, -0.3], [0.0, 0.0]])), expected)


def test_trees_of_many_classes_grow_on_fewer_rows(monkeypatch):
    """A node has a number for each class: 10,000 rows of 200 classes would take gigabytes."""
    X, y = blobs(90)
    monkeypatch.setattr(correction, "TREE_CELLS", 3 * 20)
    forest = make()._grown(X, np.eye(3)[y], np.ones(90), 1, 0, 5)
    assert {tree.tree_.weighted_n_node_samples[0] for tree in forest.estimators_} == {20}
    clf = make().fit(X, y)
    assert clf.score(X, y) > 0.85 and np.isfinite(clf.left_out_proba_).all()
