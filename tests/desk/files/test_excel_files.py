import datetime as dt
import io

import numpy as np
import pandas as pd
import pytest

from mgce.desk.files.written_tables import to_excel

openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")


def test_every_cell_is_read_back_as_it_was_and_no_text_is_a_formula():
    frame = pd.DataFrame({
        "=name": ["=1+1", "\nHello", " a ", "#N/A"],
        "n": [1, 2, 3, 4],
        "x": [0.1, np.nan, 1e-9, 2.0],
        "day": pd.to_datetime(["2024-05-31", None, "2024-06-01", "2024-06-02"]),
        "yes": [True, False, True, True],
        "mixed": [1, "b", None, dt.date(2024, 1, 2)],
    })  # fmt: skip
    book = openpyxl.load_workbook(io.BytesIO(to_excel(frame, "Year 24")))
    rows = [*book["Year 24"].iter_rows()]
    assert [cell.value for cell in rows[0]] == [*frame.columns] and rows[1][0].data_type == rows[0][0].data_type == "s"
    assert [row[0].value for row in rows[1:]] == ["=1+1", "\nHello", " a ", "#N/A"] and rows[4][0].data_type == "s"
    assert [type(row[1].value) for row in rows[1:]] == [int] * 4
    assert [row[2].value for row in rows[1:]] == [0.1, None, 1e-9, 2]
    assert [row[3].value for row in rows[1:3]] == [dt.datetime(2024, 5, 31), None]
    assert [row[4].value for row in rows[1:]] == [True, False, True, True]
    assert [row[5].value for row in rows[1:]] == [1, "b", None, dt.datetime(2024, 1, 2)]


def test_what_excel_does_not_have_is_written_as_text():
    frame = pd.DataFrame({"a": ["x\x01y", pd.Timestamp("2024-01-01", tz="UTC"), np.float32(0.5)]})
    found = [row[0] for row in openpyxl.load_workbook(io.BytesIO(to_excel(frame)))["Sheet1"].values]
    assert found == ["a", "x\ufffdy", "2024-01-01 00:00:00+00:00", 0.5]


def test_whole_numbers_that_excel_would_round_are_written_as_text():
    numbers = [10**15 - 1, 10**15, -(10**15), 1234567890123456789]
    found = [
        row[0] for row in openpyxl.load_workbook(io.BytesIO(to_excel(pd.DataFrame({"a": numbers}))))["Sheet1"].values
    ]
    assert found[1:] == [10**15 - 1, "1000000000000000", "-1000000000000000", "1234567890123456789"]


@pytest.mark.parametrize(
    ("limit", "frame", "said"),
    [
        (
            "openpyxl.xml.constants.MAX_ROW",
            pd.DataFrame({"a": [1, 2, 3]}),
            "at most 3 rows for an Excel file; write .csv instead, but got '4'",
        ),
        ("openpyxl.xml.constants.MAX_COLUMN", pd.DataFrame([[1, 2, 3, 4]]), "at most 3 columns"),
        ("mgce.desk.files.written_tables.LONGEST", pd.DataFrame({"a": ["abcd"]}), "at most 3 characters in a cell"),
    ],
)
def test_tables_beyond_the_limits_of_excel_are_refused(monkeypatch, limit, frame, said):
    monkeypatch.setattr(limit, 3)
    with pytest.raises(ValueError, match=f"Expected `table` to be a table of {said}"):
        to_excel(frame)
