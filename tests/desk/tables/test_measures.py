from collections import Counter

import numpy as np
import pandas as pd
import pytest

from mgce.desk.tables import held_out as measured
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.held_out import clean_accuracy
from mgce.desk.tables.model import row_prints

PLAN = FitPlan("y", model="linear", noise_rate=0.2)


@pytest.fixture(scope="module")
def frame():
    """Two columns that matter, the first more, and one that does not; a fifth of the labels is wrong."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    right = 2 * x[:, 0] + x[:, 1] > 0.5
    wrong = rng.random(600) < 0.2
    frame = pd.DataFrame(x, columns=["much", "little", "nothing"])
    return frame.assign(y=np.where(right ^ wrong, "yes", "no"), right=np.where(right, "yes", "no"))


@pytest.fixture(scope="module")
def fit(frame):
    return run(frame.drop(columns="right"), PLAN)


@pytest.fixture(scope="module")
def held_out(fit, frame):
    trained = row_prints(fit.measured.columns.select(frame), fit.measured.columns.labels(frame))
    return frame[~np.isin(trained, fit.measured.trained_rows)]


def test_confusion_counts_the_rows_held_out(fit, held_out):
    predicted = fit.measured.predict(fit.measured.columns.select(held_out)).label
    counts = Counter(zip(held_out["y"], predicted, strict=True))
    expected = [[counts[given, other] for other in ("no", "yes")] for given in ("no", "yes")]
    np.testing.assert_array_equal(fit.measures.confusion, expected)
    assert fit.measures.confusion.trace() / 150 == pytest.approx(fit.quality["accuracy"])


def test_the_majority_is_that_of_the_training_rows(fit, frame, held_out):
    train = frame.drop(index=held_out.index)["y"]
    assert fit.measures.majority == (held_out["y"] == train.mode()[0]).mean()


def test_the_majority_of_the_training_rows_may_be_a_minority_of_the_rows_held_out(frame):
    """The last quarter is held out: of the first 60 labels two thirds are "yes", of the last 20 a fifth."""
    labels = ["yes", "no", "yes"] * 20 + ["no", "no", "yes", "no", "no"] * 4
    late = frame[:80].assign(y=labels, when=range(80)).drop(columns="right")
    assert run(late, FitPlan("y", model="linear", time="when")).measures.majority == 0.2


def test_columns_are_ordered_by_what_they_matter(fit):
    assert [each.column for each in fit.measures.importance] == ["much", "little", "nothing"]
    much, little, nothing = (each.mean for each in fit.measures.importance)
    assert much > little + 0.05 > 0.1 and abs(nothing) < 0.05


def test_accuracy_against_right_labels_is_estimated(fit, frame, held_out):
    predicted = fit.measured.predict(fit.measured.columns.select(held_out)).label
    right = (held_out["right"] == predicted).mean()
    # Four standard errors of an accuracy of .8 on 150 rows, divided by 1 - 2 * .2.
    assert abs(fit.measures.clean_accuracy - right) < 4 * np.sqrt(0.8 * 0.2 / 150) / 0.6
    assert fit.measures.clean_accuracy > fit.quality["accuracy"] + 0.05
    assert run(frame, FitPlan("y", model="linear")).measures.clean_accuracy is None


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("right", [0.2, 0.7, 1.0])
def test_clean_accuracy_undoes_symmetric_noise(k, right):
    rate = 0.3
    # A right prediction meets a right label, or a wrong one meets the one of k - 1 wrong labels that it names.
    noisy = right * (1 - rate) + (1 - right) * rate / (k - 1)
    assert clean_accuracy(noisy, rate, k) == pytest.approx(right, abs=1e-12)


def test_the_importance_of_very_many_columns_is_not_measured(frame, monkeypatch):
    monkeypatch.setattr(measured, "SHUFFLES", measured.Shuffles(columns=2))
    assert run(frame.drop(columns="right"), PLAN).measures.importance is None
