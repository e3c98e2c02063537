import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mgce.desk.files import read_table
from mgce.desk.files.separators import SEPARATORS
from mgce.desk.files.table_files import STDIN, frame_as_written, is_table, read_accounted, read_frame, table_name
from mgce.desk.files.text_tables import MISSING, TextFormat
from mgce.desk.files.written_tables import to_csv

FRAME = pd.DataFrame({"size, in cm": [1.5, 2.25, -3.0], "town": ["Köln", "a;b", "c|d"], "count": [1, 2, 3]})


@pytest.mark.parametrize("sep", SEPARATORS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz"])
def test_the_separator_is_found(tmp_path, sep, suffix):
    path = tmp_path / f"t{suffix}"
    FRAME.to_csv(path, sep=sep, index=False)
    pd.testing.assert_frame_equal(read_frame(path, "table"), FRAME)
    assert is_table(path) and table_name(path) == "t"


def test_a_file_of_one_column_and_blank_lines_at_its_head_are_read(tmp_path):
    (tmp_path / "t.csv").write_text("\n\na\n1\n2\n")
    assert read_frame(tmp_path / "t.csv", "table")["a"].tolist() == [1, 2]


def test_cells_as_written_are_those_of_every_row(tmp_path):
    (tmp_path / "t.csv").write_text('id;x\n01;"1,50"\n02;\n')
    wanted = pd.DataFrame({"id": ["01", "02"], "x": ["1,50", ""]})
    pd.testing.assert_frame_equal(frame_as_written(tmp_path / "t.csv", TextFormat()), wanted, check_dtype=False)


def test_decimal_commas_are_read_also_beside_a_word(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c\n1,5;-0,25;x,1\n2,5;n. a.;y\n,5;1;2,5\n")
    frame = read_frame(tmp_path / "t.csv", "table", text=["c"], form=TextFormat(decimal=","))
    assert frame["a"].tolist() == [1.5, 2.5, 0.5]
    assert frame["b"].tolist() == ["-0.25", "n. a.", "1"] and frame["c"].tolist() == ["x,1", "y", "2,5"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_an_encoding_that_is_named_is_read(tmp_path, encoding):
    FRAME.to_csv(tmp_path / "t.csv", sep=";", index=False, encoding=encoding)
    pd.testing.assert_frame_equal(read_frame(tmp_path / "t.csv", "table", form=TextFormat(encoding=encoding)), FRAME)


@pytest.mark.parametrize(
    "content, form, sentence",
    [
        (
            "a\nK\xf6ln\n".encode("latin-1"),
            {},
            "in the encoding utf-8, but got 't.csv, .* Excel in Western Europe writes --encoding cp1252.",
        ),
        (b"a\n1\n", {"encoding": "utf-99"}, "t.csv could not be read: unknown encoding: utf-99"),
        (b"a\n1\n", {"sep": "::"}, r"Expected `sep` to be one character, or \\t, but got '::'"),
        (b"a\n1\n", {"decimal": ""}, "Expected `decimal` to be one character, but got ''"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(tmp_path, content, form, sentence):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        read_frame(tmp_path / "t.csv", "table", form=TextFormat(**form))


def test_na_is_a_class_and_elsewhere_a_missing_value(tmp_path):
    (tmp_path / "t.csv").write_text("a,class\nNA,NA\n1,EU\n2,\n3,None\n")
    frame = read_frame(tmp_path / "t.csv", "table", text=["class"], classes=["class"])
    assert frame["class"].fillna("missing").tolist() == ["NA", "EU", "missing", "None"]
    np.testing.assert_array_equal(frame["a"], [np.nan, 1, 2, 3])


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_words_that_count_as_missing_are_named_once(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    words = pd.DataFrame(
        {"a": ["n/a", "NULL", "", 4], "b": ["n/a", "x", "-", "?"], "c": ["", 2, 3, 4], "y": ["NA"] * 4}
    )
    words.to_csv(path, index=False) if suffix == ".csv" else words.to_excel(path, index=False)
    reading = read_accounted(path, "table", text=["y"], classes=["y"])[1]
    assert reading.notes == ["`n/a` and `NULL` count as missing: 2 cells of `a`, 1 cell of `b`."]
    only_empty = words[["c", "y"]].replace("NA", "x")
    only_empty.to_csv(path, index=False) if suffix == ".csv" else only_empty.to_excel(path, index=False)
    assert read_accounted(path, "table")[1].notes == []


def test_missing_values_are_those_of_pandas(tmp_path):
    words = [f'"{word}"' for word in MISSING]
    (tmp_path / "t.csv").write_text("\n".join(["a,class", *(f"{word},x" for word in words), "-,x"]))
    ours = read_frame(tmp_path / "t.csv", "table", classes=["class"])["a"]
    pd.testing.assert_series_equal(ours, pd.read_csv(tmp_path / "t.csv")["a"])
    assert ours.isna().sum() == len(MISSING)


def test_standard_input_is_a_table(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n1\tx\n")))
    frame = read_frame(STDIN, "table")
    assert frame.to_dict("list") == {"a": [1], "b": ["x"]}
    assert is_table(STDIN) and table_name(STDIN) == "stdin"


def test_a_packed_file_that_is_damaged_is_refused(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-9])
    with pytest.raises(ValueError, match="Expected `table` to be a table, but t.csv.gz could not be read: "):
        read_frame(tmp_path / "t.csv.gz", "table")


@pytest.mark.parametrize("name", ["model.mgce", "t.xls", "letter", "t.gz"])
def test_other_files_are_no_tables(name):
    assert not is_table(Path(name))


def test_rows_without_a_class_are_counted_and_columns_dropped(tmp_path):
    rows = "".join(f"{i};{i % 3};{'NA' if i % 2 else 'yes'}\n" for i in range(20))
    (tmp_path / "t.csv").write_text("a;b;class\n" + rows + "1;1;\n")
    table = read_table(tmp_path / "t.csv", "class", drop=["b"])
    assert table.classes == ("NA", "yes") and table.unlabelled == 1
    assert list(table.features.columns) == ["a"] and len(table.features) == 20
    with pytest.raises(ValueError, match=r"Expected `drop` to be a column of t.csv \(a, b, class\), but got 'c'"):
        read_table(tmp_path / "t.csv", "class", drop=["c"])


def test_what_is_no_text_is_written_as_it_is():
    mixed = [1, 2.5, None, True, "-1", "=x", np.nan]
    frame = pd.DataFrame(
        {"=a": pd.Series(mixed, dtype=object), "b": pd.Categorical(["@c", "d"] * 3 + ["d"]), "n": range(7)}
    )
    frame = pd.concat([frame, frame["n"]], axis=1)
    rows = to_csv(frame, digits=None).decode().splitlines()
    assert rows == frame.to_csv(index=False).replace("=", "'=").replace("@", "'@").splitlines()
    assert to_csv(frame, digits=None, formulas=True).decode() == frame.to_csv(index=False, lineterminator="\n")
    assert frame.columns[0] == "=a" and frame.iloc[5, 0] == "=x"


def test_points_between_thousands_are_read_beside_decimal_commas(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c\n1.234,5;1.234;1.5\n999;2.000.000;2.25\n7,25;3;1.234\n1'234,5;n. a.;n. a.\n")
    frame = read_frame(tmp_path / "t.csv", "table", form=TextFormat(decimal=","))
    assert frame["a"].tolist() == ["1,234.5", "999", "7.25", "1'234.5"]  # as they are written where points are decimal
    assert frame["b"].tolist() == ["1,234", "2,000,000", "3", "n. a."]
    assert frame["c"].tolist() == ["1.5", "2.25", "1.234", "n. a."]  # a point is decimal in this column


@pytest.mark.parametrize(
    "cells, said", [(["1,234", "999"], 1), (["1,234", "5,678"], 1), (["1,234", "5,5"], 0), (["9"], 0)]
)
def test_decimal_commas_that_may_separate_thousands_are_reported(tmp_path, cells, said):
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{cell};x\n" for cell in cells))
    frame, reading = read_accounted(tmp_path / "t.csv", "table", form=TextFormat(decimal=","))
    assert frame["a"].tolist() == [float(cell.replace(",", ".")) for cell in cells]
    sentence = (
        "In column `a`, '1,234' is read as 1.234, since ',' was given as decimal. If it separates thousands there"
    )
    assert len(reading.notes) == said and all(note.startswith(sentence) for note in reading.notes)
