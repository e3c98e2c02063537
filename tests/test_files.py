import json
import math
import os
from pathlib import Path

import pytest

from mgce._files import replacing, to_json, write_files


def test_files_are_written_and_replaced(tmp_path):
    folder = tmp_path / "deep" / "out"
    write_files(folder, {"a.txt": b"1", "b.txt": b"2"})
    write_files(folder, {"a.txt": b"3"})
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"a.txt": b"3", "b.txt": b"2"}


def test_a_failure_leaves_what_was_there(tmp_path):
    write_files(tmp_path, {"a.txt": b"old"})
    with pytest.raises(TypeError):
        write_files(tmp_path, {"a.txt": b"new", "b.txt": "not bytes"})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a.txt": b"old"}


def test_files_take_their_places_in_the_order_given(tmp_path, monkeypatch):
    replace, seen = Path.replace, []
    monkeypatch.setattr(Path, "replace", lambda path, to: (seen.append(to.name), replace(path, to))[1])
    write_files(tmp_path, {"b": b"", "a": b"", "c": b""})
    assert seen == ["b", "a", "c"]


def test_a_file_that_cannot_take_its_place_keeps_the_next_ones_from_theirs(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError):
        write_files(tmp_path, {"a": b"1", "b": b"2", "c": b"3"})
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_a_folder_is_there_whole_or_not_at_all(tmp_path):
    with pytest.raises(KeyError), replacing(tmp_path / "runs") as temporary:
        temporary.mkdir()
        (temporary / "half").write_text("")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with replacing(tmp_path / "runs") as temporary:
        temporary.mkdir()
        (temporary / "whole").write_text("")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["whole"]


def test_what_a_killed_process_of_the_same_number_left_is_no_obstacle(tmp_path):
    left = tmp_path / f".runs.{os.getpid()}.tmp"
    left.mkdir()
    (left / "stale").write_text("")
    with replacing(tmp_path / "runs") as temporary:
        temporary.mkdir()
    assert list((tmp_path / "runs").iterdir()) == []


def test_json_holds_what_json_can():
    document = {"beta": math.inf, "low": -math.inf, "none": math.nan, "pair": (1, [2.5, "x"]), "flag": True}
    read = json.loads(to_json(document))
    assert read == {"beta": "inf", "low": "-inf", "none": None, "pair": [1, [2.5, "x"]], "flag": True}
