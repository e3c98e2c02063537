import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mgce.desk.files.table_files import read_accounted
from mgce.desk.tables.fit import FitPlan, run
from mgce.desk.tables.listing import LEVELS, Listing, probability_text, rounded, suspects_csv
from mgce.desk.tables.rows import Split
from mgce.labels.doubtful import doubtful_labels


def listing(frame, target="y", id=None, held_out=(0,)):
    columns = SimpleNamespace(width=0)
    rows = SimpleNamespace(frame=frame, held_out=np.array(held_out), columns=columns)
    return Listing.of(frame, rows, Split(target, id), None, {1: "keep"})


def test_every_row_is_in_the_file_with_its_cells_and_formulas_are_text():
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    found = doubtful_labels(probs, np.array([0, 1, 1]), classes=np.array(["no", "+yes"]))
    found = replace(found, is_issue=np.array([False, False, True]))  # of three rows nothing is sure enough
    names = pd.Series(["=1+1", "b", "c"], name="id")
    table = pd.DataFrame({"id": names, "given": ["@x", "u", "v"], "size": [1.5, np.nan, 12345678.25], "y": list("abb")})
    text = suspects_csv(found, names, listing(table, id="id")).decode()
    frame = pd.read_csv(io.StringIO(text))
    assert frame["id"].tolist()[0] == "c"
    assert set(frame["id"]) == {"'=1+1", "b", "c"} and set(frame["given"]) == {"no", "'+yes"}
    assert frame["is_issue"].tolist() == [True, False, False] and frame["p_wrong"].is_monotonic_decreasing
    assert frame["rank"].tolist() == [1, 2, 3] and sorted(frame["draw"]) == [1, 2, 3]
    order = found.order
    np.testing.assert_allclose(
        frame["expected_precision"], [found.wrong[order][:m].mean() for m in (1, 2, 3)], atol=1e-4
    )
    of = frame.set_index("id")
    assert of.loc["c", "size"] == 12345678.25 and of.loc["'=1+1", "table: given"] == "'@x" and "y" not in frame
    # The alternative is the likeliest class that is not the given one, also where the given one is likeliest.
    assert of["alternative"].to_dict() == {"'=1+1": "'+yes", "b": "no", "c": "no"}
    assert of.loc["b", "checked"] == "keep" and of["line"].isna().all()


def test_probabilities_are_rounded_to_levels_and_the_ends_are_said():
    np.testing.assert_array_equal(
        rounded(np.array([0.0, 0.02, 0.4, 0.6, 0.83, 1.0])), [0.01, 0.01, 0.5, 0.5, 0.9, 0.99]
    )
    assert probability_text(1.0) == ">99%" and probability_text(0.0) == "<1%"
    assert [probability_text(level) for level in LEVELS] == [f"{100 * level:.0f}%" for level in LEVELS]


LINES = (
    ("x,y\n1,a\n2,b\n3,a\n", [2, 3, 4]),
    ("sep=;\nx;y\n1;a\n\n2;b\n3;a\n", [2, 4, 5]),  # Excel shows no line for the first
    ('x,y\n"1\n2",a\n\n\n2,b\n3,a\n', [2, 5, 6]),
    ('\n"x\nx",y\n1,a\n2,b\n \n3,a\n', [3, 4, 6]),
)


@pytest.mark.parametrize(("text", "lines"), LINES)
def test_lines_are_those_of_a_spreadsheet(tmp_path, text, lines):
    (tmp_path / "t.csv").write_text(text)
    frame, reading = read_accounted(tmp_path / "t.csv", "table")
    assert len(frame) == 3 and reading.spreadsheet_lines(np.arange(3)).tolist() == lines
    assert "rows_before_blank" not in reading.to_dict()


def test_a_table_without_a_file_has_no_lines(people_frame):
    fit = run(people_frame, FitPlan("label", model="linear"))
    assert fit.listing.lines is None
    file = pd.read_csv(io.BytesIO(suspects_csv(fit.judgement, fit.row_names, fit.listing)))
    assert len(file) == len(people_frame) and file["line"].isna().all()
    np.testing.assert_allclose(people_frame["a"].to_numpy()[file["row"] - 1], file["a"], rtol=0)


@pytest.fixture(scope="module")
def people_frame():
    rng = np.random.default_rng(0)
    a = rng.normal(size=120)
    return pd.DataFrame({"a": a, "b": rng.normal(size=120), "label": np.where(a > 0, "yes", "no")})


def test_whole_numbers_with_a_gap_are_listed_as_whole_numbers():
    frame = pd.DataFrame({"n": [1.0, None] * 40, "x": [1.5, None] * 40, "all": [2.0, 3.0] * 40, "none": [None] * 80})
    frame = frame.assign(y=["a", "b"] * 40, none=frame["none"].astype(float))
    cells = listing(frame).cells
    assert (
        str(cells["n"].dtype) == "Int64"
        and cells["n"].isna().tolist()[:2] == [False, True]
        and cells["x"].astype(str)[0] == "1.5"
    )
    assert cells["all"].astype(str)[0] == "2.0" and cells["none"].isna().all()
