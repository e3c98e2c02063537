from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mgce import _limits
from mgce.desk.files import preprocessor, read_table, tables, typed_tables
from mgce.desk.files.table_files import read_frame


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "age": [20, 30, None, 50] * 5,
            "job": ["a", "b", "a", None] * 5,
            "class": ["no", "yes", "no", "yes"] * 5,
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_csv_and_parquet_give_the_same_table(tmp_path, frame, suffix):
    path = tmp_path / f"people.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    table = read_table(path, "class")
    assert table.name == "people" and table.classes == ("no", "yes")
    assert table.target.tolist() == [0, 1] * 10
    assert list(table.features.columns) == ["age", "job"]


def test_preprocessor_learns_from_training_rows_only(frame):
    features = frame.drop(columns="class")
    transform = preprocessor(features).fit(features.iloc[:4])
    age = transform.transform(features.iloc[:4])[:, 0]
    # 20, 30, 50 and their median 30: mean 32.5
    np.testing.assert_allclose(age, (np.array([20, 30, 30, 50]) - 32.5) / np.std([20, 30, 30, 50]))
    unseen = pd.DataFrame({"age": [40], "job": ["never seen"]})
    assert np.isfinite(transform.transform(unseen)).all()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda f: f.assign(**{"class": "no"}), "at least two classes', but got|at least two classes, but got"),
        (lambda f: f.assign(**{"class": None}), "Expected `target` to be a column with classes, but got none"),
        (lambda f: f.assign(**{"class": np.arange(20.0)}), "20 different values in 20 rows"),
        (lambda f: f.iloc[:0], "a table with rows"),
        (lambda f: f.assign(age=np.inf), "Expected `age` to be a column of finite or missing numbers"),
        (lambda f: f[["class"]], "a column beside the target"),
        (lambda f: f.rename(columns={"class": "label"}), r"a column of t.csv \(age, job, label\)"),
    ],
)
def test_unfit_tables_are_refused_with_a_sentence(tmp_path, frame, change, message):
    path = tmp_path / "t.csv"
    change(frame).to_csv(path, index=False)
    with pytest.raises(ValueError, match=message):
        read_table(path, "class")


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    (tmp_path / "empty.csv").write_text("")
    for name in ("t.parquet", "empty.csv"):
        with pytest.raises(ValueError, match=f"Expected `dataset` to be a table, but {name} could not be read: .+"):
            read_table(tmp_path / name, "class")
    with pytest.raises(FileNotFoundError, match="Expected `dataset` to be the path of a file that exists"):
        read_table(Path("nowhere.csv"), "class")
    with pytest.raises(ValueError, match="Expected `target` to name the column"):
        path = tmp_path / "t.csv"
        path.write_text("a,b\n1,2\n")
        read_table(path, None)


def test_a_parquet_file_is_read_as_pandas_reads_it(tmp_path):
    rng = np.random.default_rng(0)
    n = 25_000  # several batches
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["x", "y", None], n), "c": rng.integers(9, size=n)})
    frame["d"] = frame["b"].astype("category")
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_frame(tmp_path / "t.parquet", "table"), pd.read_parquet(tmp_path / "t.parquet"))


@pytest.mark.parametrize(
    "module, name, limit",
    [(typed_tables, "TABLE_CELLS", 1_000_000), (_limits, "TABLE_BYTES", 1 << 20), (_limits, "TABLE_COLUMNS", 1)],
)
def test_a_small_parquet_file_of_many_values_is_refused(tmp_path, monkeypatch, module, name, limit):
    frame = pd.DataFrame({"a": np.zeros(600_000), "b": ["some longer words"] * 600_000})
    frame.to_parquet(tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10_000
    monkeypatch.setattr(module, name, limit)
    with pytest.raises(ValueError, match="t.parquet could not be read: .*more than"):
        read_frame(tmp_path / "t.parquet", "table")


def test_the_checksum_of_a_table_is_that_of_its_content():
    features = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]})
    table = tables.Table("t", features, np.array([0, 1]), ("no", "yes"))
    assert table.checksum() == tables.Table("other", features.copy(), np.array([0, 1]), ("no", "yes")).checksum()
    others = [features.assign(a=[1.0, 2.5]), features.rename(columns={"a": "c"}), features.iloc[::-1]]
    changed = [tables.Table("t", other, np.array([0, 1]), ("no", "yes")) for other in others]
    changed.append(tables.Table("t", features, np.array([1, 0]), ("no", "yes")))
    assert len({one.checksum() for one in (table, *changed)}) == 5


def test_text_that_is_no_utf8_is_refused_when_a_parquet_file_is_read(tmp_path):
    pd.DataFrame({"a": ["qqq", "word"]}).to_parquet(tmp_path / "t.parquet", compression=None, use_dictionary=False)
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content.replace(b"qqq", b"\xffqq"))
    with pytest.raises(ValueError, match="t.parquet could not be read"):
        read_frame(tmp_path / "t.parquet", "table")
