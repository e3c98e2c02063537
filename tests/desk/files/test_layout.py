import numpy as np
import pytest

from mgce.desk.files.layout import Names, names_at, place_of_names, rows_of_table
from mgce.desk.files.table_files import read_accounted, read_frame
from mgce.desk.files.text_tables import TextFormat

BODY = "1,12.50,yes\n2,8.10,no\n3,0.40,yes\n"


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("above", "row"),
    [
        ("", 1),
        ("Claims register 2024/25\n", 2),
        ("Claims, North\n\nasked by Ann; see page 3\n", 4),
        ("Claims,,\n", 2),
        ("y,,\n", 2),  # a title that is the name of a column
        ("Claims,Money,\n", 2),  # groups of columns
        ("Claims,,\n1,2,3\n", 3),
    ],
)
@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_names_of_a_text_file_are_found_below_a_preamble(tmp_path, above, row, sep):
    path = write(tmp_path / "t.csv", (above + "no,amount,y\n" + BODY).replace(",", sep))
    frame, reading = read_accounted(path, "table", text=["y"], classes=["y"])
    assert frame.columns.tolist() == ["no", "amount", "y"]
    assert frame["no"].tolist() == [1, 2, 3] and frame["amount"].tolist() == [12.5, 8.1, 0.4]
    assert reading.header == row and reading.lines.rows == 3 and reading.lines.total == row + 3
    assert reading.spreadsheet_lines(np.arange(3)).tolist() == [row + 1, row + 2, row + 3]
    again = read_frame(path, "table", form=TextFormat(header=row))
    assert again.equals(frame.astype(again.dtypes))
    assert any(f"The names of the columns are in row {row}" in note for note in reading.notes) == (row > 1)


def test_excels_line_and_quoted_line_breaks_may_stand_above_the_names(tmp_path):
    path = write(tmp_path / "t.csv", 'sep=;\n"a title\nof two lines";\nno;y\n1;a\n2;b\n', "utf-16")
    frame, reading = read_accounted(path, "table", classes=["y"], form=TextFormat(encoding="utf-16"))
    assert frame.to_dict("list") == {"no": [1, 2], "y": ["a", "b"]}
    assert (reading.lines.excel, reading.lines.above, reading.lines.total) == (1, 2, 6)


@pytest.mark.parametrize(
    ("below", "left_out"),
    [
        ("", 0),
        ("Total,21.00,\n", 1),
        ("Total,21.0,\n\nSource: the office\n", 2),
        ("Total,20.0,\n", 0),  # not the sum
        ("Total,21.00,yes\n", 0),  # a label
        ("4,21.00,\n", 0),  # no words
        (",,\nchecked by Bob,,\n", 2),
    ],
)
def test_totals_and_remarks_at_the_end_are_no_rows(tmp_path, below, left_out):
    path = write(tmp_path / "t.csv", "no,amount,y\n" + BODY + below)
    frame, reading = read_accounted(path, "table", text=["y"], classes=["y"])
    assert len(frame) - 3 == len(below.replace("\n\n", "\n").splitlines()) - left_out
    if left_out:
        assert frame["no"].dtype.kind == "i"  # no text of a total among them
        assert "left out as a total or a remark" in reading.notes[0]
        assert reading.lines.below == left_out


def test_names_of_two_rows_are_joined_where_one_row_does_not_do():
    groups, own = ["", "2023", "", "2024", "", "result"], ["no", "n", "share", "n", "share", ""]
    data = [[1, 2, 0.5, 3, 0.5, "a"], [2, 2, 0.5, 3, 0.5, "b"]]
    place = place_of_names([["Report"], groups, own, *data], ["result"])
    assert place == 2
    joined = ["no", "2023 n", "2023 share", "2024 n", "2024 share", "result"]
    assert names_at([["Report"], groups, own, *data], place) == names_at([groups, own, *data], 1) == joined
    assert place_of_names([["Report"], groups, own, *data], ["2024 share", "result"]) == 2
    assert place_of_names([groups, own, *data], ["nothing like it"]) == 1
    assert names_at([["Report"], own, *data], 1) == own


def test_the_first_row_has_the_names_unless_another_is_known(tmp_path):
    path = write(tmp_path / "t.csv", "title,,\nno,amount,y\n" + BODY + "Total,21,\n")
    assert len(read_frame(path, "table")) == 5
    with pytest.raises(ValueError, match="Expected `header` to be the number of a row that names the columns"):
        read_frame(path, "table", form=TextFormat(header=20))
    with pytest.raises(ValueError, match="Expected `header` to be an integer"):
        TextFormat(header=0)
    path = write(tmp_path / "t.jsonl", '{"a": 1}\n')
    with pytest.raises(ValueError, match="Expected `header` to be left out"):
        read_frame(path, "table", form=TextFormat(header=1))


def test_sums_are_of_all_rows_above():
    rows = [["x", number] for number in range(40)]
    assert rows_of_table([*rows, ["sum", 780]], ["name", "n"], "y") == 40
    assert rows_of_table([*rows, ["sum", 781]], ["name", "n"], "y") == 41
    assert rows_of_table([["only", 1]], ["name", "n"], "y") == 1
    assert Names().row is None


@pytest.mark.parametrize(
    ("groups", "names", "said"),
    [
        (["Claim", "Money", ""], ["no", "amount", "y"], "('Claim', 'Money') was left out."),
        (["2023", "2024", ""], ["amount", "amount", "y"], "('2023', '2024') completes them."),
        (["no", "Money", ""], ["", "amount", "y"], "('no', 'Money') completes them."),
        (["register", "", ""], ["no", "amount", "y"], ""),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_row_of_groups_above_the_names_is_named(tmp_path, groups, names, said, suffix):
    path = tmp_path / f"t.{suffix}"
    rows = [["Claims 2024", "", ""], groups, names, [1, 12.5, "yes"], [2, 8.1, "no"], [3, 0.4, "yes"]]
    if suffix == "csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    else:
        openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra cli")
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append([None if cell == "" else cell for cell in row])
        book.active.merge_cells("A1:C1")
        book.save(path)
    frame, reading = read_accounted(path, "table", text=["y"], classes=["y"])
    assert len(frame) == 3 and reading.header == 3 and frame.columns[-1] == "y"
    told = "The names of the columns are in row 3, below 'Claims 2024'. --header states another row."
    told = [told, *([f"The row above the names {said}"] if said else [])]
    assert [note for note in reading.notes if "merged" not in note] == told
