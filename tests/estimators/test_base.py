from numbers import Real

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import average_precision_score
from sklearn.utils.class_weight import compute_class_weight

from mgce.estimators import MGCEForestClassifier
from mgce.estimators.base import RobustClassifier, class_factors
from mgce.estimators.parameters import Interval
from mgce.functional import mgce_loss
from mgce.noise import corrupt, pair_flip


class Fixed(RobustClassifier):
    """Margins that are the features themselves."""

    def fit(self, X, y):
        self._encode_training(X, y)
        self.beta_ = 2.0
        return self

    def _margins(self, X):
        return X.astype(np.float32)


def test_golden_probabilities_whatever_the_dtype_of_the_margins():
    clf = Fixed().fit(np.eye(4), list("abcd"))
    f = np.array([[0.5, 0, 0.25, -1]])
    np.testing.assert_allclose(clf.predict_proba(f), [[0.480606059344, 0.19647727399, 31 / 96, 0]], atol=1e-11)
    np.testing.assert_allclose(clf.worst_case_proba(f), [[0.406656890844, 0.260009775823, 1 / 3, 0]], atol=1e-11)
    assert clf.predict(f) == ["a"]
    assert clf.predict_proba(f).dtype == np.float64


def test_labels_in_a_column_are_certified_with_the_warning_of_scikit_learn():
    X, y = np.eye(4)[np.arange(80) % 4], np.array(list("abcd"))[np.arange(80) % 4]
    clf = Fixed().fit(X, y)
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        found = clf.certify(X, y[:, None])
    assert found == clf.certify(X, y)


def test_balanced_weights_are_those_of_scikit_learn_and_a_class_without_weight_keeps_none():
    y = np.repeat(["ant", "bee", "cat"], [5, 1, 4])
    classes, counts = np.unique(y, return_counts=True)
    expected = compute_class_weight("balanced", classes=classes, y=y)
    np.testing.assert_allclose(class_factors("balanced", classes, counts.astype(float)), expected)
    totals = np.array([6.0, 0.0, 2.0])
    factors = class_factors("balanced", classes, totals)
    np.testing.assert_allclose(factors, [8 / 18, 0, 8 / 6])
    assert (factors * totals)[0] == pytest.approx((factors * totals)[2])


def test_suspects_with_golden_leads():
    clf = Fixed().fit(np.eye(3), [10, 20, 30])
    f = np.array([[3, 1.5, -2], [2.0, 0, 0], [2, 0, -5], [0, 0, 0]])
    # The leads are 1.5, 2, 7 and 0, and h = 0 twice.
    assert clf.suspect_labels(f, [20, 30, 30, 10]).tolist() == [2, 1, 0, 3]
    assert clf.suspect_labels(f, [10, 10, 10, 10])[:2].tolist() == [3, 0]  # 0, -1.5, and -2 twice
    np.testing.assert_allclose(clf.label_quality(f, [20, 30, 30, 10]), [0.0503907946894, 0, 0, 1 / 3], atol=1e-11)


def test_suspects_of_huge_margins_are_ranked_by_their_leads():
    class Huge(Fixed):
        def _margins(self, X):
            return X * 1e300  # 12 decimals of it are too large for float64

    clf = Huge().fit(np.eye(2), [0, 1])
    f = np.array([[1, 0], [3.0, 0], [2, 0], [1.7e8, -1.7e8], [0, 1]])
    assert clf.suspect_labels(f, [1, 1, 1, 1, 1]).tolist() == [3, 1, 2, 0, 4]


def test_dense_estimators_refuse_sparse_rows():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="[Ss]parse"):
        Fixed().fit(sparse.eye_array(3, format="csr"), [0, 1, 2])


def test_class_factors_agree_with_scikit_learn():
    from sklearn.utils.class_weight import compute_class_weight

    classes, y = np.array(["a", "b", "c"]), np.array(["a"] * 5 + ["b"] * 3 + ["c"])
    totals = np.array([5.0, 3.0, 1.0])
    for class_weight in (None, "balanced", {"a": 2.0}):
        expected = compute_class_weight(class_weight, classes=classes, y=y)
        np.testing.assert_allclose(class_factors(class_weight, classes, totals), expected)


def test_the_lead_finds_more_wrong_labels_than_the_loss():
    X, y = load_digits(return_X_y=True)
    X, right = X[:900], torch.from_numpy(y[:900])
    noisy, wrong = corrupt(right, pair_flip(10, 0.3), torch.Generator().manual_seed(0))
    forest = MGCEForestClassifier(random_state=0).fit(X[:600], noisy[:600].numpy())
    rest, labels = X[600:], noisy[600:]
    rank = np.empty(300)
    rank[forest.suspect_labels(rest, labels.numpy())] = -np.arange(300)
    loss = mgce_loss(torch.from_numpy(forest.decision_function(rest)), labels, reduction="none", beta=forest.beta_)
    by_lead, by_loss = (average_precision_score(wrong[600:], score) for score in (rank, loss))
    assert by_lead > 0.85 and by_lead > by_loss + 0.02


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_an_interval_has_the_ends_that_it_is_closed_at(closed):
    interval = Interval(Real, 0, 1, closed=closed)
    allowed = [interval.allows(value) for value in (-0.5, 0, 0.5, 1, 1.5)]
    assert allowed == [False, closed in ("left", "both"), True, closed in ("right", "both"), False]
