import json
import os
from pathlib import Path

import numpy as np
import pytest

from mgce_lab.engine.store import Run, Runs

FIRST = Run({"a": 1}, [{"x": 0.1}, {"accuracy": 0.2}], {"seconds": 3.0})
SECOND = Run({"a": 2, "axes": ["seeds"], "seeds": [0, 1]}, [{"accuracy": 0.5}, {"accuracy": None}], {"seconds": 1.0})


@pytest.fixture
def store(tmp_path):
    """Two finished runs."""
    store = Runs(tmp_path)
    store.write(FIRST)
    store.write(SECOND)
    return store


def remove(folder):
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_runs_come_back_from_folders_and_from_lines(store, tmp_path):
    store.write(Run({"a": 1}, [{"x": 9.0}], {}))  # the first stays
    assert list(store.read().values()) == sorted((FIRST, SECOND), key=lambda run: run.name)
    store.pack()
    for run in (FIRST, SECOND):
        remove(tmp_path / "runs" / run.name)
    assert list(store.read().values()) == sorted((FIRST, SECOND), key=lambda run: run.name)
    packed = {path.name: path.read_bytes() for path in tmp_path.glob("*.json*")}
    store.pack()  # nothing is there to pack
    assert packed == {path.name: path.read_bytes() for path in tmp_path.glob("*.json*")}


def test_a_damaged_run_is_named_and_a_half_written_one_is_not_there(tmp_path):
    store = Runs(tmp_path)
    store.write(FIRST)
    (tmp_path / "runs" / ".half").mkdir()
    assert list(store.read()) == [FIRST.name]
    (tmp_path / "runs" / FIRST.name / "records.jsonl").write_text('{"x": 0.')
    with pytest.raises(ValueError, match=f"{FIRST.name}/records.jsonl"):
        store.read()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("change", ["emptied", "shortened", "another number", "lost", "swapped"])
def test_no_record_is_lost_or_changed_in_silence(store, tmp_path, packed, change):
    paths = [tmp_path / "runs" / FIRST.name / "records.jsonl"]
    if packed:
        store.pack()
        for run in (FIRST, SECOND):
            remove(tmp_path / "runs" / run.name)
        paths = [tmp_path / name for name in ("records.jsonl", "specifications.jsonl")]
    for path in paths:
        content = path.read_text()
        lines = content.splitlines(keepends=True)
        if change == "lost":
            path.unlink()
        else:
            path.write_text(
                {
                    "emptied": "",
                    "shortened": "".join(lines[:-1]),
                    "another number": content.replace("0.2", "0.3").replace('"a":1', '"a":3'),
                    "swapped": content.replace("0.1", "0.7"),
                }[change]
            )
        if path.exists() and path.read_text() == content:
            continue
        with pytest.raises(ValueError, match="Expected .* to hold finished runs, but got .*: delete what is damaged"):
            store.read()
        path.write_text(content)
        store.read()


@pytest.mark.parametrize("packed", [False, True])
def test_any_damage_is_one_sentence(store, tmp_path, packed):
    if packed:
        store.pack()
        for run in (FIRST, SECOND):
            remove(tmp_path / "runs" / run.name)
    rng = np.random.default_rng(0)
    whole, refused, tried = store.read(), 0, 0
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for _ in range(60):
            damaged = bytearray(content)
            for place in rng.integers(len(content), size=rng.integers(1, 3)):
                damaged[place] = rng.choice(np.frombuffer(b'{}[]",:0179-enul \xff', np.uint8))
            path.write_bytes(damaged if rng.random() < 0.8 else content[: rng.integers(len(content))])
            tried += 1
            try:
                read = store.read()
            except ValueError:
                refused += 1
            else:
                assert read == whole, path
        path.write_bytes(content)
    assert refused > 0.9 * tried


def test_a_run_without_a_check_is_refused(store, tmp_path):
    (tmp_path / "runs" / SECOND.name / "checks.json").unlink()
    with pytest.raises(ValueError, match=f"no check of run {SECOND.name}: delete what is damaged"):
        store.read()


def test_a_pack_that_was_stopped_anywhere_loses_nothing(store, tmp_path, monkeypatch):
    store.pack()
    third = Run({"a": 3}, [{"accuracy": 1.0}], {})
    store.write(third)
    replace = Path.replace
    for stop in range(4):
        done = []

        def stopping(path, to, done=done, stop=stop):
            if len(done) == stop:
                raise KeyboardInterrupt
            done.append(to.name)
            return replace(path, to)

        monkeypatch.setattr(Path, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            store.pack()
        monkeypatch.setattr(Path, "replace", replace)
        assert store.read().keys() == {FIRST.name, SECOND.name, third.name}
    store.pack()
    assert json.loads((tmp_path / "checks.json").read_text()).keys() == {FIRST.name, SECOND.name, third.name}


def test_the_published_records_are_read():
    results = Path(__file__).parents[3] / "results"
    for name, runs, records in (("paper", 155, 611), ("paper-pixels", 11, 13), ("paper-test-rows", 5, 15)):
        read = Runs(results / name).read().values()
        assert len(read) >= runs and sum(len(run.records) for run in read) >= records, name


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
def test_another_command_may_have_been_quicker(store, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "replace", lambda path, to: (_ for _ in ()).throw(OSError("there")))
    store.write(FIRST)
    with pytest.raises(OSError, match="there"):
        store.write(Run({"a": 9}, [], {}))
