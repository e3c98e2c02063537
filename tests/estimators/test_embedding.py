"""`MGCEEmbeddingClassifier`: its heads against scipy's minimisers, and what it does about wrong labels."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.special import softmax as scipy_softmax
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression

from contracts.estimator_contract import EstimatorContract
from mgce import MGCEEmbeddingClassifier
from mgce.estimators.directions import REDUCTION, basis, coordinates, fit_head, fitted_directions
from mgce.estimators.embedding import SETTINGS
from mgce.functional import gce_loss


class TestContract(EstimatorContract):
    expected_failures = {  # noqa: RUF012
        f"check_sample_weight_equivalence_on_{kind}_data": "the folds are dealt by rows, whatever their weights"
        for kind in ("dense", "sparse")
    }

    @staticmethod
    def make(**parameters):
        return MGCEEmbeddingClassifier(**{"random_state": 0, **parameters})

    def test_impossible_labels_are_ranked_by_their_margin(self, fitted, data):
        assert fitted.predict_proba(data[0]).min() > 0  # a mean of softmax calls no label impossible

    def test_grid_search(self, data):
        search = self.grid_search(data, {"cv": [2, 3]})
        assert set(search.best_params_) == {"cv"}


@pytest.fixture(scope="module")
def embeddings():
    X, y = make_classification(
        300, 80, n_informative=12, n_redundant=0, n_classes=4, n_clusters_per_class=1, class_sep=2.0, random_state=0
    )
    return np.maximum(X + 1, 0).astype(np.float32), y


@pytest.fixture(scope="module")
def noisy(embeddings):
    wrong = np.random.default_rng(1).random(300) < 0.3
    return np.where(wrong, (embeddings[1] + 1) % 4, embeddings[1])


@pytest.fixture(scope="module")
def fitted(embeddings, noisy):
    return MGCEEmbeddingClassifier(random_state=0).fit(embeddings[0], noisy)


def independent_directions(X):
    roots = np.sqrt(X.astype(float))
    u = (roots - roots.mean(0)) / np.sqrt(roots.std(0))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    return u - u.mean(0)


def test_directions_are_those_of_the_formula(embeddings):
    X, _ = embeddings
    directions, z = fitted_directions(X, np.ones(300, np.float32))
    np.testing.assert_allclose(z, independent_directions(X), atol=1e-6)
    np.testing.assert_allclose(directions(torch.tensor(X).double()), z, atol=1e-6)


@pytest.mark.parametrize("rows", [300, 50], ids=["long", "wide"])
def test_coordinates_are_those_of_the_singular_value_decomposition(embeddings, rows):
    _, z = fitted_directions(embeddings[0][:rows], np.ones(rows, np.float32))
    space = coordinates(z, np.ones(rows, np.float32))
    singular = np.linalg.svd(z.astype(float), compute_uv=False)
    r = len(space.spread)
    np.testing.assert_allclose(space.spread, (singular**2 / (singular**2).sum())[:r], atol=1e-6)
    assert space.spread.sum() == pytest.approx(1, abs=1e-5) if rows == 50 else 0.95 <= space.spread.sum() < 0.97
    np.testing.assert_allclose(space.rows, z @ space.axes)
    np.testing.assert_allclose(space.rows.T @ space.rows / rows, np.diag(space.spread), atol=1e-6)


@pytest.mark.parametrize("l2", [1e-3, 1e-5])
def test_the_logistic_head_is_that_of_scikit_learn(embeddings, l2):
    X, y = embeddings
    _, z = fitted_directions(X, np.ones(300, np.float32))
    space = coordinates(z, np.ones(300, np.float32))
    loss = lambda f: gce_loss(f, torch.from_numpy(y), reduction="none", beta=float("inf"))  # noqa: E731
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 300).astype(np.float32)
    start = np.zeros((len(space.spread) + 1, 4), np.float32)
    head = fit_head(space.rows, space.spread, loss, weight, l2, start)
    other = LogisticRegression(C=1 / (l2 * weight.sum()), tol=1e-8, max_iter=5000).fit(space.rows, y, weight)

    def objective(coef, intercept):
        log_p = log_softmax(space.rows @ coef + intercept, axis=1)[np.arange(300), y]
        return -np.average(log_p, weights=weight) + l2 / 2 * (coef**2).sum()

    least = objective(other.coef_.T, other.intercept_)
    assert objective(head[:-1], head[-1]) == pytest.approx(least, rel=2e-3)


def test_the_robust_head_is_a_minimum_of_scipy(embeddings, noisy):
    X, _ = embeddings
    _, z = fitted_directions(X, np.ones(300, np.float32))
    space = coordinates(z, np.ones(300, np.float32))
    loss = lambda f: gce_loss(f, torch.from_numpy(noisy), reduction="none", beta=1.2)  # noqa: E731
    head = fit_head(
        space.rows, space.spread, loss, np.ones(300, np.float32), 1e-3, np.zeros((len(space.axes.T) + 1, 4), np.float32)
    )

    def objective(flat):
        W = flat.reshape(head.shape)
        p = scipy_softmax(space.rows @ W[:-1] + W[-1], axis=1)[np.arange(300), noisy]
        return (1.2 * (1 - p ** (1 / 1.2))).mean() + 1e-3 / 2 * (W[:-1] ** 2).sum()

    flat = head.astype(float).ravel()
    assert objective(flat) - minimize(objective, flat, options={"maxiter": 3}).fun < 1e-4


def test_margins_are_the_mean_of_the_heads(fitted, embeddings):
    z = independent_directions(embeddings[0])
    heads = [scipy_softmax(z @ W.T + b, axis=1) for W, b in zip(fitted.coefs_, fitted.intercepts_, strict=True)]
    np.testing.assert_allclose(fitted.predict_proba(embeddings[0]), np.mean(heads, 0), atol=1e-4)
    assert len(heads) == len(fitted.head_) and fitted.beta_ == np.inf


def test_it_sees_which_classes_are_confused(fitted, embeddings, noisy):
    X, y = embeddings
    off_diagonal = fitted.noise_matrix_ - np.diag(np.diag(fitted.noise_matrix_))
    np.testing.assert_array_equal(off_diagonal.argmax(1), (np.arange(4) + 1) % 4)
    assert abs(np.diag(fitted.noise_matrix_).mean() - (noisy == y).mean()) < 0.15
    assert (fitted.predict(X) == y).mean() > (
        LogisticRegression(max_iter=5000).fit(X, noisy).predict(X) == y
    ).mean() + 0.1


def test_probabilities_out_of_fold_do_not_know_the_label_of_their_row(embeddings, noisy):
    # Labels by chance can be learnt by heart, and be predicted out of fold no better than by chance.
    labels = np.random.default_rng(5).integers(0, 4, 300)
    clf = MGCEEmbeddingClassifier(random_state=0).fit(embeddings[0], labels)
    assert clf.oof_proba_.shape == (300, 4)
    np.testing.assert_allclose(clf.oof_proba_.sum(1), 1)
    assert (clf.oof_proba_.argmax(1) == labels).mean() < 0.35  # .25, and four deviations of .025


def test_results_name_the_best_penalty(fitted):
    results = fitted.cv_results_
    for name in {"robust", "forward"} & set(fitted.head_):
        own = results["head"] == name
        assert results["l2"][own][results["accuracy"][own].argmax()] == fitted.head_[name]


def test_rows_of_weight_zero_are_left_out(embeddings, noisy):
    weight = np.ones(300)
    weight[::7] = 0
    clf = MGCEEmbeddingClassifier(random_state=0).fit(embeddings[0], noisy, weight)
    other = MGCEEmbeddingClassifier(random_state=0).fit(embeddings[0][weight > 0], noisy[weight > 0])
    np.testing.assert_allclose(clf.coefs_, other.coefs_, atol=1e-6)
    assert np.isnan(clf.oof_proba_[::7]).all() and not np.isnan(clf.oof_proba_[weight > 0]).any()


def test_digits_of_which_two_in_five_are_wrong():
    X, y = load_digits(return_X_y=True)
    noisy = np.where(np.random.default_rng(0).random(len(y)) < 0.4, (y + 1) % 10, y)
    clf = MGCEEmbeddingClassifier(random_state=0).fit(X[:600], noisy[:600])
    plain = LogisticRegression(max_iter=5000).fit(X[:600], noisy[:600])
    assert clf.score(X[600:], y[600:]) > plain.score(X[600:], y[600:]) + 0.1


def test_a_class_that_one_penalty_loses_is_predicted_again_under_the_next(monkeypatch):
    # Under the first penalty the robust heads lose a digit; started there, those of the second never found it again.
    monkeypatch.setattr("mgce.estimators.embedding.SETTINGS", SETTINGS._replace(l2s=(3e-3, 1e-4)))
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(500) < 0.4, (y[:500] + rng.integers(1, 10, 500)) % 10, y[:500])
    clf = MGCEEmbeddingClassifier(random_state=0).fit(X[:500], noisy)
    for predicted in (clf.oof_proba_.argmax(1), clf.predict(X[500:])):
        assert np.bincount(predicted, minlength=10).min() > 20  # of 50 training rows and 130 others


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.nightly)])
def test_two_classes_that_are_confused_nearly_half_and_half_are_not_exchanged(seed):
    # Each digit is labelled as its partner with probability .44. T was estimated with .45 and less on the diagonal: the
    # head that was fitted through it predicted two digits for each other.
    X, y = load_digits(n_class=4, return_X_y=True)
    noisy = np.where(np.random.default_rng(seed).random(len(y)) < 0.44, y ^ 1, y)
    clf = MGCEEmbeddingClassifier(random_state=0).fit(X[:480], noisy[:480])
    predicted = clf.predict(X)
    assert min((predicted[y == digit] == digit).mean() for digit in range(4)) > 0.6
    assert (np.diag(clf.noise_matrix_) >= clf.noise_matrix_[range(4), [1, 0, 3, 2]] - 1e-9).all()


def test_the_head_that_explains_noisy_labels_best_corrects_them(embeddings, noisy, fitted):
    # Labels of the next class only: through T they are far more probable under `forward`. Even noise needs no T.
    assert list(fitted.head_) == ["forward", "corrected", "corrected_robust"]
    assert fitted.head_["corrected"] == fitted.head_["forward"]
    rng = np.random.default_rng(2)
    even = np.where(rng.random(300) < 0.4, rng.integers(0, 4, 300), embeddings[1])
    other = MGCEEmbeddingClassifier(random_state=0).fit(embeddings[0], even)
    assert list(other.head_) == ["robust", "forward", "corrected", "corrected_robust"]
    assert other.head_["corrected"] == other.head_["robust"]


def test_the_fewest_directions_are_kept_that_hold_the_stated_share_of_the_variance():
    variances = 0.9 ** np.arange(100)
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(100, 100)))[0]
    spread, axes = basis((rotation * variances @ rotation.T).astype(np.float32))
    kept = int(np.searchsorted(np.cumsum(variances) / variances.sum(), REDUCTION.kept_variance)) + 1
    assert kept == 29 and spread.shape == (29,) and axes.shape == (100, 29)  # 1 - 0.9^29 is 0.953
    np.testing.assert_allclose(spread / spread[0], variances[:29], rtol=1e-3)
