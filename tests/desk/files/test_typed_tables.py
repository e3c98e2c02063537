import datetime as dt
import gzip
import io
import json
import re
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mgce.desk.files.excel_tables import Workbook
from mgce.desk.files.excel_xml import FirstCells
from mgce.desk.files.table_files import STDIN, accounted, is_table, read_accounted, read_frame
from mgce.desk.files.text_tables import TextFormat

FRAME = pd.DataFrame(
    {
        "x": [1.5, 2.25, -3.0],
        "town": ["Köln", "a;b", "c\nd"],
        "count": [1, 2, 3],
        "day": pd.to_datetime(["2024-05-31", "2024-06-01", "2024-06-02"]),
    }
)


def excel(path, sheets):
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)


def rows_of(frame):
    return [list(frame.columns), *([getattr(v, "to_pydatetime", lambda v=v: v)() for v in row] for row in frame.values)]


def write(path, frame):
    suffix = path.suffix
    if suffix == ".xlsx":
        excel(path, {"Data": rows_of(frame)})
    elif suffix == ".jsonl":
        frame.assign(day=frame["day"].astype(str)).to_json(path, orient="records", lines=True)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        table = pa.Table.from_pandas(frame)
        make = pa.ipc.new_file if suffix == ".feather" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)


FORMATS = {
    ".xlsx": "sheet 'Data' of Excel",
    ".jsonl": "JSON lines",
    ".parquet": "Parquet",
    ".feather": "Arrow",
    ".arrow": "Arrow",
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_table_and_its_account(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write(path, FRAME)
    frame, reading = read_accounted(path, "table")
    expected = FRAME.assign(day=FRAME["day"].astype(str)) if suffix == ".jsonl" else FRAME
    pd.testing.assert_frame_equal(frame, expected, check_dtype=suffix != ".xlsx" and suffix != ".jsonl")
    assert is_table(path) and str(reading) == f"t{suffix}: 3 rows of 4 columns, from {FORMATS[suffix]}."
    assert reading.notes == []


@pytest.mark.parametrize("suffix", [suffix for suffix in FORMATS if suffix != ".arrow"])
def test_standard_input_and_gzip_are_read_too(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"t{suffix}"
    write(path, FRAME)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    frame, reading = read_accounted(STDIN, "table")
    assert frame["town"].tolist() == FRAME["town"].tolist() and reading.file == "standard input"
    (tmp_path / f"t{suffix}.gz").write_bytes(gzip.compress(path.read_bytes()))
    pd.testing.assert_frame_equal(read_frame(tmp_path / f"t{suffix}.gz", "table"), frame)


def test_a_sheet_is_asked_for_by_name(tmp_path):
    path = tmp_path / "t.xlsx"
    excel(path, {"Notes": [["n"], [1]], "Year 24": [["a", "y"], [1, "u"]]})
    assert read_frame(path, "table", form=TextFormat(sheet="Year 24")).columns.tolist() == ["a", "y"]
    frame, reading = read_accounted(path, "table")
    assert frame.columns.tolist() == ["n"]
    other = "The file also has 'Year 24': to read another, add --sheet 'Year 24'."
    assert reading.notes == [f"Sheet 'Notes' was read. {other}"]
    sentence = (
        r"Expected `sheet` to be a sheet of t.xlsx \(Notes, Year 24\), but got 'year24'. Did you mean 'Year 24'\?"
    )
    with pytest.raises(ValueError, match=sentence):
        read_frame(path, "table", form=TextFormat(sheet="year24"))
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="Expected `sheet` to be left out, as t.csv is no Excel file, but got 'A'"):
        read_frame(tmp_path / "t.csv", "table", form=TextFormat(sheet="A"))


@pytest.mark.parametrize(
    ("columns", "hidden", "found", "why"),
    [
        ("axy", "", 2, "the only one with the column 'y'"),
        ("yxy", "", 0, "the first with the column 'y', which 'C' has too"),
        ("yyy", "", 0, "the first with the column 'y', which 'B', 'C' have too"),
        ("ayy", "B", 2, "the first with the column 'y', which 'B' has too"),
        ("abc", "", 0, "since no sheet has the column 'y'"),
    ],
)
def test_the_sheet_with_the_label_is_found(tmp_path, columns, hidden, found, why):
    path, titles = tmp_path / "t.xlsx", "ABC"
    values = {
        title: [["Register"], [name, "n"], *([f"v{i}", i] for i in range(3))]
        for title, name in zip(titles, columns, strict=True)
    }
    excel(path, values)
    if hidden:
        book = pytest.importorskip("openpyxl").load_workbook(path)
        book[hidden].sheet_state = "hidden"
        book.save(path)
    frame, reading = read_accounted(path, "table", text=["y"], classes=["y"])
    assert (reading.sheet, "y" in frame) == (titles[found], "y" in columns)
    others = ", ".join(
        repr(title) for title in sorted(titles, key=lambda title: title == hidden) if title != titles[found]
    )
    assert reading.notes[0] == (
        f"Sheet {titles[found]!r} was read, {why}. The file also has {others}: to read another, add --sheet NAME."
    )
    _, asked = read_accounted(path, "table", classes=["y"], form=TextFormat(sheet="A"))
    assert asked.sheet == "A" and not any("was read" in note for note in asked.notes)


def test_a_sheet_with_labels_comes_before_one_with_other_wanted_columns(tmp_path):
    sheets = {"A": [["id", "site"], [1, 2]], "B": [["y"], ["u"]], "C": [["id", "y"], [1, "u"]]}
    excel(tmp_path / "t.xlsx", sheets)
    _, reading = read_accounted(tmp_path / "t.xlsx", "table", text=["id", "site", "y"], classes=["y"])
    assert reading.sheet == "C"
    del sheets["C"]
    excel(tmp_path / "t.xlsx", sheets)
    _, reading = read_accounted(tmp_path / "t.xlsx", "table", text=["id", "site", "y"], classes=["y"])
    assert reading.sheet == "B"


def test_a_column_of_labels_that_no_sheet_has_is_not_said_to_be_found(tmp_path):
    excel(tmp_path / "t.xlsx", {"A": [["n"], [1]], "B": [["id", "y"], [1, "u"]]})
    for text, why in ((["id", "Y"], "the only one with most of the wanted columns"), (["id"], "the only one with ")):
        _, reading = read_accounted(tmp_path / "t.xlsx", "table", text=text, classes=["Y"])
        assert reading.sheet == "B" and f"was read, {why}" in reading.notes[0] and "'Y'" not in reading.notes[0]


def test_of_sheets_that_are_not_read_the_first_rows_alone_are_looked_at(tmp_path):
    many = [["y"], *([f"c{i}"] for i in range(200))]
    excel(tmp_path / "t.xlsx", {"A": [["n"], *([i] for i in range(200))], "B": many})
    content = (tmp_path / "t.xlsx").read_bytes()
    book = Workbook(io.BytesIO(content), len(content))
    assert [*book.sheet("B", FirstCells).rows] == [*range(1, 31)]
    assert len(book.sheet("B").rows) == 201


def test_rows_and_cells_of_excel_are_accounted_for(tmp_path):
    path = tmp_path / "t.xlsx"
    head, day = ["code", "x", None, "y", "z"], dt.datetime(2024, 5, 31)
    rows = [[7, 1.5, "#DIV/0!", "NA", "NA"], [None] * 5, ["007", "n/a", None, "None", 2], [8, 2, 3, day, True]]
    excel(path, {"S": [[None], head, *rows, [None]]})
    frame, reading = read_accounted(path, "table", text=["code", "y"], classes=["y"])
    assert frame["code"].tolist() == ["7", "007", "8"]
    assert frame["y"].tolist() == ["NA", "None", "2024-05-31 00:00:00"]
    assert frame["x"].isna().tolist() == [False, True, False] and frame["z"].isna().tolist() == [True, False, False]
    assert frame.columns.tolist() == ["code", "x", "Unnamed: 2", "y", "z"]
    assert frame["Unnamed: 2"].isna().tolist() == [True, True, False]
    assert reading.spreadsheet_lines(np.arange(3)).tolist() == [3, 5, 6]
    blank, error, marks = reading.notes
    assert marks == "`n/a` and `NA` count as missing: 1 cell of `x`, 1 cell of `z`."
    assert blank == "2 blank rows of sheet 'S' were left out."
    assert error == "1 cell holds an error of Excel (#DIV/0!, for one), which counts as missing."


def test_formulas_without_values_are_said_to_be(tmp_path):
    """As a program writes them that does not compute."""
    path = tmp_path / "t.xlsx"
    excel(path, {"S": [["x", "y"], ["=1+1", "a"], ["=2+2", "b"]]})
    frame, reading = read_accounted(path, "table", text=["y"], classes=["y"])
    assert frame["x"].isna().all() and reading.notes == [
        "Sheet 'S' has 2 formulas without a stored value. They count as missing. Open the file in a spreadsheet, and "
        "save it."
    ]


def test_formulas_of_titles_and_totals_that_are_left_out_are_not_told(tmp_path):
    path = tmp_path / "t.xlsx"
    rows = [["Claims of", "=1+1"], ["no", "amount", "y"], [1, 5.0, "a"], [2, 6.0, "b"], ["Total", "=SUM(B3:B4)"]]
    excel(path, {"S": rows})
    frame, reading = read_accounted(path, "table", text=["y"], classes=["y"])
    assert frame["amount"].tolist() == [5.0, 6.0]
    assert not [note for note in reading.notes if "formula" in note]


def test_json_lines_account_for_what_lines_lack(tmp_path):
    lines = [{"a": 1, "b": "NA", "y": "u"}, {"a": 2, "y": "v"}, {"b": [1, 2], "a": None, "y": 7}]
    path = tmp_path / "t.jsonl"
    path.write_text("\ufeff" + "\n\n".join(map(json.dumps, lines)), encoding="utf-8")
    frame, reading = read_accounted(path, "table", text=["y"], classes=["y"])
    assert frame["y"].tolist() == ["u", "v", "7"] and frame["b"].tolist()[::2] == ["NA", "[1, 2]"]
    np.testing.assert_array_equal(frame["a"], [1, 2, np.nan])
    assert reading.notes == ["1 line lacks keys that others have (line 3, for one); these values count as missing."]


@pytest.mark.parametrize(
    "name, content, reason",
    [
        ("t.jsonl", b'{"a": 1}\n{"a": 2\n', "line 2 is no JSON object"),
        ("t.jsonl", b'{"a": 1}\n[1]\n', "line 2 is no JSON object"),
        ("t.jsonl", b'{"a": 1, "a": 2}\n', "an object has two values of one key"),
        ("t.jsonl", b'{"a": ' + b"[" * 100_000 + b"\n", "line 1 is no JSON object"),
        ("t.xlsx", b"no zip", "File is not a zip file"),
        ("t.feather", b"nothing", ".+"),
        ("t.xls", b"\xd0\xcf", "save the sheet as .xlsx or .csv, since .xls is not read"),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path, name, content, reason):
    if name == "t.xlsx":
        pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"Expected `table` to be a table, but {name} could not be read: {reason}"):
        read_frame(tmp_path / name, "table")


def test_two_columns_of_one_name_are_refused_in_every_format(tmp_path):
    excel(tmp_path / "t.xlsx", {"S": [["a", "a"], [1, 2]]})
    with pytest.raises(ValueError, match="but got 2 columns named 'a'"):
        read_frame(tmp_path / "t.xlsx", "table")
    with pytest.raises(ValueError, match="but got 2 columns named 'a'"):
        accounted(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_excel_without_openpyxl_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"Excel files need openpyxl, which is not installed: .*'\.\[cli\]'"):
        read_frame(tmp_path / "t.xlsx", "table")


def test_a_small_excel_file_that_unpacks_to_a_large_one_is_refused(tmp_path, monkeypatch):
    excel(tmp_path / "t.xlsx", {"S": [["a"], *([i] for i in range(100))]})
    monkeypatch.setattr("mgce._limits.TABLE_BYTES", 8_000)
    monkeypatch.setattr("mgce._limits.TABLE_EXPANSION", 0)
    with pytest.raises(ValueError, match="t.xlsx could not be read: its table takes more than 0.0 GB of memory"):
        read_frame(tmp_path / "t.xlsx", "table")


def test_a_frame_of_pandas_is_a_table():
    frame, reading = accounted(FRAME.set_index("town"))
    assert frame.columns.tolist() == ["town", "x", "count", "day"]
    assert str(reading) == "frame: 3 rows of 4 columns, from pandas."
    assert accounted(FRAME.rename(columns={"x": 3}).set_axis([5, 6, 7]))[0].columns.tolist()[0] == "3"
    assert accounted(FRAME[1:])[1].notes == []
    assert len(accounted(FRAME.set_axis(["a", "b", "c"]))[1].notes) == 1
    for wrong in ([1, 2], {"a": [1]}, None):
        with pytest.raises(TypeError, match="Expected `table` to be a frame of pandas or polars"):
            accounted(wrong)
    with pytest.raises(ValueError, match="a table with rows"):
        accounted(FRAME[:0])


def test_what_gives_a_frame_of_pandas_is_a_table():
    other = types.SimpleNamespace(to_pandas=lambda: FRAME)
    pd.testing.assert_frame_equal(accounted(other)[0], FRAME)


def test_a_frame_of_polars_is_a_table():
    polars = pytest.importorskip("polars", reason="needs polars")
    frame, reading = accounted(polars.from_pandas(FRAME))
    pd.testing.assert_frame_equal(frame, FRAME, check_dtype=False)
    assert "from polars" in str(reading)


def test_the_line_of_readme_installs_what_reads_each_format_that_readme_names():
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    root = Path(__file__).parents[3]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.search(r"pip install -c constraints.txt '\.\[(.*?)\]'", (root / "README.md").read_text())[1]
    libraries = {re.split("[>=]", line)[0] for extra in asked.split(",") for line in extras[extra]}
    assert libraries >= {"openpyxl", "pandas", "pyarrow"}
