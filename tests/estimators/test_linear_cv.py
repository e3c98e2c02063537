import numpy as np
import pytest
import sklearn
from joblib import parallel_backend
from sklearn.datasets import make_classification
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold

from contracts.estimator_contract import EstimatorContract
from mgce.estimators import MGCEClassifier, MGCEClassifierCV

BETAS, LAMBDA0S = (1.2, 2.0, 5.0), (1e-3, 3e-2)


@pytest.fixture(scope="module")
def data():
    return make_classification(200, 8, n_informative=4, n_classes=3, flip_y=0.3, random_state=0)


class TestContract(EstimatorContract):
    @staticmethod
    def make(**parameters):
        return MGCEClassifierCV(**dict(betas=(1.4, 5.0), lambda0s=(1e-2,), cv=2) | parameters)


@pytest.mark.nightly
def test_scikit_learn_checks_with_default_candidates():
    sklearn.utils.estimator_checks.check_estimator(MGCEClassifierCV(cv=2), on_skip=None)


@pytest.mark.slow
def test_scores_and_choice_are_those_of_a_grid_search(data):
    X, y = data
    folds = StratifiedKFold(4)
    clf = MGCEClassifierCV(betas=BETAS, lambda0s=LAMBDA0S, cv=folds, tol=1e-6).fit(X, y)
    grid = {"lambda0": LAMBDA0S, "beta": BETAS}
    search = GridSearchCV(MGCEClassifier(tol=1e-6), grid, cv=folds).fit(X, y)
    expected = np.empty(clf.scores_.shape)
    for number, candidate in enumerate(search.cv_results_["params"]):
        at = LAMBDA0S.index(candidate["lambda0"]), BETAS.index(candidate["beta"])
        expected[at] = [search.cv_results_[f"split{fold}_test_score"][number] for fold in range(4)]
    np.testing.assert_allclose(clf.scores_, expected, atol=0.021)  # one row of 50
    means = clf.scores_.mean(2)
    assert means[LAMBDA0S.index(clf.lambda0_), BETAS.index(clf.beta_)] == means.max()


def test_refitted_with_the_chosen_candidate(data):
    X, y = data
    clf = MGCEClassifierCV(betas=BETAS, lambda0s=LAMBDA0S, cv=3).fit(X, y)
    plain = MGCEClassifier(clf.beta_, lambda0=clf.lambda0_).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)
    assert clf.minimax_risk_ == plain.minimax_risk_
    np.testing.assert_array_equal(clf.worst_case_proba(X), plain.worst_case_proba(X))


def test_ties_go_to_the_strongest_penalty_and_the_largest_beta():
    X = np.repeat([[-1.0], [1.0]], 20, axis=0)
    y = np.repeat([0, 1], 20)
    clf = MGCEClassifierCV(betas=(2.0, 5.0, 1.4), lambda0s=(1e-3, 1e-2), cv=2).fit(X, y)
    assert (clf.scores_ == 1).all()
    assert (clf.beta_, clf.lambda0_) == (5.0, 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_jobs_change_nothing(data, backend):
    alone = MGCEClassifierCV(betas=BETAS, lambda0s=LAMBDA0S, cv=2).fit(*data)
    with parallel_backend(backend):
        together = MGCEClassifierCV(betas=BETAS, lambda0s=LAMBDA0S, cv=2, n_jobs=2).fit(*data)
    np.testing.assert_allclose(together.scores_, alone.scores_, atol=1e-12)
    np.testing.assert_array_equal(together.coef_, alone.coef_)


def test_another_scorer_is_used(data):
    X, y = data
    clf = MGCEClassifierCV(betas=(1.4,), lambda0s=(1e-2,), cv=[(np.arange(100), np.arange(100, 200))])
    accuracy = clf.fit(X, y).scores_.item()
    plain = MGCEClassifier(lambda0=1e-2).fit(X[:100], y[:100])
    assert accuracy == accuracy_score(y[100:], plain.predict(X[100:]))
    loss = clf.set_params(scoring="neg_log_loss").fit(X, y).scores_.item()
    assert loss == get_scorer("neg_log_loss")(plain, X[100:], y[100:]) < 0


def test_weights_weigh_fits_and_scores(data):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    split = [(np.arange(100), np.arange(100, 200))]
    clf = MGCEClassifierCV(betas=(1.4,), lambda0s=(1e-2,), cv=split).fit(X, y, weight)
    plain = MGCEClassifier(lambda0=1e-2).fit(X[:100], y[:100], weight[:100])
    assert clf.scores_.item() == pytest.approx(plain.score(X[100:], y[100:], weight[100:]))


def test_groups_reach_the_splitter(data):
    X, y = data
    groups = np.arange(200) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        clf = MGCEClassifierCV(betas=(1.4,), lambda0s=(1e-2,), cv=GroupKFold(5)).fit(X, y, groups=groups)
    assert clf.scores_.shape == (1, 1, 5)
    expected = MGCEClassifierCV(betas=(1.4,), lambda0s=(1e-2,), cv=GroupKFold(5).split(X, y, groups)).fit(X, y)
    np.testing.assert_array_equal(clf.scores_, expected.scores_)
    with pytest.raises(ValueError, match="Expected `params` to be left out unless"):
        MGCEClassifierCV(cv=GroupKFold(5)).fit(X, y, groups=groups)


def test_bad_candidates_get_a_sentence(data):
    for bad in ({"betas": (0.5, 2)}, {"lambda0s": (-1,)}, {"betas": ()}, {"lambda0s": [[1e-3]]}):
        with pytest.raises(ValueError, match=f"Expected `{next(iter(bad))}` to be one or more numbers of at least"):
            MGCEClassifierCV(**bad).fit(*data)
