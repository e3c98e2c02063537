import pytest

from mgce.experiments.store import write_files


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
