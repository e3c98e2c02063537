import io

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import average_precision_score

from mgce.estimators import MGCEForestClassifier
from mgce.tables.suspects import judge, judgement, suspects_csv


def test_by_hand():
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7], [0.88, 0.12]])
    target = np.array([0, 0, 1, 1, 1])
    found = judgement(probs, target)
    # Thresholds: .85 of class 0, .54 of class 1. The last row has .88 of class 0 and is an issue.
    assert found.is_issue.tolist() == [False, False, False, False, True]
    assert found.suggested.tolist() == [0, 0, 1, 1, 0]
    # The issues make T = ((2/3, 1/3), (0, 1)): a label 0 is right, and q = p T^-1 = (3/2 p_0, p_1 - p_0 / 2).
    q = np.stack([1.5 * probs[:, 0], probs[:, 1] - probs[:, 0] / 2], 1).clip(0)
    q /= q.sum(1, keepdims=True)
    wrong = [q[i, 0] / 3 / (q[i, 0] / 3 + q[i, 1]) for i in (2, 3, 4)]
    np.testing.assert_allclose(found.wrong, [0, 0, *wrong], atol=1e-12)
    assert found.order()[0] == 4 and found.suspects(9).tolist() == [4]


def test_intervals_are_those_of_clopper_and_pearson():
    target = np.repeat([0, 1], 50)
    probs = np.where(target[:, None] == [0, 1], 0.9, 0.1)
    probs[:7] = [0.1, 0.9]
    found = judgement(probs, target)
    assert found.share_wrong() == pytest.approx((0.07, beta.ppf(0.025, 7, 94), beta.ppf(0.975, 8, 93)))
    assert found.share_wrong(1)[:2] == (0, 0) and found.share_wrong(0)[0] == pytest.approx(0.14)


@pytest.mark.parametrize("kind", ["symmetric", "pair"])
def test_wrong_labels_are_found_and_counted(kind):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    bad = rng.random(len(y)) < 0.2
    given = np.where(bad, (y + (1 if kind == "pair" else rng.integers(1, 10, len(y)))) % 10, y)
    train = rng.permutation(len(y))[:1200]
    found = judge(X, given, train, 0)
    held_out = np.setdiff1d(np.arange(len(y)), train)
    for rows in (train, held_out):
        assert average_precision_score(bad[rows], found.wrong[rows]) > 0.95
    share, low, high = found.share_wrong()
    assert low < share < high and abs(share - 0.2) < 0.05
    assert bad[found.suspects(50)].mean() > 0.95


def test_a_row_is_judged_by_trees_that_have_not_seen_it():
    X, y = load_iris(return_X_y=True)
    rows = np.flatnonzero(y == 0)[:3]
    given = y.copy()
    given[rows] = 2  # trees that have seen these rows would believe them
    found = judge(X, given, np.arange(150), 0)
    assert (found.suggested[rows] == 0).all() and set(found.suspects(3).tolist()) == set(rows.tolist())


def test_a_forest_that_was_fitted_gives_the_same_judgement():
    X, target = load_iris(return_X_y=True)
    train = np.arange(0, 150, 2)
    named = np.array(["a", "b", "c"])[target[train]]
    fitted = MGCEForestClassifier(3.0, random_state=7).fit(X[train], named)
    found = judge(X, target, train, 7, fitted=[fitted])
    alone = judge(X, target, train, 7, fitted=["a model of another kind"])
    np.testing.assert_array_equal(found.probs, alone.probs)


def test_every_row_is_in_the_file_and_formulas_are_text():
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    found = judgement(probs, np.array([0, 1, 1]))
    names = pd.Series(["=1+1", "b", "c"], name="id")
    text = suspects_csv(found, np.array(["no", "+yes"]), names).decode()
    frame = pd.read_csv(io.StringIO(text))
    assert frame["id"].tolist()[0] == "c"
    assert set(frame["id"]) == {"'=1+1", "b", "c"} and set(frame["given"]) == {"no", "'+yes"}
    assert frame["is_issue"].tolist()[0] and frame["label_quality"].is_monotonic_increasing
    wrong = 1 - frame["label_quality"]
    np.testing.assert_allclose(frame["expected_precision"], [wrong[:m].mean() for m in (1, 2, 3)], rtol=1e-5)
