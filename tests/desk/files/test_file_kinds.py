"""Files whose name says something else than their content are read, or named for what they are."""

import gzip
import io
import sys
import types
import zipfile

import numpy as np
import pandas as pd
import pytest

from mgce.desk.encoders.embedding import Inputs
from mgce.desk.files.table_files import STDIN, read_frame

FRAME = pd.DataFrame({"a": np.arange(20) / 4, "y": ["no", "yes"] * 10})


def saved(write):
    write(buffer := io.BytesIO())
    return buffer.getvalue()


def zipped(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", lambda: saved(FRAME.to_parquet), "it is a Parquet file; name it .parquet"),
        ("t.xlsx", lambda: saved(FRAME.to_parquet), "it is a Parquet file; name it .parquet"),
        ("t.csv", lambda: saved(FRAME.to_feather), "it is an Arrow file; name it .arrow"),
        ("t.parquet", lambda: saved(FRAME.to_feather), "it is an Arrow file; name it .arrow"),
        ("t.csv", lambda: zipped(xl__workbook_xml=""), "it is an Excel file; name it .xlsx"),
        ("t.xls", lambda: zipped(xl__workbook_xml=""), "it is an Excel file; name it .xlsx"),
        ("t.xlsx", lambda: zipped(xl__workbook_bin=""), "it is a binary Excel file; save its table as .xlsx or .csv"),
        ("t.xlsx", lambda: zipped(content_xml=""), "it is a sheet of OpenDocument; save its table as .xlsx or .csv"),
        ("t.csv", lambda: zipped(x_npy=""), "it is a NumPy archive; give it as features beside a table"),
        ("t.csv.zip", lambda: zipped(t_csv="a,y\n1,u\n"), "it is a zip archive; unpack it first"),
        ("t.csv", lambda: b"PK\x03\x04", "it is a damaged zip archive; unpack it first"),
        ("t.xlsx", lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "it is an Excel file of before 2007, or one"),
        ("t.jsonl", lambda: FRAME.to_json(orient="records").encode(), "it is a JSON array; write one object a line"),
        ("t.json", lambda: FRAME.to_json(orient="records").encode(), "it is a JSON array; write one object a line"),
        ("t.json", lambda: FRAME.to_json().encode(), "it is JSON; write one object a line and name it .jsonl"),
        ("t.xls", lambda: FRAME.to_html().encode(), "it is an HTML page; save its table as .xlsx or .csv"),
        ("t.csv", lambda: b"\n<!DOCTYPE html><html>", "it is an HTML page; save its table as .xlsx or .csv"),
        ("t.csv", lambda: b"<?xml version='1.0'?>", "it is an XML file; save its table as .xlsx or .csv"),
        ("t.csv", lambda: b"%PDF-1.7", "it is a PDF file; save its table as .xlsx or .csv"),
        ("t.csv", lambda: b"BZh9", "it is packed by bzip2; unpack it first"),
        ("t.csv", lambda: saved(lambda file: np.save(file, np.zeros(3))), "it is a NumPy array; give it as features"),
    ],
)  # fmt: skip
def test_a_file_under_a_wrong_name_is_named_for_what_it_is(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content())
    with pytest.raises(ValueError, match=f"^Expected `table` to be a table, but {name} could not be read: {said}"):
        read_frame(tmp_path / name, "table")


def test_a_packed_file_is_read_under_any_name(tmp_path):
    (tmp_path / "t.csv").write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
    pd.testing.assert_frame_equal(read_frame(tmp_path / "t.csv", "table"), FRAME)
    (tmp_path / "u.csv").write_bytes(gzip.compress(saved(FRAME.to_parquet)))
    with pytest.raises(ValueError, match="it is a Parquet file"):
        read_frame(tmp_path / "u.csv", "table")


def test_standard_input_is_named_for_what_it_is(monkeypatch):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"%PDF-1.7")))
    with pytest.raises(ValueError, match="it is a PDF file"):
        read_frame(STDIN, "table")


@pytest.mark.parametrize("text", ["[a],y\n1,u\n", "<5,y\n1,u\n", "{a},y\n1,u\n", "BZ,y\n1,u\n", "x[{,y\n1,u\n"])
def test_names_of_columns_with_brackets_are_no_other_kind(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert read_frame(tmp_path / "t.csv", "table").shape == (1, 2)


def test_a_folder_of_tables_is_named_as_one(tmp_path):
    folder = tmp_path / "spark.csv"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    FRAME.to_csv(folder / "part-0000.csv")
    with pytest.raises(ValueError, match=r"a file with a table, but got 'the folder .*, which holds part-0000.csv;"):
        read_frame(folder, "table")
    FRAME.to_csv(folder / "part-0001.csv")
    with pytest.raises(ValueError, match="of 2 tables such as part-0000.csv; write them to one file"):
        read_frame(folder, "table")
    with pytest.raises(ValueError, match="to be a folder of pictures .* of 2 tables such as part-0000.csv"):
        Inputs.of_folder(folder)
