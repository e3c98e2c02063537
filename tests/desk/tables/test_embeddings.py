"""Embeddings beside a table: matched by name, fitted by the heads, kept in a file that names their encoder."""

import copy

import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.embeddings import COLUMN, as_table, beside, read_all
from mgce.desk.columns.kinds import Columns
from mgce.desk.files.vectors import matrix, vectors
from mgce.desk.tables.fit import About, FitPlan, run
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.rebuilt import MOST_PARTS
from mgce.estimators import MGCEEmbeddingClassifier
from mgce.features.feature_files import Card, Features, write_features

CARD = Card("tiny:net", "pictures", "ab" * 32, "4 x 4", 8)
N = 150
PLAN = FitPlan("y", "file")


@pytest.fixture(scope="module")
def data():
    """Three classes in eight numbers; a label in five is wrong."""
    rng = np.random.default_rng(0)
    right = rng.integers(3, size=N)
    X = (rng.normal(size=(N, 8)) + 4 * np.eye(8)[right]).astype(np.float32)
    wrong = rng.random(N) < 0.2
    given = np.where(wrong, (right + rng.integers(1, 3, N)) % 3, right)
    frame = pd.DataFrame({"file": [f"{i:03d}.png" for i in range(N)], "note": "x", "y": np.array([*"abc"])[given]})
    return X, right, wrong, frame


def features(X, names=None, card=CARD):
    return Features(X, None if names is None else np.array(names, dtype=str), card)


@pytest.fixture(scope="module")
def fitted(data):
    X, _, _, frame = data
    table, _, _ = beside(frame, features(X, frame["file"]), "file")
    return run(table, PLAN, about=About(encoder=CARD))


def test_rows_are_matched_by_name_whatever_the_order(data):
    X, _, _, frame = data
    shuffled = np.random.default_rng(1).permutation(N)
    more = features(np.vstack([X[shuffled], X[:2]]), [*frame["file"].iloc[shuffled], "other", "another"])
    for id in ("file", None):  # None finds the column
        table, column, notes = beside(frame, more, id)
        assert column == "file" and notes == ["2 of the 152 embeddings belong to no row of the table."]
        np.testing.assert_array_equal(matrix(table[COLUMN]), X)
    assert COLUMN not in frame.columns


def test_without_names_the_order_matches_and_is_said(data):
    X, _, _, frame = data
    for names in (None, [str(number) for number in range(1, N + 1)]):
        table, column, notes = beside(frame, features(X, names), None)
        assert column is None and "matched by their order" in notes[0]
        np.testing.assert_array_equal(matrix(table[COLUMN]), X)


@pytest.mark.parametrize(
    "rows, names, id, sentence",
    [
        (slice(0, 149), None, None, r"for each of the 150 rows of the table, but got '149, without names"),
        (
            slice(0, 149),
            "file",
            None,
            r"for every value of column `file`, but got \"none for 1 rows, such as '149.png'",
        ),
        (slice(0, 150), "same", "file", r"features of different names, but got \"'x' more than once\""),
        (slice(0, 150), "file", "note", r"for every value of column `note`, but got \"none for 150 rows"),
    ],
)
def test_features_that_do_not_belong_to_the_rows_are_refused(data, rows, names, id, sentence):
    X, _, _, frame = data
    named = None if names is None else (frame["note"] if names == "same" else frame["file"])[rows]
    with pytest.raises(ValueError, match=sentence):
        beside(frame, features(X[rows], named), id)
    with pytest.raises(ValueError, match="a table without a column 'embedding'"):
        beside(frame.assign(embedding=1), features(X), None)


def test_shards_are_read_as_one_file(data, tmp_path):
    X, _, _, frame = data
    names = frame["file"].tolist()
    for number, part in enumerate((slice(0, 60), slice(60, N))):
        write_features(tmp_path / f"{number}.npy", iter([X[part]]), "float32", names[part], CARD, "")
    whole = read_all([tmp_path / "0.npy", tmp_path / "1.npy"])
    np.testing.assert_array_equal(whole.values, X)
    assert whole.names.tolist() == names and whole.card == CARD
    np.save(tmp_path / "2.npy", X[:, :3])
    with pytest.raises(ValueError, match="Expected `embeddings` to be files of 8 features"):
        read_all([tmp_path / "0.npy", tmp_path / "2.npy"])
    other = Card("tiny:net", "pictures", "cd" * 32, "4 x 4", 8)
    write_features(tmp_path / "3.npy", iter([X]), "float32", names, other, "")
    with pytest.raises(ValueError, match="features by the encoder"):
        read_all([tmp_path / "0.npy", tmp_path / "3.npy"])


def test_the_heads_are_chosen_and_measured_on_rows_held_out(fitted, data):
    X, right, _, frame = data
    assert fitted.choice.name == "head" and fitted.model.columns.kinds == {COLUMN: "embedding"}
    table, _, _ = beside(frame, features(X, frame["file"]), "file")
    predicted = fitted.model.predict(fitted.model.columns.select(table))
    assert (predicted.label == np.array([*"abc"])[right]).mean() > 0.9
    assert fitted.certificate.n == round(N / 4) and fitted.n_train == N - fitted.certificate.n
    assert fitted.model.sets is not None and fitted.model.corrects
    assert fitted.measures.importance[0].column == COLUMN
    assert "The embeddings alone are learnt from, not the columns beside them: note." in fitted.notes
    assert list(fitted.listing.cells.columns) == ["note"]


def test_wrong_labels_are_found_by_heads_that_have_not_seen_the_row(fitted, data):
    _, _, wrong, frame = data
    place = fitted.row_names.map(frame.set_index("file").index.get_loc).to_numpy()
    first = place[fitted.judgement.order[: wrong.sum()]]
    assert wrong[first].mean() > 0.8
    assert fitted.judgement.source == "head"


@pytest.mark.slow
def test_the_order_of_the_rows_does_not_matter(fitted, data):
    X, _, _, frame = data
    mixed = np.random.default_rng(2).permutation(N)
    again = run(beside(frame.iloc[mixed].reset_index(drop=True), features(X, frame["file"]), "file")[0], PLAN)
    assert again.certificate == fitted.certificate and again.quality == fitted.quality
    suspects = [fit.row_names.iloc[fit.judgement.order].tolist() for fit in (fitted, again)]
    assert suspects[0] == suspects[1]


def test_a_file_gives_back_the_model_with_the_card(fitted, data, tmp_path):
    path = tmp_path / "m.mgce"
    path.write_bytes(fitted.model.to_bytes())
    loaded = TableModel.load(path)
    assert loaded.encoder == CARD and loaded.columns == fitted.model.columns and loaded.columns.width == 8
    assert type(loaded.pipeline[-1]) is MGCEEmbeddingClassifier
    selected = loaded.columns.select(as_table(features(data[0]), None))
    for name in ("label", "h", "p", "q"):
        before, after = (getattr(model.predict(selected), name) for model in (fitted.model, loaded))
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    "attribute, value",
    [
        ("scales_", -np.ones(8, np.float32)),
        ("means_", np.ones(7, np.float32)),
        ("coefs_", np.ones((40, 3, 8), np.float32)),
        ("coefs_", np.full((4, 3, 8), np.nan, np.float32)),
        ("intercepts_", np.ones((4, 2), np.float32)),
    ],
)
def test_a_forged_head_is_refused(fitted, tmp_path, attribute, value):
    forged = copy.deepcopy(fitted.model)
    setattr(forged.pipeline[-1], attribute, value)
    (tmp_path / "m.mgce").write_bytes(forged.to_bytes())
    with pytest.raises(ValueError, match="Expected `model` to be an undamaged file"):
        TableModel.load(tmp_path / "m.mgce")


@pytest.mark.parametrize("n_heads", [0, 1, MOST_PARTS, MOST_PARTS + 1])
def test_a_file_has_one_head_at_least_and_no_more_than_a_fit_makes(fitted, tmp_path, n_heads):
    forged = copy.deepcopy(fitted.model)
    heads = forged.pipeline[-1]
    heads.coefs_, heads.intercepts_ = (
        np.resize(of, (n_heads, *of.shape[1:])) for of in (heads.coefs_, heads.intercepts_)
    )
    (tmp_path / "m.mgce").write_bytes(forged.to_bytes())
    if 1 <= n_heads <= MOST_PARTS:
        assert len(TableModel.load(tmp_path / "m.mgce").pipeline[-1].coefs_) == n_heads
        return
    with pytest.raises(ValueError, match="Expected `model` to be an undamaged file") as refusal:
        TableModel.load(tmp_path / "m.mgce")
    said = f"Expected `coefs_` to be those of 1 to {MOST_PARTS} heads, but got {n_heads}."
    assert str(refusal.value.__cause__) == said


@pytest.mark.slow
def test_a_column_of_lists_is_learnt_from_too(data):
    X, _, _, frame = data
    lists = frame.assign(vector=X.tolist())
    result = run(lists, FitPlan("y", "file"))
    assert result.model.columns.kinds == {"vector": "embedding"} and result.model.encoder is None
    with pytest.raises(ValueError, match="one column of embeddings; see --drop, but got '2: vector, again'"):
        run(lists.assign(again=X.tolist()), FitPlan("y", "file"))


@pytest.mark.nightly
def test_another_model_can_be_asked_for(data):
    X, _, _, frame = data
    result = run(beside(frame, features(X), None)[0], FitPlan("y", model="linear"))
    assert result.choice.name == "linear" and result.judgement.source == "correction"


def test_equal_pictures_are_copies(data):
    """Ten rows once more: they are held out with their copies, and count once."""
    X, _, _, frame = data
    twice, again = np.vstack([X, X[:10]]), pd.concat([frame, frame[:10]], ignore_index=True)
    table = beside(again, features(twice), None)[0].assign(more=twice[:, :2].tolist())
    result = run(table, FitPlan("y", drop=("file", "more")))
    assert result.n_copies == 10 and result.n_train + result.certificate.n == N


@pytest.mark.parametrize(
    "cells, sentence",
    [
        (lambda X: [*vectors(X[:-1]), None], "embeddings of 8 numbers, but got 'none in data row 150'"),
        (lambda X: [*vectors(X[:-1]), *vectors(X[-1:, :3])], "embeddings of 8 numbers, but got '3 in data row 150'"),
        (
            lambda X: vectors(np.where(np.arange(N)[:, None] == 149, np.inf, X)),
            "finite numbers, but that of data row 150",
        ),
    ],
)
def test_vectors_that_do_not_fit_are_refused(data, cells, sentence):
    X, _, _, frame = data
    table = frame.assign(embedding=pd.Series(cells(X), dtype=object))
    with pytest.raises(ValueError, match=sentence):
        Columns.of(table, "y", "file").select(table)
