"""Vectors in the cells of a table: equal, hashed and written as texts are."""

import numpy as np
import pandas as pd

from mgce.datasets.table_files import accounted, read_frame
from mgce.datasets.vectors import Vector, matrix, vectors, with_vectors

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
