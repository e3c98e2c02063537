import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from contracts.estimator_contract import EstimatorContract
from mgce.estimators import MGCEClassifier
from mgce.estimators.linear import automatic_lambda0
from mgce.risk import fit_linear


def blobs(n=150, seed=0, **settings):
    arguments = dict(n_informative=4, n_redundant=0, n_classes=3, class_sep=1.0, random_state=seed) | settings
    X, y = make_classification(n, 5, **arguments)
    return X, y


def reference(X, y, beta, lambda0, weight=None, floor=0.01):
    """Solve the same problem with cvxpy: h in the epigraph of the loss, for beta of the form 1, 2 or inf."""
    cp = pytest.importorskip("cvxpy")
    n, k = len(y), y.max() + 1
    weight = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    psi, Y = np.c_[X, np.ones(n)], np.eye(k)[y]
    tau = (Y * weight[:, None]).T @ psi
    square = (Y * weight[:, None]).T @ psi**2
    s = np.maximum(np.sqrt(np.maximum(square - tau**2, 0)), floor * np.sqrt(square.sum(0)))
    mu, nu = cp.Variable((k, psi.shape[1])), cp.Variable(n)
    f = psi @ mu.T
    if math.isinf(beta):
        smooth = weight @ cp.log_sum_exp(f, axis=1)
        constraints = []
    else:
        smooth = -weight @ nu
        shifted = f / beta + cp.reshape(nu, (n, 1), order="C") @ np.ones((1, k)) / beta + 1
        constraints = (
            [cp.norm(cp.pos(shifted), beta, axis=1) <= 1] if beta > 1 else [cp.sum(cp.pos(shifted), axis=1) <= 1]
        )
    objective = smooth - cp.sum(cp.multiply(tau, mu)) + lambda0 * cp.sum(cp.multiply(s, cp.abs(mu)))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    return problem.solve(solver="CLARABEL"), mu.value


class TestContract(EstimatorContract):
    make = MGCEClassifier

    def test_grid_search(self, data):
        search = self.grid_search(data, {"beta": [1.05, 2.0], "lambda0": [1e-3, 30.0]})
        assert search.best_params_["lambda0"] == 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1.4, *(pytest.param(b, marks=pytest.mark.nightly) for b in (1, 1.05, 2.0, math.inf))])
def test_every_scikit_learn_check_at_other_betas(beta):
    check_estimator(MGCEClassifier(beta=beta), on_skip=None)


@pytest.mark.parametrize("beta", [1, 2, math.inf])
@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_objective_is_that_of_cvxpy(beta, solver):
    X, y = blobs(60)
    weight = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    value, _ = reference(X, y, beta, 0.03, weight)
    clf = MGCEClassifier(beta, lambda0=0.03, tol=1e-7, solver=solver).fit(X, y, weight)
    # L-BFGS-B minimises at 1.02 where beta is 1, at most 0.02 off.
    assert value - 1e-6 <= clf.minimax_risk_ <= value + (0.02 if (beta, solver) == (1, "lbfgs") else 1e-5)
    assert clf.minimax_risk_ - clf.duality_gap_ <= value + 1e-6


def test_risk_is_the_objective_of_the_stored_coefficients():
    X, y = blobs()
    clf = MGCEClassifier(1.4, lambda0=0.01).fit(X, y)
    psi, Y = np.c_[X, np.ones(150)], np.eye(3)[y]
    s = np.sqrt((Y.T @ psi**2) / 150 - (Y.T @ psi / 150) ** 2)
    mu = np.c_[clf.coef_, clf.intercept_]
    h = clf.predict_proba(X)[np.arange(150), y]
    f = X @ clf.coef_.T + clf.intercept_
    loss = np.where(h > 0, 1.4 * (1 - h ** (1 / 1.4)), np.nan)
    inside = ~np.isnan(loss)
    import torch

    from mgce.functional import mgce_loss

    full = mgce_loss(torch.from_numpy(f), torch.from_numpy(y), beta=1.4, reduction="none").numpy()
    np.testing.assert_allclose(full[inside], loss[inside], atol=1e-9)
    assert clf.minimax_risk_ == pytest.approx(full.mean() + 0.01 * (s * np.abs(mu)).sum(), abs=1e-9)


def test_infinite_beta_predicts_like_logistic_regression():
    X, y = blobs()
    ours = MGCEClassifier(math.inf, lambda0=1e-9, tol=1e-8).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_units_of_a_feature_do_not_matter():
    X, y = blobs()
    scale = np.array([1, 1e2, 1e-2, 10, 1])
    one = MGCEClassifier(lambda0=0.01, tol=1e-7).fit(X, y)
    other = MGCEClassifier(lambda0=0.01, tol=1e-7).fit(X * scale, y)
    np.testing.assert_allclose(other.predict_proba(X * scale), one.predict_proba(X), atol=1e-3)
    assert other.minimax_risk_ == pytest.approx(one.minimax_risk_, abs=1e-6)


def test_a_strong_penalty_leaves_nothing():
    X, y = blobs()
    clf = MGCEClassifier(lambda0=100.0).fit(X, y)
    assert not clf.coef_.any() and not clf.intercept_.any()
    assert clf.minimax_risk_ == pytest.approx(1.4 * (1 - 3 ** (-1 / 1.4)))


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "sgd"])
def test_sparse_rows_give_what_dense_rows_give(solver):
    X, y = blobs()
    X[np.abs(X) < 1] = 0
    dense = MGCEClassifier(lambda0=0.01, solver=solver, random_state=0).fit(X, y)
    for form in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array):
        clf = MGCEClassifier(lambda0=0.01, solver=solver, random_state=0).fit(form(X), y)
        np.testing.assert_allclose(clf.predict_proba(form(X)), dense.predict_proba(X), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "sgd"])
def test_large_sparse_rows_are_not_made_dense(solver, monkeypatch):
    generator = np.random.default_rng(0)
    places = generator.integers([[500], [4000]], size=(2, 10_000))  # rows, columns; half a percent
    X = sparse.csr_array((generator.random(10_000), places), shape=(500, 4000))
    y = (np.asarray(X[:, :2000].sum(1)) > np.asarray(X[:, 2000:].sum(1))).astype(int)
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sparse.csr_array, name, lambda self: pytest.fail("made dense"))
        monkeypatch.setattr(sparse.csr_matrix, name, lambda self: pytest.fail("made dense"))
    clf = MGCEClassifier(lambda0=0.3, solver=solver, max_iter=3000, random_state=0).fit(X, y)
    assert clf.score(X, y) > 0.8
    assert np.isfinite(clf.duality_gap_)


def test_balanced_classes_are_those_weights():
    X, y = blobs(weights=[0.7, 0.2, 0.1])
    factor = 150 / (3 * np.bincount(y))
    expected = MGCEClassifier().fit(X, y, factor[y])
    clf = MGCEClassifier(class_weight="balanced").fit(X, y)
    by_dict = MGCEClassifier(class_weight=dict(enumerate(factor))).fit(X, y)
    for other in (clf, by_dict):
        np.testing.assert_allclose(other.coef_, expected.coef_, atol=1e-6)


def test_weighted_rows_count_as_repeated_rows():
    X, y = blobs(80)
    weight = np.random.default_rng(0).integers(0, 3, 80)
    order = np.random.default_rng(1).permutation(weight.sum())
    repeated = np.repeat(np.arange(80), weight)[order]
    weighted = MGCEClassifier().fit(X, y, weight)
    np.testing.assert_array_equal(weighted.coef_, MGCEClassifier().fit(X[repeated], y[repeated]).coef_)


def test_warm_start_goes_on_from_the_last_coefficients():
    X, y = StandardScaler().fit_transform(load_digits().data), load_digits().target
    clf = MGCEClassifier(lambda0=0.01, solver="lbfgs", warm_start=True).fit(X, y)
    cold, risk = clf.n_iter_, clf.minimax_risk_
    clf.fit(X, y)
    assert clf.n_iter_ < cold / 2
    assert clf.minimax_risk_ <= risk
    two = y < 2
    assert clf.fit(X[two], y[two]).coef_.shape == (2, 64)  # other classes: a cold start


def test_running_out_of_iterations_warns():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="after 2 iterations; raise `max_iter`"):
        clf = MGCEClassifier(solver="lbfgs", max_iter=2).fit(X, y)
    assert clf.n_iter_ == 2


@pytest.mark.nightly
@pytest.mark.slow
def test_large_problem_stops_near_the_optimum():
    X, y = StandardScaler().fit_transform(load_digits().data), load_digits().target
    clf = MGCEClassifier(lambda0=0.01).fit(X, y)
    exact = MGCEClassifier(lambda0=0.01, solver="interior", tol=1e-6).fit(X, y)
    assert clf.minimax_risk_ <= exact.minimax_risk_ + 5e-4 * 1.4 * (1 - 10 ** (-1 / 1.4))
    assert clf.minimax_risk_ - clf.duality_gap_ <= exact.minimax_risk_ + 1e-12


def test_nonlinear_features_come_from_a_pipeline():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (np.hypot(*X.T) > 1.1).astype(int)
    assert MGCEClassifier().fit(X, y).score(X, y) < 0.7
    assert make_pipeline(Nystroem(n_components=50, random_state=0), MGCEClassifier()).fit(X, y).score(X, y) > 0.95


def test_one_class_and_bad_parameters_get_a_sentence():
    X, y = blobs()
    with pytest.raises(ValueError, match="Expected `y` to be of at least 2 classes, but got '1 class'"):
        MGCEClassifier().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="Expected `sample_weight` to be positive for rows of at least 2 classes"):
        MGCEClassifier().fit(X, y, (y == 1).astype(float))
    for bad in ({"beta": 0.5}, {"lambda0": -1}, {"solver": "newton"}, {"tol": -1}, {"max_iter": 0}):
        with pytest.raises(ValueError, match=f"Expected `{next(iter(bad))}` to be "):
            MGCEClassifier(**bad).fit(X, y)
    with pytest.raises(ValueError, match="Expected `beta` to be 1 for method 'lp'"):
        MGCEClassifier(solver="lp").fit(X, y)
    with pytest.raises(NotFittedError):
        MGCEClassifier().predict(X)


def test_no_intercept():
    X, y = blobs()
    clf = MGCEClassifier(fit_intercept=False, lambda0=0.01).fit(X, y)
    assert not clf.intercept_.any()
    s = np.sqrt((np.eye(3)[y].T @ X**2) / 150 - (np.eye(3)[y].T @ X / 150) ** 2)
    assert clf.minimax_risk_ == pytest.approx(fit_linear(X, labels=y, beta=1.4, lambda_=0.01 * s).value, abs=1e-4)


def test_the_automatic_penalty_follows_the_numbers_of_rows_and_coefficients():
    # Coefficients as many as rows, or more: one standard error. A fifth as many: a 25th of it. Then the two limits.
    assert automatic_lambda0(2500, 4, 625) == automatic_lambda0(2500, 4, 5000) == 1 / 50
    assert automatic_lambda0(1000, 4, 50) == pytest.approx(1000**-0.5 / 25)
    assert automatic_lambda0(4, 2, 2) == 0.06
    assert automatic_lambda0(10**4, 2, 5) == 1e-3
    X, y = blobs(90)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(90, 40))])
    clf = MGCEClassifier().fit(X, y)
    assert clf.lambda0_ == automatic_lambda0(90, 3, X.shape[1] + 1) > 1e-3
    explicit = MGCEClassifier(lambda0=clf.lambda0_).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, explicit.coef_)
    streamed = MGCEClassifier(random_state=0, tol=1).fit_chunks([(X[:50], y[:50]), (X[50:], y[50:])])
    assert streamed.lambda0_ == clf.lambda0_
    assert MGCEClassifier().partial_fit(X, y, classes=[0, 1, 2]).lambda0_ == clf.lambda0_


def test_the_automatic_penalty_counts_rows_by_their_weights():
    X, y = blobs(60)
    one = MGCEClassifier(tol=1e-2).fit(X, y).lambda0_
    assert MGCEClassifier(tol=1e-2).fit(X, y, np.full(60, 1 / 60)).lambda0_ == pytest.approx(one)  # they sum to one
    thrice = MGCEClassifier(tol=1e-2).fit(np.repeat(X, 3, 0), np.repeat(y, 3)).lambda0_
    assert MGCEClassifier(tol=1e-2).fit(X, y, np.full(60, 3.0)).lambda0_ == pytest.approx(thrice)
    assert thrice == automatic_lambda0(180, 3, X.shape[1] + 1) < one


def test_the_default_does_not_fit_wrong_labels_where_features_are_many():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 150)) * 0.3
    y = rng.integers(0, 4, 1300)
    X = means[y] + rng.normal(size=(1300, 150))
    given = np.where(rng.random(300) < 0.4, rng.integers(0, 4, 300), y[:300])
    scores = {
        lambda0: MGCEClassifier(lambda0=lambda0, tol=1e-2).fit(X[:300], given).score(X[300:], y[300:])
        for lambda0 in ("auto", 1e-3, 1e-2, 3e-2, 6e-2, 1e-1)
    }
    assert scores["auto"] > scores[1e-3] + 0.05
    assert scores["auto"] > max(scores.values()) - 0.05
