"""A short form of the soak of files, and that it finds what it looks for."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from mgce_lab.soak import attacks, files, guided, readers
from mgce_lab.soak.mutate import mutated
from mgce_lab.soak.outcomes import outcome
from mgce_lab.soak.readers import Reader

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.parametrize(
    "name", ["idx", "xz", "labels", "gz table", "record", "packed machines", "reasons", "features"]
)
def test_no_reader_fails(name, tmp_path):
    result = files.try_files(name, readers.readers()[name], range(60), tmp_path)
    assert result["bad"] == [] and sum(result["outcomes"].values()) == 60


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model", "estimator", "parquet", "image", "checkpoint"])
def test_no_reader_of_many_parts_fails(name, tmp_path):
    result = files.try_files(name, readers.readers()[name], range(20), tmp_path)
    assert result["bad"] == [] and sum(result["outcomes"].values()) == 20


@pytest.mark.parametrize("name", list(readers.readers()))
def test_files_that_reached_new_code_are_read_or_refused(name, tmp_path):
    folder = Path(__file__).parents[3] / guided.CORPUS / name.replace(" ", "-")
    reader = readers.readers()[name]
    reader.setup(tmp_path)
    for known in sorted(folder.iterdir()):
        (tmp_path / reader.file).write_bytes(known.read_bytes())
        assert outcome(reader.read, tmp_path / reader.file)[0] in ("value", "sentence"), known.name


@pytest.mark.parametrize(("done", "outcomes"), [(10, {"value": 10}), (9, {"value": 9, "crash": 1})])
def test_a_guided_process_that_ends_after_its_last_file_has_crashed_on_none(done, outcomes, tmp_path, monkeypatch):
    def ends_badly(arguments, **options):
        Path(arguments[-1]).write_text(json.dumps({"files": done, "outcomes": {"value": done}}))
        return subprocess.CompletedProcess(arguments, -11, stderr="")

    monkeypatch.setattr(guided.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(guided.subprocess, "run", ends_badly)
    assert guided.run("idx", 10, tmp_path)["outcomes"] == outcomes


def test_a_mutated_file_is_that_of_its_number():
    seeds = [b"a,b\n1,2\n" * 9]
    some = [mutated([seeds[0]], number, "x") for number in range(50)]
    assert some == [mutated([seeds[0]], number, "x") for number in range(50)] and len(set(some)) > 30


def crash(path):
    if b"x" in path.read_bytes():
        os.kill(os.getpid(), signal.SIGKILL)
    raise KeyError("y") if b"y" in path.read_bytes() else ValueError("Expected a file.")


def test_crashes_and_tracebacks_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "mutated", lambda seeds, number, name: {3: b"x", 5: b"y"}.get(number, b""))
    result = files._part("r", Reader("f", lambda: [b""], crash), range(8), tmp_path)
    assert result["outcomes"] == {"sentence": 6, "crash": 1, "traceback": 1}
    assert [bad[:2] for bad in result["bad"]] == [[3, "crash"], [5, "traceback"]]
    assert sorted(path.name for path in (tmp_path / "failures").iterdir()) == ["r-3", "r-5"]
    assert files._part("r", Reader("f", lambda: [b""], None), range(8), tmp_path)["outcomes"] == result["outcomes"]


@pytest.mark.slow
def test_small_hostile_files_are_refused():
    names = ["model: a random state that reads out of bounds", "model: 5,000,000 empty lists"]
    assert {name: found["outcome"] for name, found in attacks.run(names).items()} == dict.fromkeys(names, "sentence")
