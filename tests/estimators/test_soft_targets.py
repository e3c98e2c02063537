"""Models of soft targets: left-out predictions, against fits without the row."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.kernel_ridge import KernelRidge

from mgce.estimators import soft_targets
from mgce.estimators.soft_targets import SoftTargetModel, _Kernel


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(150, 6, centers=3, cluster_std=3.0, random_state=0)
    targets = np.eye(3)[y] * 0.7 + 0.1
    return X.astype(np.float32), y, targets


def test_regression_leaves_one_row_out(data):
    X, _, targets = data
    rows = (X / np.sqrt(np.square(X).sum(1).mean())).astype(np.float32)
    kernel = _Kernel(rows, rows, 2.0, targets)
    score = kernel._regressed(targets)
    for row in (0, 17, 100):
        others = np.arange(len(X)) != row
        model = KernelRidge(alpha=kernel._ridge, kernel="rbf", gamma=2.0)
        mean = targets.mean(0)  # that of all rows
        left_out = model.fit(rows[others], targets[others] - mean).predict(rows[[row]])[0] + mean
        np.testing.assert_allclose(score[row], left_out, atol=5e-3)


def test_rows_far_from_all_others_get_the_frequencies_of_the_classes(data):
    X, _, _ = data
    rows = (X / np.sqrt(np.square(X).sum(1).mean())).astype(np.float32)
    targets = np.repeat(np.eye(3), [90, 45, 15], axis=0)
    kernel = _Kernel(rows, rows, 2.0, targets)
    kernel.left_out(targets)
    kernel.fit(targets)
    far = kernel.predict(rows[:2] + 100)
    wanted = np.exp(kernel._factor * np.array([0.6, 0.3, 0.1]))
    np.testing.assert_allclose(far, np.tile(wanted / wanted.sum(), (2, 1)), atol=1e-6)
    assert far[0, 0] > far[0, 1] > far[0, 2]


def test_a_row_is_predicted_without_its_target(data):
    X, _, targets = data
    model = SoftTargetModel(X, 3, np.random.RandomState(0))
    before = model.out_of_fold(targets)
    changed = targets.copy()
    changed[5] = [0.0, 0.0, 1.0] if targets[5, 2] < 0.5 else [1.0, 0.0, 0.0]
    np.testing.assert_allclose(model.out_of_fold(changed)[5], before[5], atol=0.02)  # the mean of targets moves


def test_new_rows_are_predicted_as_well_as_rows_left_out(data):
    X, y, targets = data
    model = SoftTargetModel(X[:100], 3, np.random.RandomState(0))
    left_out = (model.out_of_fold(targets[:100]).argmax(1) == y[:100]).mean()
    probs = model.fit(targets[:100]).predict_proba(X[100:])
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-6)
    assert abs((probs.argmax(1) == y[100:]).mean() - left_out) < 0.12 and left_out > 0.7


def test_units_of_columns_do_not_matter(data):
    X, _, targets = data
    scaled = X * np.array([1000, 1, 1, 0.01, 1, 1], np.float32)
    probs = [SoftTargetModel(rows, 3, np.random.RandomState(0)).out_of_fold(targets) for rows in (X, scaled)]
    np.testing.assert_allclose(*probs, atol=0.02)


def test_few_landmarks_suffice(data, monkeypatch):
    X, y, targets = data
    monkeypatch.setattr(soft_targets, "REGRESSION", soft_targets.REGRESSION._replace(landmarks=50))
    few = SoftTargetModel(X, 3, np.random.RandomState(0)).out_of_fold(targets)
    assert (few.argmax(1) == y).mean() > 0.7
