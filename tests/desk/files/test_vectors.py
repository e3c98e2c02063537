"""Vectors in the cells of a table: equal, hashed and written as texts are."""

import json

import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.kinds import CATEGORY, EMBEDDING, NUMBER, Columns
from mgce.desk.columns.notes import notes_on
from mgce.desk.files.table_files import accounted, read_accounted, read_frame
from mgce.desk.files.vectors import Vector, matrix, vectors, with_vectors

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


def test_a_matrix_survives():
    cells = pd.Series(vectors(X), dtype=object)
    np.testing.assert_array_equal(matrix(cells), X)
    np.testing.assert_array_equal(matrix(cells.iloc[[4, 0]]), X[[4, 0]])
    assert matrix(cells.iloc[:0]).shape == (0, 0)
    assert [one.width for one in cells] == [3] * 6 and not cells.isna().any()


def test_pandas_tells_vectors_apart_and_a_text_stands_for_each():
    cells = pd.Series(vectors(np.vstack([X, X[:2]])), dtype=object)
    assert pd.factorize(cells)[0].tolist() == [*range(6), 0, 1]
    hashes = pd.util.hash_pandas_object(cells, index=False)
    assert hashes[0] == hashes[6] and hashes.nunique() == 6
    texts = cells.astype(str)
    assert texts[1] == texts[7] and texts.nunique() == 6 and texts.str.fullmatch("[0-9a-f]{32}").all()


def test_lists_of_numbers_of_one_length_become_vectors_and_nothing_else_does(tmp_path):
    frame = pd.DataFrame(
        {
            "list": X.astype(float).tolist(),
            "array": [*X[:5], None],
            "ragged": [[1.0], [1.0, 2.0], [1.0], [1.0], [1.0], [1.0]],
            "words": [["a"]] * 6,
            "text": ["a"] * 6,
            "number": 1.5,
        }
    )
    read = with_vectors(frame)
    kinds = {name: {type(cell) for cell in read[name]} for name in read.columns}
    assert kinds["list"] == {Vector} and kinds["array"] == {Vector, type(None)}
    assert kinds["ragged"] == kinds["words"] == {list} and kinds["text"] == {str}
    np.testing.assert_array_equal(matrix(read["list"]), X)
    frame[["list", "number"]].to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(matrix(read_frame(tmp_path / "x.parquet", "table")["list"]), X)
    np.testing.assert_array_equal(matrix(accounted(frame[["list"]])[0]["list"]), X)
    assert isinstance(frame["list"].iloc[0], list)  # the caller's


LONG = np.random.default_rng(1).normal(size=(40, 12))
WRITTEN = {
    "JSON": lambda row: json.dumps(row.tolist()),
    "NumPy": str,  # in several lines
    "NumPy, for Python": repr,
    "numbers of NumPy": lambda row: str(list(row)),
    "PyTorch": lambda row: f"tensor({json.dumps(row.tolist())}, dtype=torch.float64)",
}


@pytest.mark.parametrize("form", WRITTEN)
def test_vectors_written_as_text_are_vectors(form, tmp_path):
    with np.printoptions(precision=17, linewidth=60):
        cells = [WRITTEN[form](row) for row in LONG]
    frame = pd.DataFrame({"e": cells, "y": [0, 1] * 20})
    frame.to_csv(tmp_path / "table.csv", index=False)
    read, reading = read_accounted(tmp_path / "table.csv", "table")
    np.testing.assert_array_equal(matrix(read["e"]), LONG.astype(np.float32))
    assert Columns.of(read, "y").kinds == {"e": EMBEDDING} and reading.notes == []
    np.testing.assert_array_equal(matrix(accounted(frame)[0]["e"]), LONG.astype(np.float32))
    assert read_accounted(tmp_path / "table.csv", "table", text=["e"])[0]["e"].tolist() == cells


def test_a_table_of_vectors_is_the_same_in_every_format(tmp_path):
    """JSON lines hold lists of any length, as Parquet does; one row may lack its vector."""
    for width in (3, 12):
        rows = [{"e": row[:width].tolist(), "y": place % 2} for place, row in enumerate(LONG)]
        rows[5]["e"] = None
        pd.DataFrame(rows).to_parquet(tmp_path / "table.parquet")
        (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))
        parquet, lines = (read_frame(tmp_path / f"table.{suffix}", "table") for suffix in ("parquet", "jsonl"))
        assert parquet["e"].tolist() == lines["e"].tolist() and parquet["e"].isna().tolist().index(True) == 5
        assert {type(cell) for cell in lines["e"].drop(5)} == {Vector}


@pytest.mark.parametrize(
    "cells",
    [
        ["[12, 40, 100, 200]", "[11, 41, 99, 201]"],  # boxes
        ["[" + "1 " * 9 + "]", "[" + "1 " * 8 + "]"],  # of different length
        [str(np.arange(2000.0)), str(np.arange(2000.0) + 1)],  # shortened by NumPy
    ],
)
def test_lists_in_text_that_are_no_vectors_stay_text_and_a_note_says_so(cells):
    frame = accounted(pd.DataFrame({"e": cells * 20, "x": 1.5, "y": [0, 1] * 20}))[0]
    columns = Columns.of(frame, "y")
    assert columns.kinds == {"e": CATEGORY, "x": NUMBER} and frame["e"].tolist() == cells * 20
    (note,) = (one for one in notes_on(frame, columns.select(frame), columns.labels(frame), columns) if "lists" in one)
    assert "In a column of embeddings" in note


def test_a_column_of_lists_that_is_to_be_categories_leaves_the_others_features():
    frame = pd.DataFrame({"e": [row.tolist() for row in LONG], "x": 1.5, "y": [0, 1] * 20})
    frame = accounted(frame, text=["e"])[0]
    assert Columns.of(frame, "y", category=["e"]).kinds == {"e": CATEGORY, "x": NUMBER}


def test_a_model_of_embeddings_reads_lists_of_a_frame_that_was_not_read_by_this_package():
    columns = Columns({"e": EMBEDDING}, "y", width=3)
    wanted = columns.select(pd.DataFrame({"e": vectors(X)}))
    for cells in ([*X], X.tolist(), [json.dumps(row.tolist()) for row in X]):
        pd.testing.assert_frame_equal(columns.select(pd.DataFrame({"e": cells})), wanted)
