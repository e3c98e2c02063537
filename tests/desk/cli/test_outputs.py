"""Commands look at their outputs before they do their work."""

import os
from zipfile import ZipFile

import pytest

from mgce.desk.cli.first import MODEL_PART


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "digits", "--out-dir", "there"],
        ["reproduce", "table3", "--smoke", "--out-dir", "there"],
        ["reproduce", "figure1", "--out-dir", "there/below"],
        ["report", ".", "--out-dir", "there"],
    ],
    ids=" ".join,
)
def test_a_file_where_a_folder_is_to_be(refuses, tmp_path, arguments):
    (tmp_path / "there").write_text("")
    refuses("Expected `out_dir` to be the path of a folder, but got 'there", *arguments)


def test_a_report_of_nothing_writes_nothing(refuses):
    refuses("Expected `runs` to be a folder with finished runs", "report", ".")


def test_a_place_that_cannot_be_written_to(refuses, monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    refuses(
        "Expected `out_dir` to be the path of a folder that can be written to", "compare", "digits", "--out-dir", "x/y"
    )
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    (tmp_path / "a.csv").write_text("")
    with ZipFile(tmp_path / "a.mgce", "w") as model:
        model.writestr(MODEL_PART, "")
    refuses("Expected `out` to be the path of a file in a folder that can", "predict", "a.mgce", "a.csv")
