"""`find_consensus` and `ConsensusClassifier`: labels of several annotators, as matrices and DataFrames."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from mgce import ConsensusClassifier, find_consensus


@pytest.fixture(scope="module")
def digits():
    """Features, right labels, and labels of three annotators, the last of whom is wrong half of the time."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:400], y[:400]
    rng = np.random.default_rng(0)
    wrong = rng.random((400, 3)) < np.array([0.2, 0.3, 0.5])
    labels = np.where(wrong, (y[:, None] + rng.integers(1, 4, (400, 3))) % 4, y[:, None]).astype(float)
    labels[rng.random((400, 3)) < 0.3] = np.nan
    return X, y, labels


@pytest.fixture(scope="module")
def fitted(digits):
    X, _, labels = digits
    return ConsensusClassifier(random_state=0).fit(X[:300], labels[:300])


def test_consensus_and_model_beat_the_votes(digits, fitted):
    X, y, labels = digits
    votes = pd.DataFrame(labels[:300]).mode(axis=1)[0].fillna(0)
    ours = (fitted.consensus_.labels == y[:300]).mean()
    assert ours > (votes == y[:300]).mean() + 0.1 and ours > 0.97
    assert fitted.score(X[300:], y[300:]) > 0.95
    np.testing.assert_allclose(fitted.predict_proba(X[300:]).sum(1), 1, atol=1e-6)


def test_rows_without_a_label_are_predicted(digits, fitted):
    _, y, labels = digits
    empty = np.isnan(labels[:300]).all(1)
    assert 3 < empty.sum() < 30
    assert (fitted.consensus_.labels[empty] == y[:300][empty]).mean() > 0.8
    assert f"{empty.sum()} rows have no label: their consensus is the prediction." in fitted.consensus_.notes


def test_soft_targets_are_zero_in_rows_without_a_label(digits, fitted):
    _, _, labels = digits
    targets, empty = fitted.consensus_.soft_targets(), np.isnan(labels[:300]).all(1)
    assert targets.dtype == np.float32 and not targets[empty].any()
    np.testing.assert_allclose(targets[~empty], fitted.consensus_.probs[~empty], atol=1e-7)


def test_annotators_have_estimated_accuracies_with_ranges(digits, fitted):
    _, y, labels = digits
    table = fitted.consensus_.annotators
    assert [one.name for one in table] == ["0", "1", "2"]
    for j, one in enumerate(table):
        given = ~np.isnan(labels[:300, j])
        right = (labels[:300, j] == y[:300])[given].mean()
        assert one.n_labels == given.sum()
        lower, upper = one.estimated_range
        assert lower < right < upper and upper - lower < 0.2 and lower < one.estimated_accuracy < upper


def test_rows_in_order_of_doubt(digits, fitted):
    _, y, _ = digits
    found = fitted.consensus_
    assert (np.diff(found.quality[found.order]) >= -1e-9).all()
    wrong = found.labels != y[:300]
    assert wrong[found.order[:30]].sum() >= 0.8 * wrong.sum()


def test_gain_is_that_of_asking_once_more(fitted):
    found, rows = fitted.consensus_, fitted.consensus_.rows_to_label(5)
    gain = found.expected_gain()
    assert gain.min() > -1e-12 and gain[rows[0]] == pytest.approx(gain.max())
    for row in rows:
        label = found.model.pooled * found.probs[row][:, None]  # joint of right class and the new label
        after = sum(label[:, b].sum() * (label[:, b] / label[:, b].sum()).max() for b in range(4))
        assert gain[row] == pytest.approx(after - found.quality[row])


def test_any_classifier_with_weights_will_do(digits):
    X, y, labels = digits
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
    table = pd.DataFrame(X[:300], columns=[f"pixel {i}" for i in range(64)])
    clf = ConsensusClassifier(pipeline, cv=3, random_state=0).fit(table, labels[:300])
    assert (clf.consensus_.labels == y[:300]).mean() > 0.95
    new = pd.DataFrame(X[300:], columns=table.columns)
    assert (clf.predict(new) == y[300:]).mean() > 0.9


def test_probabilities_of_a_user(digits, fitted):
    _, y, labels = digits
    found = find_consensus(labels[:300], fitted.oof_proba_)
    np.testing.assert_allclose(found.probs, fitted.consensus_.probs, atol=1e-9)
    alone = find_consensus(labels[:300])
    assert (alone.labels == y[:300]).mean() < (found.labels == y[:300]).mean()


def test_words_names_and_missing_values(digits):
    _, _, labels = digits
    names = np.array(["ant", "bee", "cat", "dog"], dtype=object)
    words = [[None if np.isnan(cell) else names[int(cell)] for cell in row] for row in labels]
    frame = pd.DataFrame(words, columns=["ann", "bob", "cy"])
    by_word, by_number = find_consensus(frame), find_consensus(np.nan_to_num(labels, nan=-1).astype(int))
    np.testing.assert_allclose(by_word.probs, by_number.probs, atol=1e-12)
    assert [one.name for one in by_word.annotators] == ["ann", "bob", "cy"]
    assert set(by_word.labels) == set(names)


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        ([[0, 0], [1, 1], [0, 0], [1, -1]] * 5, "All labels of each row agree"),
        ([[0, 0, -1], [1, -1, 1], [-1, 0, 0], [1, -1, -1]] * 5, "All labels of each row agree"),
        ([[0], [1], [0], [1]] * 5, "one annotator only"),
        ([[0, 0], [1, 1], [1, 0], [-1, -1]], "1 row has no label: its consensus is the prediction."),
        ([[0, -1], [-1, 1], [0, -1], [-1, 0]] * 5, "No row has two labels"),
        ([[0, 0, -1], [1, 0, -1], [0, 0, -1], [1, 1, -1]] * 5, "Left out, without a label: 2"),
        ([[0, 0], [1, 0], [0, 1], [1, -1]], "Fewer than 10 labels"),
    ],
)
def test_notes_on_labels(labels, note):
    found = find_consensus(labels)
    assert any(note in said for said in found.notes), found.notes
    assert any("consensus is" in said for said in found.notes) == any(max(row) < 0 for row in labels)
    assert found.probs.shape == (len(labels), 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"labels": [0, 1, 0]}, "of shape"),
        ({"labels": [[None, None]]}, "a matrix with a label"),
        ({"labels": [["cat", "cat"], ["cat", None]]}, "the class 'cat' alone"),
        ({"labels": [["cat", "dog"]], "classes": ["cat", "cow"]}, "of the classes .* but got 'dog'"),
        ({"labels": [[0, 1], [1, 1]], "probs": [[0.5, 0.5]]}, "a row for each example"),
    ],
)
def test_bad_input_is_named(arguments, said):
    with pytest.raises(ValueError, match=said):
        find_consensus(**arguments)


def test_bad_rows_are_named(digits):
    X, _, labels = digits
    with pytest.raises(ValueError, match="one for each row of X"):
        ConsensusClassifier().fit(X[:30], labels[:40])
    with pytest.raises(ValueError, match="at least 5 rows"):
        ConsensusClassifier().fit(X[:4], labels[:4])
    with pytest.raises(ValueError, match="`cv`"):
        ConsensusClassifier(cv=1).fit(X, labels)
    with pytest.raises(ValueError, match="predict_proba"):
        ConsensusClassifier(LinearSVC()).fit(X, labels)


def test_an_estimate_is_one_number_and_none_when_errors_are_common(digits, fitted):
    _, y, _ = digits
    accuracy = fitted.consensus_.estimated_accuracy()
    assert accuracy == fitted.consensus_.quality.mean()
    assert accuracy == pytest.approx((fitted.consensus_.labels == y[:300]).mean(), abs=0.03)
    one = find_consensus([[0], [1], [0], [1]] * 5)
    with pytest.raises(ValueError, match="looked-up rows"):
        one.estimated_accuracy()
    with pytest.raises(ValueError, match="at most 20"):
        one.rows_to_label(21)


FRAMES = {
    "float64": lambda frame: frame.astype(float),
    "Int64": lambda frame: frame.astype("Int64"),
    "string": lambda frame: frame.astype("string"),
    "category": lambda frame: frame.astype("category"),
    "boolean": lambda frame: frame.eq(1).astype("boolean"),
    "int64[pyarrow]": lambda frame: frame.astype("int64[pyarrow]"),
    "object": lambda frame: frame.astype(object),
}


def labels_of(kind):
    """Return labels of three annotators of 60 rows in a type of pandas, as plain numbers too, and the right ones."""
    rng = np.random.default_rng(0)
    right = rng.integers(0, 3, 60)
    labels = pd.DataFrame({name: np.where(rng.random(60) < 0.8, right, rng.integers(0, 3, 60)) for name in "abc"})
    gaps = rng.random((60, 3)) < 0.2
    wanted = np.where(gaps, -1, labels == 1 if kind == "boolean" else labels)
    return FRAMES[kind](labels).mask(gaps), wanted, right


@pytest.mark.parametrize("kind", FRAMES)
def test_labels_of_every_type_of_pandas_have_the_same_consensus(kind):
    frame, wanted, _ = labels_of(kind)
    found, plain = find_consensus(frame), find_consensus(wanted)
    np.testing.assert_array_equal(found.probs, plain.probs)
    assert found.labels.astype(float).tolist() == plain.labels.astype(float).tolist()
    assert [one.name for one in found.annotators] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "Int64" else pytest.mark.nightly) for k in FRAMES])
def test_labels_of_every_type_of_pandas_have_the_same_consensus_by_a_model(kind):
    frame, wanted, right = labels_of(kind)
    X = np.random.default_rng(1).normal(size=(60, 3)) + 2 * np.eye(3)[right]
    found, plain = (ConsensusClassifier(random_state=0).fit(X, labels).consensus_ for labels in (frame, wanted))
    np.testing.assert_array_equal(found.probs, plain.probs)


def test_labels_of_nineteen_digits_stay_apart_beside_a_missing_one():
    classes = [1234567890123456700, 1234567890123456701]
    cells = pd.array([*classes, None] * 10, dtype="Int64")
    for frame in (pd.DataFrame({"a": cells, "b": cells}), pd.DataFrame({"a": cells, "b": cells}).astype("category")):
        assert find_consensus(frame).classes.tolist() == classes
