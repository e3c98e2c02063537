import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

pytest.importorskip("cleanlab", reason="needs cleanlab")

from cleanlab.classification import CleanLearning
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores

from mgce import MGCEClassifier
from mgce.functional import minimax_probs, worst_case_probs
from mgce.integrations.untied import UntiedClassifier, untied_probs
from mgce.noise import corrupt, symmetric
from mgce.risk import estimate_transition

FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:900], y[:900]
    noisy, flipped = corrupt(torch.from_numpy(y), symmetric(10, 0.2), torch.Generator().manual_seed(0))
    clf = MGCEClassifier(lambda0=3e-3, tol=1e-3)
    f = cross_val_predict(clf, X, noisy.numpy(), cv=3, method="decision_function")
    return X, noisy.numpy(), flipped.numpy(), f


def own(probs, labels):
    return probs[np.arange(len(labels)), labels]


def test_many_labels_have_h_of_zero_and_none_has_q_of_zero(digits):
    _, labels, _, f = digits
    h, q = minimax_probs(torch.from_numpy(f), beta=1.4).numpy(), untied_probs(f, beta=1.4)
    assert (own(h, labels) == 0).mean() > 0.1
    assert (q > 0).all() and np.abs(q - h).max() < 1e-5
    np.testing.assert_allclose(q.sum(1), 1, rtol=0, atol=1e-15)
    assert (q.argmax(1) == f.argmax(1)).all()


def test_labels_of_probability_zero_are_ordered_by_their_distance_in_units_of_the_spread(digits):
    _, labels, _, f = digits
    score = get_label_quality_scores(labels, untied_probs(f, beta=1.4), method="self_confidence")
    zero = own(minimax_probs(torch.from_numpy(f), beta=1.4).numpy(), labels) == 0
    distance = [(max(row) - row[label]) / (1 + np.std(row)) for row, label in zip(f, labels, strict=True)]
    assert np.unique(score[zero]).size == zero.sum() > 100
    assert (np.argsort(score[zero]) == np.argsort(-np.array(distance)[zero])).all()


def test_the_order_finds_more_wrong_labels_than_that_of_h(digits):
    _, labels, flipped, f = digits
    h, q = minimax_probs(torch.from_numpy(f), beta=1.4).numpy(), untied_probs(f, beta=1.4)
    by_h, by_q = (average_precision_score(flipped, -own(probs, labels)) for probs in (h, q))
    assert by_q > by_h + 0.01


@pytest.mark.parametrize("far", [1e300, 1.7e308, np.inf])
def test_huge_and_masked_logits(far):
    f = [[3.0, -far, 0.0], [min(far, 1e300), 0.0, -far]]
    q = untied_probs(torch.tensor(f, dtype=torch.float64))
    assert np.isfinite(q).all() and (q >= 0).all() and (q.argmax(1) == 0).all()
    np.testing.assert_allclose(q.sum(1), 1, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "f",
    [
        [[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]],
        [[1 - 1e-9, 1.0, 0.0], [1.0, 1 - 1e-9, 0.0]],  # closer than what is added
        [[0.0, 5.0], [1e-9, 0.0]],
        [[-1e300, 0.0, 1e300], [1e160, -1e160, 0.0]],
        np.zeros((1, 100_000)),  # so many classes that they share more than they have
    ],
)
@pytest.mark.parametrize("beta", [1.0, 1.4, np.inf])
def test_classes_are_ordered_as_their_logits_are_and_equal_logits_get_equal_probabilities(f, beta):
    f = np.asarray(f)
    q = untied_probs(f, beta=beta)
    assert (q > 0).all() and np.abs(q.sum(1) - 1).max() < 1e-14
    for row, logits in zip(q, f, strict=True):
        order = np.argsort(logits)
        assert (np.sign(np.diff(row[order])) == np.sign(np.diff(logits[order]))).all()


@pytest.mark.parametrize("filter_by", FILTERS)
def test_in_each_filter_it_finds_what_h_finds_and_orders_it_better(digits, filter_by):
    _, labels, flipped, f = digits
    h, q = minimax_probs(torch.from_numpy(f), beta=1.4).numpy(), untied_probs(f, beta=1.4)
    found = [find_label_issues(labels, probs, filter_by=filter_by, n_jobs=1) for probs in (h, q)]
    recall = [(mask & flipped).sum() / flipped.sum() for mask in found]
    # q moves each probability by less than 1e-5, and by that the count of rows that a filter takes, which is rounded.
    assert recall[1] >= recall[0] - 1 / flipped.sum() and recall[0] > 0.7
    ranked = find_label_issues(labels, q, filter_by=filter_by, return_indices_ranked_by="self_confidence", n_jobs=1)
    assert (np.diff(own(q, labels)[ranked]) > 0).all()  # no ties: h has a hundred


def test_clean_learning_takes_the_classifier(digits):
    X, labels, flipped, _ = digits
    clf = UntiedClassifier(MGCEClassifier(lambda0=3e-3, tol=1e-3))
    assert clone(clf).estimator.lambda0 == 3e-3
    learning = CleanLearning(clf, cv_n_folds=3, seed=0, find_label_issues_kwargs={"n_jobs": 1}).fit(X, labels)
    issues = learning.get_label_issues()["is_label_issue"].to_numpy()
    assert (issues & flipped).sum() / flipped.sum() > 0.7
    assert (issues & flipped).sum() / issues.sum() > 0.7


def test_two_classes_and_string_labels():
    X = np.array([[0.0], [1.0], [8.0], [9.0]])
    clf = UntiedClassifier(MGCEClassifier(lambda0=1e-5)).fit(X, ["a", "a", "b", "b"])
    assert clf.predict(X).tolist() == ["a", "a", "b", "b"] and clf.classes_.tolist() == ["a", "b"]
    assert (clf.predict_proba(X).argmax(1) == [0, 0, 1, 1]).all() and (clf.predict_proba(X) > 0).all()


def test_the_estimated_matrix_is_that_of_cleanlab(digits):
    from cleanlab.count import estimate_joint

    _, labels, _, f = digits
    p = worst_case_probs(torch.from_numpy(f), beta=1.4).numpy()
    joint = estimate_joint(labels, p).T  # cleanlab has the given label first
    # cleanlab rounds the joint to whole rows: one row of a class of about 80, in numerator and denominator.
    got = estimate_transition(labels, p).matrix
    np.testing.assert_allclose(got, joint / joint.sum(1, keepdims=True), rtol=0, atol=2 / 80)
