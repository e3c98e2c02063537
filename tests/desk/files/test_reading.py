import csv
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgce.desk.files.reading import cells_with_line_breaks
from mgce.desk.files.table_files import read_accounted, read_frame

RNG = np.random.default_rng(0)
CELLS = ["1", "", "two words", "a,b", 'say "hi"', "two\nlines", "three\r\n\r\nlines", ";", "  ", '5" disk']


def written(n_rows, sep, quoting, blank_every):
    """Return a file of random cells by Python's writer, and what is known of its lines."""
    rows = [[f"r{i}", *(CELLS[j] for j in RNG.integers(len(CELLS), size=3))] for i in range(n_rows)]
    file = io.StringIO()
    writer = csv.writer(file, delimiter=sep, quoting=quoting, lineterminator="\n")
    writer.writerow(["id", "two\nlines", "c", "d"])
    blank = 0
    for i, row in enumerate(rows):
        if blank_every and i % blank_every == 0:
            file.write("\n")
            blank += 1
        writer.writerow(row)
    breaks = [len(cell.splitlines()) - bool(cell) for row in rows for cell in row]
    return file.getvalue(), {
        "rows": n_rows,
        "blank": blank,
        "names": 2,
        "in_cells": sum(breaks),
        "broken_cells": sum(b > 0 for b in breaks),
    }


@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("excel", [False, True])
def test_every_line_is_accounted_for(tmp_path, sep, quoting, excel):
    text, known = written(200, sep, quoting, blank_every=7)
    (tmp_path / "t.csv").write_bytes((f"sep={sep}\n" * excel + text).encode())
    frame, reading = read_accounted(tmp_path / "t.csv", "table")
    lines = reading.lines
    assert {name: getattr(lines, name) for name in known} == known
    assert lines.total == len((f"sep={sep}\n" * excel + text).splitlines()) and lines.excel == excel
    assert lines.total == lines.excel + lines.names + lines.rows + lines.blank + lines.in_cells
    assert (reading.rows, reading.columns) == frame.shape == (200, 4)
    assert reading.notes == []


def test_rows_that_quotes_have_swallowed_are_reported(tmp_path):
    lines = [f"n{i % 6},{i % 11},{'xy'[i % 2]}" for i in range(60)]
    lines[10], lines[30] = '"Lee,1,x', '"Kim,2,y'
    (tmp_path / "t.csv").write_text("name,a,y\n" + "\n".join(lines) + "\n")
    frame, reading = read_accounted(tmp_path / "t.csv", "table")
    assert len(frame) == 40 and reading.lines.in_cells == 20
    assert (
        str(reading) == "t.csv: 40 rows of 3 columns, divided by ','; 61 lines: 40 rows, 1 of names, 20 inside cells."
    )
    frame.to_parquet(tmp_path / "t.parquet")
    said = [
        "In column `name`, 1 cell holds 20 line breaks (that of data row 11, for one: "
        "'Lee,1,x\\nn5,0,y\\nn0,1,x\\nn1,2,y\\nn2,3,x\\nn3,4'). If they hold rows, a closing quote is missing there."
    ]
    assert [*cells_with_line_breaks(frame)] == said
    assert [*cells_with_line_breaks(read_frame(tmp_path / "t.parquet", "table"))] == said


def test_names_that_have_swallowed_rows_are_reported():
    frame = pd.DataFrame({"a\n1,2\n3": [1, 2], "b": ["x", "y"]})
    assert [*cells_with_line_breaks(frame)] == ["The name of column `a\n1,2\n3` holds a line break."]


def test_rows_that_end_too_early_are_reported(tmp_path):
    (tmp_path / "t.csv").write_text("sep=,\na,b,y\n1,2,x\n3\n4,5\n6,7,y\n")
    frame, reading = read_accounted(tmp_path / "t.csv", "table")
    assert len(frame) == 4 and reading.lines.short_rows == 2
    assert reading.notes == [
        "2 rows have fewer values than there are names (the one that ends on line 4, for one); the rest counts as "
        "missing."
    ]


def test_rows_that_are_too_long_are_refused_by_the_number_of_their_line(tmp_path):
    (tmp_path / "t.csv").write_text("sep=,\n\na,y\n1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match="the row that ends on line 4 has more values than there are names, 2"):
        read_frame(tmp_path / "t.csv", "table")
    (tmp_path / "t.csv").write_text("a,y\n1,2,\n4,5,\n")  # a separator at the end of every row
    assert read_frame(tmp_path / "t.csv", "table").shape == (2, 2)


def test_lines_that_do_not_add_up_are_reported(tmp_path, monkeypatch):
    read_csv = pd.read_csv
    monkeypatch.setattr(pd, "read_csv", lambda *args, **options: read_csv(*args, **options).iloc[:-1])
    (tmp_path / "t.csv").write_text("a,y\n1,x\n2,y\n3,x\n")
    assert read_accounted(tmp_path / "t.csv", "table")[1].notes == [
        "The lines of t.csv do not add up: they hold 3 rows, and 2 were read."
    ]


def test_a_cell_longer_than_python_reads_is_counted(tmp_path):
    (tmp_path / "t.csv").write_text('a,y\n"' + "x\n" * 100_000 + '",u\n1,v\n')
    before = csv.field_size_limit()
    reading = read_accounted(tmp_path / "t.csv", "table")[1]
    assert reading.lines.in_cells == 100_000 and reading.lines.total == 100_003 and reading.notes == []
    assert csv.field_size_limit() == before


FRAME = pd.DataFrame({"age": range(5, 65), "b": [1.5, 2.5, 3.5] * 20, "y": ["u", "v"] * 30})


@pytest.mark.parametrize("index", ["age", ["age", "b"], ["y"]])
def test_a_named_index_is_a_column_as_in_csv(tmp_path, index):
    frame = FRAME.set_index(index)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv")
    ours = read_frame(tmp_path / "t.parquet", "table")
    pd.testing.assert_frame_equal(ours, read_frame(tmp_path / "t.csv", "table"))


def test_a_range_with_a_name_is_a_column_too(tmp_path):
    FRAME.rename_axis("row").to_parquet(tmp_path / "t.parquet")
    assert read_frame(tmp_path / "t.parquet", "table")["row"].tolist() == [*range(60)]


@pytest.mark.parametrize("index", [list("abcdef") * 10, RNG.permutation(60)])
def test_an_index_without_a_name_is_left_out_with_a_sentence(tmp_path, index):
    FRAME.set_index(pd.Index(index)).to_parquet(tmp_path / "t.parquet")
    frame, reading = read_accounted(tmp_path / "t.parquet", "table")
    pd.testing.assert_frame_equal(frame, FRAME)
    assert len(reading.notes) == 1 and reading.notes[0].startswith("The index of the file has no name")
    assert str(reading) == "t.parquet: 60 rows of 3 columns, from Parquet."
    FRAME.to_parquet(tmp_path / "t.parquet")
    assert read_accounted(tmp_path / "t.parquet", "table")[1].notes == []


def test_two_columns_of_one_name_are_refused_in_every_format(tmp_path):
    sentence = "Expected `table` to have columns of different names, but got 2 columns named 'v'."
    columns = [pa.array([1.0] * 6), pa.array([2.0] * 6), pa.array(["a", "b"] * 3)]
    pq.write_table(pa.table(columns, names=["v", "v", "y"]), tmp_path / "two.parquet")
    (tmp_path / "two.csv").write_text("v,v,y\n1,2,a\n1,2,b\n")
    indexed = pd.DataFrame({"v": [1, 2]}, index=pd.Index([3, 4], name="v"))
    indexed.to_csv(tmp_path / "index.csv")
    indexed.to_parquet(tmp_path / "index.parquet")
    for name in ("two.parquet", "two.csv", "index.csv", "index.parquet"):
        with pytest.raises(ValueError, match="Expected") as error:
            read_frame(tmp_path / name, "table")
        assert str(error.value) == sentence
    (tmp_path / "none.csv").write_text(",,y\n1,2,a\n1,2,b\n")
    assert read_frame(tmp_path / "none.csv", "table").columns.tolist() == ["Unnamed: 0", "Unnamed: 1", "y"]
