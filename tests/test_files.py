import errno
import json
import math
import os
import stat
import sys
from pathlib import Path

import pytest

from mgce._files import alone_in, replacing, to_json, write_files


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


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    left = tmp_path / ".mgce-killed.tmp"
    left.mkdir()
    (left / "half").write_text("")
    with replacing(tmp_path / "a") as living:
        living.write_text("a")
        with replacing(tmp_path / "b") as other:
            other.write_text("b")
            assert not left.exists() and living.is_file()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "a", "b": "b"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks no folders")
def test_a_folder_is_entered_by_one_at_a_time(tmp_path, monkeypatch):
    with alone_in(tmp_path):
        with pytest.raises(BlockingIOError), alone_in(tmp_path):
            pass
        with alone_in(tmp_path.parent):
            pass
    with alone_in(tmp_path), pytest.raises(FileNotFoundError), alone_in(tmp_path / "none"):
        pass

    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with alone_in(tmp_path), alone_in(tmp_path):
        pass


def test_nobody_can_put_a_link_in_the_way(tmp_path):
    names = set()
    for _ in range(2):
        with replacing(tmp_path / "a") as temporary:
            folder = temporary.parent
            assert folder.parent == tmp_path and stat.S_IMODE(folder.stat().st_mode) == 0o700
            names.add(folder.name)
            temporary.write_text("")
    assert len(names) == 2


def test_a_link_in_place_of_an_abandoned_folder_is_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    (tmp_path / ".mgce-link.tmp").symlink_to(kept, target_is_directory=True)
    write_files(tmp_path, {"a": b""})
    assert (kept / "file").is_file()


def test_files_of_two_calls_never_lie_side_by_side(tmp_path, monkeypatch):
    replace, seen = Path.replace, []

    def watch(path, to):
        replace(path, to)
        seen.append({path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()})

    write_files(tmp_path, {"model": b"old", "report": b"old", "table": b"old"})
    monkeypatch.setattr(Path, "replace", watch)
    write_files(tmp_path, {"model": b"new", "report": b"new", "table": b"new"})
    assert [len(files) for files in seen] == [1, 2, 3] and all(set(files.values()) == {b"new"} for files in seen)


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    replace, sync, seen = Path.replace, os.fsync, []
    monkeypatch.setattr(Path, "replace", lambda path, to: (seen.append("name"), replace(path, to))[1])
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(stat.S_IFMT(os.fstat(fd).st_mode)), sync(fd))[1])
    with replacing(tmp_path / "run") as temporary:
        temporary.mkdir()
        (temporary / "records").write_text("")
    assert seen == [stat.S_IFREG, stat.S_IFDIR, "name", stat.S_IFDIR]


def test_json_holds_what_json_can():
    document = {"beta": math.inf, "low": -math.inf, "none": math.nan, "pair": (1, [2.5, "x"]), "flag": True}
    read = json.loads(to_json(document))
    assert read == {"beta": "inf", "low": "-inf", "none": None, "pair": [1, [2.5, "x"]], "flag": True}


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_file_for_which_there_is_no_room_is_named(tmp_path):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="large") as error:
            write_files(tmp_path, {"small.txt": b"1", "large.txt": b"1" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.value.errno == errno.EFBIG and error.value.filename == str(tmp_path / "large.txt")
    assert list(tmp_path.iterdir()) == []
