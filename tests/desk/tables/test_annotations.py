"""Several labels a row in tables: label columns, and long files of row, annotator, label."""

from io import BytesIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgce.desk.files.table_files import read_frame
from mgce.desk.tables.annotations import annotated, of_columns, of_long_file
from mgce.desk.tables.fit import FitPlan


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    y = np.repeat(["yes", "no"], 60)
    X = rng.normal(size=(120, 3)) + (y == "yes")[:, None] * 2
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for name, rate in (("ann", 0.1), ("bob", 0.3)):
        frame[name] = np.where(rng.random(120) < rate, np.where(y == "yes", "no", "yes"), y)
    frame.loc[:4, ["ann", "bob"]] = None
    return frame, y


def test_label_columns_become_one_target(table):
    frame, y = table
    plan = FitPlan("consensus")
    found = annotated(frame, plan, of_columns(frame, ["ann", "bob"]), [], 1)
    assert found.frame["consensus"].isna().sum() == 5
    assert (found.frame["consensus"][5:] == y[5:]).mean() > 0.9
    assert found.plan.drop == ("ann", "bob")  # no features
    written = pd.read_csv(BytesIO(found.to_csv()))
    assert len(written) == 120 and {"row", "consensus", "p_right", "ask", "ann", "bob"} == set(written.columns)
    assert written["p_right"].is_monotonic_increasing and sorted(written["ask"]) == list(range(1, 121))


def test_a_long_file_is_the_same_as_columns(table):
    frame, _ = table
    long = frame[["ann", "bob"]].stack().rename("label").rename_axis(["row", "annotator"]).dropna().reset_index()
    long["row"] = (long["row"] + 1).astype(str)
    names = pd.Series(range(1, 121), name="row").astype(str)
    labels, notes = of_long_file(long.sample(frac=1, random_state=0), names)
    np.testing.assert_array_equal(labels.fillna("").to_numpy(str), frame[["ann", "bob"]].fillna("").to_numpy(str))
    assert list(labels.columns) == ["ann", "bob"]
    assert notes == []


def test_labels_of_nobody_known_have_columns_of_their_own():
    long = pd.DataFrame({"row": list("aab"), "annotator": [None, None, "ann"], "label": ["x", "y", "x"]})
    labels, notes = of_long_file(long, pd.Series(["a", "b", "c"], name="id"))
    assert list(labels.columns) == ["ann", "unknown 1", "unknown 2"]
    assert labels.loc[0, "unknown 2"] == "y" and labels.loc[2].isna().all()
    assert notes == ["2 labels name no annotator."]


@pytest.mark.parametrize(
    ("long", "said"),
    [
        ({"row": ["z"], "annotator": ["ann"], "label": ["x"]}, "'z'"),
        ({"row": ["a", "a"], "annotator": ["ann", "ann"], "label": ["x", "y"]}, "two of ann for a"),
        ({"row": ["a"], "annotator": ["ann"]}, "label"),
        ({"row": ["a"], "annotator": ["ann"], "label": [None]}, "a file with labels"),
    ],
)
def test_bad_long_files_are_named(long, said):
    with pytest.raises(ValueError, match=said):
        of_long_file(pd.DataFrame(long), pd.Series(["a", "b"], name="id"))


def test_bad_columns_are_named(table):
    frame, _ = table
    with pytest.raises(ValueError, match="dan"):
        of_columns(frame, ["ann", "dan"])
    with pytest.raises(ValueError, match="different columns"):
        of_columns(frame, ["ann", "ann"])
    with pytest.raises(ValueError, match="no column of the table"):
        annotated(frame, FitPlan("a"), of_columns(frame, ["ann", "bob"]), [], 1)


def test_labels_that_one_annotator_skipped_are_the_classes_of_the_others(tmp_path):
    """In a file with a schema they are whole numbers; without one, pandas has written 1.0 where it wrote 1 before."""
    given = {"ann": [0, 1, 2, 1], "bob": [0, None, 2, 1], "cy": [None, 1, None, 2]}
    whole = pa.table({name: pa.array(labels, pa.int64()) for name, labels in given.items()})
    pq.write_table(whole, tmp_path / "whole.parquet")
    pd.DataFrame(given).to_parquet(tmp_path / "floats.parquet")
    pd.DataFrame(given).to_csv(tmp_path / "floats.csv", index=False)
    wanted = {name: [None if label is None else str(label) for label in given[name]] for name in given}
    for file in ("whole.parquet", "floats.parquet", "floats.csv"):
        found = of_columns(read_frame(tmp_path / file, "table", text=[*given], classes=[*given]), [*given])
        assert found.astype(object).where(found.notna(), None).to_dict("list") == wanted, file
