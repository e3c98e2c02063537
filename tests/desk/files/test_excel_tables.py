"""Sheets as programs and people make them: each is read right, or the report names what was not."""

import datetime as dt
import io
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from mgce._limits import TableSize, TooLargeError
from mgce.desk.columns.kinds import Columns
from mgce.desk.files.excel_xml import Cells, Tags
from mgce.desk.files.table_files import read_accounted, read_frame
from mgce.desk.files.text_tables import TextFormat

openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")


def book_of(rows, title="S"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    return book


def read(book, path, **options):
    book.save(path)
    return read_accounted(path, "table", **options)


def edited(path, part, old, new):
    """Change a part of an Excel file by a pattern, which must be there."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    parts[part], n = re.subn(old, new, parts[part])
    assert n
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


SHEET = "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize("stated", ["A1:B101", "A1", "", "A1:XFD1048576", "nonsense"])
def test_a_wrong_used_range_loses_no_row(tmp_path, stated):
    rng = np.random.default_rng(0)
    written = pd.DataFrame({"a": rng.normal(size=240), "y": rng.choice(["no", "yes"], 240)})
    written.to_excel(tmp_path / "t.xlsx", index=False)
    edited(tmp_path / "t.xlsx", SHEET, "<dimension[^>]*>", f'<dimension ref="{stated}"/>' if stated else "")
    frame, reading = read_accounted(tmp_path / "t.xlsx", "table")
    pd.testing.assert_frame_equal(frame, written)
    assert reading.notes == []


def test_a_sheet_is_read_as_pandas_reads_it(tmp_path):
    """Openpyxl reads the XML of the sheet independently."""
    rng = np.random.default_rng(0)
    n = 60
    written = pd.DataFrame({
        "x": rng.normal(size=n),
        "n": rng.integers(-9, 9, n),
        "day": pd.date_range("1901-01-01", periods=n, freq="799h"),
        "yes": rng.random(n) < 0.5,
        "word": rng.choice(["a & b", "<é>", " blank ", "two\nlines", None], n),
        "some": np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n)),
        "lasts": pd.to_timedelta(rng.integers(0, 9e6, n), unit="s"),
    })  # fmt: skip
    written.to_excel(tmp_path / "t.xlsx", index=False)
    pd.testing.assert_frame_equal(read_frame(tmp_path / "t.xlsx", "table"), pd.read_excel(tmp_path / "t.xlsx"))


def test_merged_cells_all_have_the_value_of_their_range(tmp_path):
    book = book_of([["group", "x", "y"], *([f"g{i // 4}", i, "u"] for i in range(8)), ["note", None, None]])
    for first in (2, 6):
        for place in (1, 3):
            book.active.merge_cells(start_row=first, end_row=first + 3, start_column=place, end_column=place)
    book.active.merge_cells("A11:B12")  # below the table: rows without a value of their own are no rows
    frame, reading = read(book, tmp_path / "t.xlsx")
    assert frame["group"].tolist() == [*["g0"] * 4, *["g1"] * 4, "note"] and frame["y"].tolist()[:8] == ["u"] * 8
    assert reading.notes == ["Sheet 'S' has 4 ranges of merged cells, whose value was read into each of their cells."]


def test_merged_names_of_columns_are_named(tmp_path):
    book = book_of([["size", None, "y"], [1, 2, "u"], [3, 4, "v"]])
    book.active.merge_cells("A1:B1")
    frame, reading = read(book, tmp_path / "t.xlsx")
    assert frame.columns.tolist() == ["size", "Unnamed: 1", "y"] and len(frame) == 2
    assert reading.notes == [
        "The names of columns in sheet 'S' have merged cells (A1:B1, for one); only the first cell of each has a name."
    ]


def test_hidden_rows_and_columns_are_read_and_named(tmp_path):
    book = book_of([["a", "b", "c", "y"], *([i, i, i, "u"] for i in range(9))])
    book.active.auto_filter.ref = "A1:D10"
    for row in (3, 5):
        book.active.row_dimensions[row].hidden = True
    book.active.column_dimensions.group("B", "C", hidden=True)
    frame, reading = read(book, tmp_path / "t.xlsx")
    assert frame["b"].tolist() == frame["a"].tolist() == [*range(9)]
    assert reading.notes == [
        "Excel hides 2 rows of sheet 'S', which were read too; the sheet has a filter.",
        "Excel hides columns B, C of sheet 'S', which were read too.",
    ]


def test_sheets_of_charts_and_hidden_sheets_are_not_taken_for_the_table(tmp_path):
    book = book_of([["h"], [1]], "Hidden")
    book.active.sheet_state = "hidden"
    book.create_chartsheet("Chart", 0)
    book.create_sheet("Data").append(["a"])
    book["Data"].append([5])
    book.active = 2
    frame, reading = read(book, tmp_path / "t.xlsx")
    assert frame.to_dict("list") == {"a": [5]}
    assert reading.notes == ["Sheet 'Data' was read. The file also has 'Hidden': to read another, add --sheet Hidden."]
    assert read_frame(tmp_path / "t.xlsx", "table", form=TextFormat(sheet="Hidden")).to_dict("list") == {"h": [1]}
    with pytest.raises(ValueError, match=r"Expected `sheet` to be a sheet of t.xlsx \(Data, Hidden\), but got 'Chart'"):
        read_frame(tmp_path / "t.xlsx", "table", form=TextFormat(sheet="Chart"))


def test_a_file_of_charts_alone_has_no_table(tmp_path):
    book = openpyxl.Workbook()
    book.create_chartsheet("Chart")
    book.save(tmp_path / "t.xlsx")
    edited(tmp_path / "t.xlsx", "xl/workbook.xml", '<sheet [^>]*name="Sheet"[^>]*/>', "")
    with pytest.raises(ValueError, match="t.xlsx could not be read: it has no sheet of cells"):
        read_frame(tmp_path / "t.xlsx", "table")


def test_cells_of_errors_are_missing_and_named_also_those_of_later_versions(tmp_path):
    read(book_of([["a", "y"], ["#N/A", "u"], [2, "v"], ["#REF!", "w"]]), tmp_path / "t.xlsx")
    edited(tmp_path / "t.xlsx", SHEET, "#REF!", "#BLOCKED!")
    frame, reading = read_accounted(tmp_path / "t.xlsx", "table", text=["y"], classes=["y"])
    np.testing.assert_array_equal(frame["a"], [np.nan, 2, np.nan])
    assert reading.notes == ["2 cells hold an error of Excel (#N/A, for one), which counts as missing."]


def test_booleans_percentages_and_numbers_stored_as_text_are_numbers(tmp_path):
    rows = [[bool(i % 2), i / 8, str(i) if i % 3 else i, f"{i}.5", "u"] for i in range(9)]
    book = book_of([["flag", "share", "some", "all", "y"], *rows])
    for cell in book.active["B"][1:]:
        cell.number_format = "0.0%"
    frame, reading = read(book, tmp_path / "t.xlsx")
    columns = Columns.of(frame, "y")
    assert set(columns.kinds.values()) == {"number"} and reading.notes == []
    expected = [[i % 2, i / 8, i, i + 0.5] for i in range(9)]
    np.testing.assert_array_equal(columns.select(frame), expected)


def test_dates_since_1904_are_those_that_excel_shows(tmp_path):
    days = [dt.datetime(1904, 1, 2), dt.datetime(1999, 12, 31, 18), dt.datetime(2024, 2, 29)]
    book = book_of([["day"], *([day] for day in days)])
    for cell in book.active["A"][1:]:
        cell.number_format = "yyyy-mm-dd hh:mm"
    assert read(book, tmp_path / "1900.xlsx")[0]["day"].tolist() == days
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    assert read(book, tmp_path / "1904.xlsx")[0]["day"].tolist() == days
    edited(tmp_path / "1904.xlsx", "xl/workbook.xml", 'date1904="(1|true)"', "")
    shifted = [day - dt.timedelta(days=1462) for day in days]  # the days between the two systems
    assert read_frame(tmp_path / "1904.xlsx", "table")["day"].tolist()[1:] == shifted[1:]


def test_a_format_of_dates_that_the_file_does_not_spell_out_is_known(tmp_path):
    """Number 31 is a date in East Asia, and has no entry in the file."""
    book = book_of([["day", "n"], [45_000, 45_000]])
    book.active["A2"].number_format = "yyyy-mm-dd"
    read(book, tmp_path / "t.xlsx")
    edited(tmp_path / "t.xlsx", "xl/styles.xml", "<numFmts.*</numFmts>|<numFmts[^>]*/>", "")
    edited(tmp_path / "t.xlsx", "xl/styles.xml", 'numFmtId="164"', 'numFmtId="31"')
    frame = read_frame(tmp_path / "t.xlsx", "table")
    assert frame["day"].tolist() == [dt.datetime(2023, 3, 15)] and frame["n"].tolist() == [45_000]


def test_dates_before_1900_are_read(tmp_path):
    """Excel keeps them as text; LibreOffice as numbers below 0."""
    days = [[dt.datetime(1950 + i, 3, 4), "u"] for i in range(30)]
    book = book_of([["born", "y"], *days, ["1871-01-18", "v"], ["18.01.1871", "v"], [-5, "v"]])
    book.active["A34"].number_format = "yyyy-mm-dd"
    frame, reading = read(book, tmp_path / "t.xlsx")
    columns = Columns.of(frame, "y")
    born = columns.select(frame)["born"]
    assert columns.kinds == {"born": "date"}
    old, before_1900 = ((dt.datetime(*day) - dt.datetime(1970, 1, 1)).days for day in ((1871, 1, 18), (1899, 12, 25)))
    assert born.iloc[30:].tolist() == [old, old, before_1900]
    assert reading.notes == []


def test_numbers_that_are_no_dates_are_named(tmp_path):
    book = book_of([["day"], [dt.datetime(2024, 1, 1)], [1e10]])
    book.active["A3"].number_format = "yyyy-mm-dd"
    frame, reading = read(book, tmp_path / "t.xlsx")
    assert frame["day"].isna().tolist() == [False, True]
    said = "1 cell has the format of a date, but a number that is none (10000000000, for one), which counts as missing."
    assert reading.notes == [said]


def test_the_xml_of_other_programs_is_read(tmp_path):
    """Prefixes before names, shared texts, no places of cells, rows that are not in order."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    names = (
        "a",
        "y<x:rPh sb='0' eb='1'><x:t>why</x:t></x:rPh>",
        "<x:r><x:t>u</x:t></x:r><x:r><x:t>_x0041_</x:t></x:r>",
    )
    texts = [f"<x:si>{text if '<x:r>' in text else f'<x:t>{text[:1]}</x:t>{text[1:]}'}</x:si>" for text in names]
    rows = (
        '<x:row r="3"><x:c><x:v>2.5</x:v></x:c><x:c t="str"><x:f>A1</x:f><x:v>v</x:v></x:c></x:row>'
        '<x:row r="2"><x:c r="B2" t="s"><x:v>2</x:v></x:c><x:c r="A2"><x:v>1E0</x:v></x:c></x:row>'
        '<x:row r="1"><x:c t="s"><x:v>0</x:v></x:c><x:c t="s"><x:v>1</x:v></x:c></x:row>'
    )
    parts = {
        "_rels/.rels": f'<R><Relationship Id="a" Type="{kind}/officeDocument" Target="/book/b.xml"/></R>',
        "book/_rels/b.xml.rels": f'<R><Relationship Id="k" Type="{kind}/worksheet" Target="s.xml"/>'
        f'<Relationship Id="t" Type="{kind}/sharedStrings" Target="../texts.xml"/></R>',
        "book/b.xml": f'<w xmlns:q="{kind}"><sheets><sheet name="S" sheetId="1" q:id="k"/></sheets></w>',
        "texts.xml": f'<x:sst xmlns:x="{main}">{"".join(texts)}</x:sst>',
        "book/s.xml": f'<x:worksheet xmlns:x="{main}"><x:sheetData>{rows}</x:sheetData></x:worksheet>',
    }
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert read_frame(tmp_path / "t.xlsx", "table").to_dict("list") == {"a": [1.0, 2.5], "y": ["uA", "v"]}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('<row r="2"', '<row r="1000000000000"', "it has a row 1000000000000; the last row of Excel is 1,048,576"),
        ('r="B2"', 'r="XFE2"', "it has a column 'XFE'; the last column of Excel is XFD"),
        ("<worksheet", "<!DOCTYPE a><worksheet", "its XML declares a type of document"),
        ('t="n"><v>1</v>', 't="s"><v>1</v>', "a cell of sheet 'S' refers to a text that is not there"),
        ("<sheetData>", "<sheetData", "not well-formed"),
        ("</sheetData>", '</sheetData><mergeCells><mergeCell ref="A"/></mergeCells>', "'A' is no range of cells"),
    ],
)
def test_forged_sheets_are_refused_in_a_sentence(tmp_path, old, new, said):
    book_of([["a", "y"], [1, "u"], [2, "v"]]).save(tmp_path / "t.xlsx")
    edited(tmp_path / "t.xlsx", SHEET, old, new)
    with pytest.raises(ValueError, match=f"^Expected `table` to be a table, but t.xlsx could not be read: {said}"):
        read_frame(tmp_path / "t.xlsx", "table")


def test_memory_is_counted_for_each_tag_cell_and_row(tmp_path):
    taken = []
    for content in ("<a/>", "<a><b/><b/></a>", f"<a>{'<b/>' * 99}</a>"):
        size = TableSize(1)
        Tags(size, lambda tag, values: None).read(io.BytesIO(content.encode()))
        taken.append(size.taken / content.count("<"))
    assert len({*taken}) == 1 and taken[0] > 0
    wide = "<row r='{}'><c r='{}1'><v>1</v></c></row>"
    cells = Cells("S", size, [], None)
    size.most = size.taken + 10_000
    with pytest.raises(TooLargeError):  # of some cells, but a thousand columns and two rows
        cells.read(io.BytesIO(f"<a>{wide.format(1, 'ALL')}{wide.format(2, 'A')}</a>".encode()))
