"""Several labels a row in tables: label columns, and long files of row, annotator, label."""

from io import BytesIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgce.desk.files.table_files import read_frame
from mgce.desk.tables.annotations import annotated, columns_of_long_file, of_columns, of_long_file
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


@pytest.fixture(scope="module")
def of_both(table):
    frame, _ = table
    return annotated(frame, FitPlan("consensus"), of_columns(frame, ["ann", "bob"]), [], 1)


def test_label_columns_become_one_target(table, of_both):
    _, y = table
    found = of_both
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


LONG = pd.DataFrame(
    {
        "Ticket": ["7", "7", "8", "8", "9", "9"],
        "who": ["Ann", "bob", "Ann", "Bob ", "ann", "Bob "],
        "tag": ["Spam", "spam", "ham", "Ham.", "spam", "ham"],
    }
)
TICKETS = pd.Series(["7", "8", "10"], name="id")


def test_columns_of_a_long_file_are_found_or_named():
    wanted = {"row": "Ticket", "annotator": "who", "label": "tag"}
    assert columns_of_long_file(LONG, TICKETS, {}) == wanted
    assert columns_of_long_file(LONG.iloc[:, ::-1], TICKETS, {"row": "Ticket"}) == wanted
    several = LONG.assign(note=list("abcdef"))
    with pytest.raises(ValueError, match=r"Expected `annotator` to be given, .*\(Ticket, who, tag, note\)"):
        columns_of_long_file(several, TICKETS, {})
    assert columns_of_long_file(several, TICKETS, {"annotator": "who", "label": "tag"}) == wanted
    with pytest.raises(ValueError, match="Expected `row` to be given"):
        columns_of_long_file(LONG, pd.Series(["a"], name="id"), {})
    with pytest.raises(ValueError, match="Expected `label` to be a column of the file of annotations"):
        columns_of_long_file(LONG, TICKETS, {"label": "tags"})
    assert columns_of_long_file(LONG.set_axis(["ROW", "Annotator", "LABEL"], axis=1), TICKETS[:0], {})["row"] == "ROW"


def test_spellings_of_a_long_file_are_joined_and_rows_that_are_not_there_left_out():
    long = LONG.set_axis(["row", "annotator", "label"], axis=1)
    labels, notes = of_long_file(long, TICKETS)
    assert labels.columns.tolist() == ["Ann", "bob"]
    assert labels.fillna("").to_numpy().tolist() == [["Spam", "Spam"], ["ham", "ham"], ["", ""]]
    assert notes[0] == "2 lines of annotations are on rows that the table does not have ('9', for one), and left out."
    assert "for 2 classes" not in notes[1] and "4 spellings are taken for 2 labels" in notes[1] and len(notes) == 3
    apart, _ = of_long_file(long, TICKETS, apart=True)
    assert apart.columns.tolist() == ["Ann", "Bob ", "bob"]
    twice = pd.concat([long, long.iloc[:1]])
    assert of_long_file(twice, TICKETS)[0].equals(labels)  # the same label once more


def test_one_annotator_who_spells_otherwise_makes_no_further_classes(table, of_both):
    frame, _ = table
    typed = frame.assign(bob=frame["bob"].str.upper() + " ")
    found = annotated(typed, FitPlan("consensus"), of_columns(typed, ["ann", "bob"]), [], 1)
    assert found.consensus.labels.tolist() == of_both.consensus.labels.tolist()
    assert found.notes[0].startswith("4 spellings are taken for 2 classes")
    assert not any("no label" in note for note in found.notes)  # they are left out, as the fit says
