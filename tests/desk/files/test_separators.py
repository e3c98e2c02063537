import itertools

import pandas as pd
import pytest

from grids import grid
from mgce._limits import TableSize
from mgce.desk.files import separators
from mgce.desk.files.changed_files import changed_text
from mgce.desk.files.layout import Names
from mgce.desk.files.separators import SEPARATORS, check_text, division
from mgce.desk.files.table_files import read_frame
from mgce.desk.files.text_tables import TextFormat

NAMES = {  # first names that hold other separators or line breaks, quoted as RFC 4180 has it where they must be
    "plain": "a",
    "commas": "Income (USD, annual, gross)",
    "semicolons": "Alter; in Jahren; heute",
    "line break": "Alter\n(Jahre)",
    "line breaks and separators": "x;y\r\nz,\tw|",
    "quotes": 'the "age"',
}
CELLS = {"numbers": "{0}", "decimal commas": "{0},5", "texts": "City{0}, State, Country"}


@pytest.mark.slow
@grid(
    "suffix, encoding, excel",
    [".csv", ".tsv"],
    ["utf-8", "utf-8-sig", "utf-16"],
    [False, True],
    keep=lambda suffix, encoding, excel: (
        ((suffix == ".tsv") == (encoding == "utf-8") and excel == (encoding == "utf-16"))
        or (suffix, encoding, excel) == (".csv", "utf-8", False)
    ),
)
def test_the_separator_is_found_whatever_names_and_cells_hold(tmp_path, suffix, encoding, excel):
    path = tmp_path / f"t{suffix}"
    for sep, name, cell in itertools.product(SEPARATORS, NAMES.values(), CELLS.values()):
        frame = pd.DataFrame({name: [cell.format(i) for i in range(30)], "b": range(30), "y": ["u", "v"] * 15})
        text = frame.to_csv(sep=sep, index=False, lineterminator="\r\n")
        path.write_bytes((f"sep={sep}\r\n" * excel + text).encode(encoding))
        form = TextFormat(encoding="utf-8" if encoding == "utf-8-sig" else encoding)
        read = read_frame(path, "table", text=[name], form=form)
        assert read.columns.tolist() == [name, "b", "y"], (sep, name, cell)
        assert read[name].tolist() == frame[name].tolist() and read["b"].tolist() == [*range(30)]


def test_tabs_are_the_separator_where_names_hold_commas_that_need_no_quotes():
    for names, cells in (
        ("Income (USD, net)\tb\ty", "1\t2\tx"),
        ("City, State\tb", "Bonn, NRW\t1"),
        ("a\tb, c", "1\t2"),
    ):
        assert division(f"{names}\n{cells}\n{cells}\n".encode(), "utf-8").sep == "\t"
    assert division(b"City, State;b\nBonn, NRW;1\n", "utf-8").sep == ";"
    assert division(b"a,b;c,d\n1,2,3\n4,5,6\n", "utf-8").sep == ","


def test_the_separator_that_is_asked_for_is_taken():
    assert division(b"sep=;\na;b\n1;2\n", "utf-8", ",").sep == ","
    assert division(b"a;b\n1;2\n", "utf-8", ",").sep == ","


@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"sep=;"', "sep=;;;", "sep=;  "])
def test_the_line_for_excel_is_no_row_and_stays_in_the_file(tmp_path, line):
    path = tmp_path / "t.csv"
    path.write_text(f"{line}\na;b\n1;x\n2;y\n")
    assert read_frame(path, "table").to_dict("list") == {"a": [1, 2], "b": ["x", "y"]}
    assert changed_text(path.read_bytes(), TextFormat(), [0]).decode() == f"{line}\na;b\n2;y\n"


def test_a_column_called_sep_is_a_column(tmp_path):
    (tmp_path / "t.csv").write_text("sep=size;b\n1;x\n2;y\n")
    assert read_frame(tmp_path / "t.csv", "table").columns.tolist() == ["sep=size", "b"]


@pytest.mark.parametrize("other", [";", "|", "\t"])
def test_a_separator_that_no_row_exceeds_goes_before_one_that_some_rows_do(other):
    # As in text with &amp; for an ampersand: two in the names, two in most rows, three in some.
    rows = [f"A{other}B,{other * (2 if row % 4 else 3)},1\n" for row in range(20)]
    content = f"a{other},b{other},y\n" + "".join(rows).replace(f"A{other}B", "AB")
    assert division(content.encode(), "utf-8").sep == ","


def counted(monkeypatch, content, sep=None):
    """Return the bytes of memory that are counted for a text."""
    sizes = []
    monkeypatch.setattr(separators, "TableSize", lambda stored: sizes.append(TableSize(stored)) or sizes[0])
    check_text(content, sep, len(content))
    return sizes[0].taken


def test_memory_is_counted_for_each_byte_line_and_value(monkeypatch):
    few = counted(monkeypatch, b"aaaa\n" * 9)
    assert few == counted(monkeypatch, b"aaaa\r" * 9) > counted(monkeypatch, b"aaaaa" * 9)
    # As in a list of the rows: a value is a text of its own.
    assert counted(monkeypatch, b"a,,a\n" * 9) == few + 18 * separators.CELL
    assert counted(monkeypatch, b"a,,a\n" * 9, ";") == few
    assert counted(monkeypatch, b"a,,;\n" * 9) == few + 18 * separators.CELL  # the most of one separator


@pytest.mark.parametrize("blank, more", [("", 0), (" ", 0), ("  \n", 0), (",,", 1), (",\n,,", 2)])
def test_lines_without_a_value_are_no_rows_above_a_total(blank, more):
    content = f"no,a,label\n1,1.5,x\n{blank}\n2,2.5,y\nTotal,4.0,\n"
    assert division(content.encode(), "utf-8", asked=Names(label="label")).rows == 2 + more
