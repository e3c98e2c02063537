import io
import math
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch
from cleanlab.classification import CleanLearning
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from contracts.estimator_contract import DEAR
from mgce.estimators.mlp import MGCEMLPClassifier
from mgce.functional import minimax_probs, worst_case_probs

SMALL = {"hidden_layer_sizes": (16,), "learning_rate_init": 0.01, "max_iter": 30, "random_state": 0}


def expected_failed_checks(estimator):
    reason = "rows are drawn for the batches and the held-out share whatever their weights"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


def run(check, estimator):
    if check.func.__name__ == "check_array_api_input":
        pytest.skip("SCIPY_ARRAY_API is not set")
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_contract():
    checks = estimator_checks_generator(MGCEMLPClassifier(), mark=None)
    for estimator, check in checks:
        if check.func.__name__ not in {*DEAR, "check_array_api_input"}:
            check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(
    [
        MGCEMLPClassifier(),
        MGCEMLPClassifier((8, 6), beta="cv", betas=(1.0, 2.0, math.inf), solver="sgd", learning_rate_init=0.05),
        MGCEMLPClassifier((64,), early_stopping=False, max_iter=50),
    ],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_contract_of_other_settings(estimator, check):
    run(check, estimator)


def noisy_digits(rate=0.4):
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, stratify=y)
    generator = np.random.default_rng(0)
    wrong = generator.random(len(y_train)) < rate
    y_train = np.where(wrong, (y_train + generator.integers(1, 10, len(y_train))) % 10, y_train)
    return X_train, X_test, y_train, y_test, wrong


def test_margins_and_probabilities_are_those_of_the_same_network_in_torch():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    clf = MGCEMLPClassifier(**SMALL | {"hidden_layer_sizes": (16, 8)}, beta=2.0).fit(X, y)
    layers = []
    for weight, bias in zip(clf.coefs_, clf.intercepts_, strict=True):
        layers += [torch.nn.Linear(*weight.shape), torch.nn.ReLU()]
        layers[-2].weight.data = torch.from_numpy(weight).T
        layers[-2].bias.data = torch.from_numpy(bias)
    net = torch.nn.Sequential(*layers[:-1]).double()
    with torch.no_grad():
        f = net(torch.from_numpy(X))
    np.testing.assert_allclose(clf.decision_function(X), f, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(X), minimax_probs(f, beta=2.0), atol=1e-12)
    np.testing.assert_allclose(clf.worst_case_proba(X), worst_case_probs(f, beta=2.0), atol=1e-12)
    assert [w.shape for w in clf.coefs_] == [(13, 16), (16, 8), (8, 3)]


def test_it_learns_from_wrong_labels_and_finds_them():
    X_train, X_test, y_train, y_test, wrong = noisy_digits()
    clf = MGCEMLPClassifier((128,), random_state=0).fit(X_train, y_train)
    with pytest.warns(ConvergenceWarning):
        plain = MLPClassifier((128,), max_iter=60, random_state=0).fit(X_train, y_train)
    assert clf.score(X_test, y_test) > 0.93 > plain.score(X_test, y_test)
    first = clf.suspect_labels(X_train, y_train)[: wrong.sum()]
    assert wrong[first].mean() > 0.9
    assert clf.certify(X_test, y_test).argmax_error >= 1 - clf.score(X_test, y_test)


def test_cv_keeps_the_best_candidate_as_it_comes_out_alone():
    X_train, _, y_train, _, _ = noisy_digits()
    betas = (11.0, 1.0, 1.4)
    clf = MGCEMLPClassifier(**SMALL, beta="cv", betas=betas).fit(X_train, y_train)
    alone = [MGCEMLPClassifier(**SMALL, beta=beta).fit(X_train, y_train) for beta in betas]
    scores = [one.validation_scores_.max() for one in alone]
    assert clf.scores_.tolist() == scores and len(set(scores)) > 1
    kept = alone[int(np.argmax(scores))]
    assert clf.beta_ == kept.beta_ and clf.best_iter_ == kept.best_iter_
    n = kept.n_iter_
    np.testing.assert_array_equal(clf.validation_scores_[:n], kept.validation_scores_)
    np.testing.assert_allclose(clf.loss_curve_[:n], kept.loss_curve_, rtol=1e-4)
    for one, other in zip(clf.coefs_, kept.coefs_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_of_equally_good_candidates_the_first_is_kept():
    X, y = make_blobs(200, centers=[[-9, -9], [9, 9]], random_state=0)
    for betas in ((2.0, 1.4), (1.4, 2.0)):
        clf = MGCEMLPClassifier(**SMALL, beta="cv", betas=betas).fit(X, y)
        assert clf.scores_.tolist() == [1, 1] and clf.beta_ == betas[0]


def test_early_stopping_keeps_the_best_epoch():
    X_train, _, y_train, _, _ = noisy_digits()
    clf = MGCEMLPClassifier(**SMALL | {"max_iter": 500}, n_iter_no_change=5).fit(X_train, y_train)
    assert clf.validation_scores_[clf.best_iter_ - 1] == clf.validation_scores_.max()
    assert clf.n_iter_ == clf.best_iter_ + 5 == len(clf.loss_curve_) < 500
    to_the_end = MGCEMLPClassifier(**SMALL, early_stopping=False).fit(X_train, y_train)
    assert to_the_end.n_iter_ == to_the_end.best_iter_ == 30
    assert to_the_end.validation_scores_ is None and to_the_end.scores_ is None
    chosen = MGCEMLPClassifier(**SMALL, early_stopping=False, beta="cv", betas=(1.4,)).fit(X_train, y_train)
    assert chosen.n_iter_ == len(chosen.validation_scores_) == 30


def test_the_validation_scores_are_those_of_held_out_rows_in_proportion():
    X, y = load_iris(return_X_y=True)
    clf = MGCEMLPClassifier(**SMALL, validation_fraction=0.2)
    clf.fit(X, y)
    train, held_out = clf._split(np.asarray(y), np.random.RandomState(0))
    assert sorted([*train, *held_out]) == list(range(150)) and np.bincount(y[held_out]).tolist() == [10, 10, 10]
    hits = 30 * clf.validation_scores_
    np.testing.assert_allclose(hits, hits.round(), atol=1e-5)
    tiny, held_out = clf._split(np.array([0, 1]), np.random.RandomState(0))
    assert len(tiny) == len(held_out) == 1


def test_weights_move_the_decision_and_rows_of_weight_zero_are_left_out():
    X = np.zeros((400, 1))
    y = np.repeat(["a", "b"], [300, 100])
    flat = MGCEMLPClassifier(**SMALL, beta=math.inf, early_stopping=False)
    assert abs(clone(flat).fit(X, y).predict_proba(X)[0, 0] - 0.75) < 0.05
    assert abs(clone(flat).set_params(class_weight="balanced").fit(X, y).predict_proba(X)[0, 0] - 0.5) < 0.05
    weight = np.where(y == "a", 1.0, 9.0)
    assert abs(clone(flat).fit(X, y, weight).predict_proba(X)[0, 0] - 0.25) < 0.05
    more_X, more_y = np.r_[X, np.full((7, 1), 1e3)], np.r_[y, np.repeat("b", 7)]
    left_out = clone(flat).fit(more_X, more_y, np.r_[weight, np.zeros(7)])
    np.testing.assert_array_equal(left_out.coefs_[0], clone(flat).fit(X, y, weight).coefs_[0])


def test_deterministic_and_without_side_effects():
    X, y = load_iris(return_X_y=True)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    fits = [MGCEMLPClassifier(**SMALL).fit(X, y) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads
    np.testing.assert_array_equal(fits[0].coefs_[0], fits[1].coefs_[0])
    other = MGCEMLPClassifier(**SMALL | {"random_state": 1}).fit(X, y)
    assert not np.array_equal(fits[0].coefs_[0], other.coefs_[0])


def test_raw_features_are_tolerated_and_standardised_ones_served_well():
    X, y = load_wine(return_X_y=True)  # proline is in the hundreds, hue about one
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    clf = MGCEMLPClassifier(random_state=1)
    assert make_pipeline(StandardScaler(), clone(clf)).fit(X_train, y_train).score(X_test, y_test) > 0.93
    assert clf.fit(X_train, y_train).score(X_test, y_test) > 0.6


def test_works_inside_what_scikit_learn_users_wrap_it_in():
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    clf = MGCEMLPClassifier(**{**SMALL, "random_state": 1})
    search = GridSearchCV(make_pipeline(StandardScaler(), clf), {"mgcemlpclassifier__beta": [1.4, 5.0]}, cv=2)
    assert search.fit(X, y).score(X, y) > 0.9
    calibrated = CalibratedClassifierCV(clf, cv=2).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1)
    assert "hidden_layer_sizes" in clf.fit(X, y)._repr_html_()


def test_works_inside_cleanlab():
    X_train, X_test, y_train, y_test, wrong = noisy_digits(0.2)
    cleaned = CleanLearning(MGCEMLPClassifier(**SMALL), cv_n_folds=2, seed=0).fit(X_train, y_train)
    found = cleaned.get_label_issues()["is_label_issue"].to_numpy()
    assert wrong[found].mean() > 0.7
    assert cleaned.score(X_test, y_test) > 0.85


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"beta": 0.5}, "Expected `beta` to be"),
        ({"beta": "auto"}, "Expected `beta` to be"),
        ({"hidden_layer_sizes": (4, 0)}, "Expected `hidden_layer_sizes`"),
        ({"beta": "cv", "betas": ()}, "Expected `betas` to be one or more values"),
        ({"beta": "cv", "betas": (1.4, 0.9)}, "Expected `beta` to be a float in \\[1, inf\\], but got 0.9"),
        ({"device": "nowhere"}, "Expected `device`"),
        ({"validation_fraction": 1.0}, "Expected `validation_fraction` to be"),
        ({"solver": "sgd", "learning_rate_init": 1e38}, "Expected `learning_rate_init` to be such that training conv"),
    ],
)
def test_wrong_parameters_are_refused(wrong, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        MGCEMLPClassifier(**SMALL | wrong).fit(X, y)


def test_features_beyond_float32_are_refused():
    with pytest.raises(ValueError, match="Expected `X` to be of values in ±3.4e\\+38, the range of float32, but got"):
        MGCEMLPClassifier(**SMALL).fit([[1.0], [-1e39], [3.0]], [0, 1, 1])


def test_verbose_shows_the_epochs():
    X, y = load_iris(return_X_y=True)
    with redirect_stdout(io.StringIO()) as out:
        MGCEMLPClassifier(**SMALL | {"max_iter": 3}, verbose=True).fit(X, y)
    assert "Training, epoch" in out.getvalue() and "3/3" in out.getvalue()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_an_accelerator_trains_the_same_network():
    X, y = load_iris(return_X_y=True)
    fits = [MGCEMLPClassifier(**SMALL | {"max_iter": 3}, device=device).fit(X, y) for device in ("cpu", "cuda")]
    np.testing.assert_allclose(fits[0].coefs_[0], fits[1].coefs_[0], rtol=1e-3, atol=1e-4)
