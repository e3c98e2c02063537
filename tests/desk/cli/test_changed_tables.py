"""Labels of a table are changed in the type of their column, and none is lost."""

import datetime as dt
from decimal import Decimal

import pandas as pd
import pytest

from mgce._column_types import texts
from mgce.desk.cli.fit_files import Change, Origin, changed_table
from mgce.desk.files.table_files import read_frame
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.files.written_tables import to_parquet

BIG = 1234567890123456789
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
COLUMNS = {
    "texts": ["a", "b", "string"],
    "categories": ["a", "b", "category"],
    "whole numbers": [1, 2, "int64"],
    "whole numbers with gaps": [BIG, BIG + 1, "Int64"],
    "unsigned": [2**64 - 1, 2**64 - 2, "uint64"],
    "numbers": [1.0, 2.5, "float64"],
    "truth values": [True, False, "bool"],
    "truth values with gaps": [True, False, "boolean"],
    "days": [*DAYS, object],
    "times": [*map(pd.Timestamp, DAYS), "datetime64[us]"],
    "times of a zone": [*(pd.Timestamp(day, tz="Europe/Berlin") for day in DAYS), "datetime64[us, Europe/Berlin]"],
    "decimals": [Decimal("1.10"), Decimal("2.20"), object],
}
CHANGED = [(name, kept) for name in COLUMNS for kept in (True, False)]


def changed(frame, path, labels):
    """Write a table, read it, change labels, and return the table that is read back."""
    path.write_bytes(to_parquet(frame))
    out = path.with_name("out.parquet")
    origin = Origin(path, TextFormat())
    content, _ = changed_table(origin, read_frame(path, "table"), Change([4], labels, "y"), out, formulas=False)
    out.write_bytes(content)
    return read_frame(out, "table")


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize(("name", "is_new"), CHANGED)
def test_a_changed_label_is_what_was_decided_in_every_type(tmp_path, name, is_new, encoded):
    first, second, dtype = COLUMNS[name]
    with_gaps = name not in ("whole numbers", "unsigned", "truth values")
    column = pd.Series([first, second, first, None if with_gaps else second, first], dtype=dtype)
    column = column.astype("category") if encoded else column
    path = tmp_path / "t.parquet"
    path.write_bytes(to_parquet(pd.DataFrame({"y": column})))
    known = read_frame(path, "table")["y"]
    label = "7" if is_new else texts(known)[1]
    found = changed(pd.DataFrame({"x": range(5), "y": column}), path, {0: label})
    assert found["x"].tolist() == [0, 1, 2, 3]
    assert texts(found["y"]).fillna("none").tolist() == [label, *texts(known).fillna("none")[1:4]]
    assert is_new or found["y"].dtype.kind == known.dtype.kind


def test_a_label_that_is_no_category_becomes_one(tmp_path):
    ordered = pd.CategoricalDtype(["low", "high"], ordered=True)
    frame = pd.DataFrame({"x": range(5), "y": pd.Series(["low", "high", None, "low", "low"], dtype=ordered)})
    found = changed(frame, tmp_path / "t.parquet", {0: "top", 1: "low"})["y"]
    assert found.tolist()[:2] == ["top", "low"] and found.isna().tolist() == [False, False, True, False]
    assert [*found.cat.categories] == ["low", "high", "top"] and found.cat.ordered
    numbers = frame.assign(y=pd.Series([1, 2, 1, 2, 1], dtype="category"))
    assert changed(numbers, tmp_path / "t.parquet", {0: "3"})["y"].tolist() == [3, 2, 1, 2]
