"""The pictures of a folder, and columns of texts or of files."""

import os
import shutil

import pandas as pd
import pytest

from mgce.desk.encoders.embedding import Inputs
from tiny_encoder import pictures


def test_a_folder_gives_its_pictures_by_their_path(tmp_path):
    labels = pictures(tmp_path, 4)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "dark/._000.png").write_text("what a Mac leaves")
    inputs = Inputs.of_folder(tmp_path)
    assert inputs.kind == "pictures" and set(inputs.names) == set(labels) and [*inputs.names] == sorted(labels)
    assert [path.relative_to(tmp_path).as_posix() for path in inputs.items] == [*inputs.names]
    with pytest.raises(ValueError, match="Expected `source` to be a folder of pictures"):
        Inputs.of_folder(tmp_path.parent / "none")


def test_a_column_is_of_texts_or_of_files(tmp_path):
    pictures(tmp_path, 2)
    frame = pd.DataFrame({"file": ["dark/000.png", "light/001.png"], "said": ["a", "b"], "who": ["x", "y"]})
    files = Inputs.of_column(frame, "file", tmp_path)
    assert files.kind == "pictures" and files.names == ("dark/000.png", "light/001.png")
    assert files.items[0] == tmp_path / "dark/000.png"
    assert Inputs.of_column(frame, "file", tmp_path, "who").names == ("x", "y")
    texts = Inputs.of_column(frame, "said", tmp_path)
    assert (texts.kind, texts.items, texts.names) == ("texts", ("a", "b"), ("1", "2"))


@pytest.mark.parametrize(
    "cells, sentence",
    [
        (["dark/000.png", "gone.png"], "a column of files that exist, seen from .*1 that do not, such as 'gone.png'"),
        (["dark/000.png", None], "a column with a value in every row, but got 'none in row 2'"),
    ],
)
def test_a_column_with_gaps_is_refused(tmp_path, cells, sentence):
    pictures(tmp_path, 2)
    with pytest.raises(ValueError, match=sentence):
        Inputs.of_column(pd.DataFrame({"file": cells}), "file", tmp_path)


def test_parts_are_all_rows_once():
    inputs = Inputs("texts", tuple("abcdefg"), tuple("1234567"))
    parts = [inputs.part(number, 3) for number in (1, 2, 3)]
    assert [one.items for one in parts] == [("a", "b"), ("c", "d"), ("e", "f", "g")]
    assert sum((one.names for one in parts), ()) == inputs.names


def test_a_checksum_is_that_of_names_and_contents(tmp_path):
    pictures(tmp_path, 4)
    before = Inputs.of_folder(tmp_path).checksum()
    assert before == Inputs.of_folder(tmp_path).checksum()
    (tmp_path / "dark/000.png").rename(tmp_path / "dark/004.png")
    renamed = Inputs.of_folder(tmp_path).checksum()
    (tmp_path / "dark/002.png").write_bytes((tmp_path / "dark/004.png").read_bytes())
    assert len({before, renamed, Inputs.of_folder(tmp_path).checksum()}) == 3
    assert Inputs("texts", ("ab", "c"), ("1", "2")).checksum() != Inputs("texts", ("a", "bc"), ("1", "2")).checksum()


def test_a_picture_whose_name_is_no_utf8_is_left_out_and_named(tmp_path):
    pictures(tmp_path, 2)
    try:
        shutil.copy(tmp_path / "dark/000.png", os.fsencode(tmp_path / "dark") + b"/caf\xe9.png")
    except OSError:
        pytest.skip("this file system has names of UTF-8 only")
    inputs = Inputs.of_folder(tmp_path)
    assert inputs.names == ("dark/000.png", "light/001.png") and len(inputs.items) == 2
    assert inputs.notes == (
        "1 of the 3 pictures has a name that is no UTF-8, and was left out (dark/caf\\xe9.png, for one).",
    )
