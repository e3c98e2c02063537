import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from mgce_lab.engine.consistency import check_no_network_twice
from mgce_lab.engine.place import Place
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import Runs, run_name
from mgce_lab.engine.study import Study
from mgce_lab.engine.sweep import Workers, absent, carry_out, check, pending, sweep
from mgce_lab.paper.tabular import TabularRun


@dataclass(frozen=True)
class Checked:
    dataset: str
    seen: list

    def check(self, place):
        self.seen.append((type(self).__name__, self.dataset))


class OtherKind(Checked):
    pass


def test_every_kind_of_run_is_checked_once_for_each_data_set():
    seen = []
    check([Checked("a", seen), OtherKind("a", seen), Checked("b", seen), Checked("a", seen)], Place())
    assert sorted(seen) == [("Checked", "a"), ("Checked", "b"), ("OtherKind", "a")]


class Missing(Checked):
    kind = "missing"

    def check(self, place):
        raise FileNotFoundError(f"no {self.dataset}")


class Wrong(Checked):
    def check(self, place):
        raise ValueError("no such device")


def test_every_missing_data_set_is_named_at_once():
    runs = [Missing("a", []), Checked("b", []), Missing("c", []), Missing("a", [])]
    assert absent(runs, Place()) == {("missing", "a"): "no a", ("missing", "c"): "no c"}
    with pytest.raises(FileNotFoundError, match="^no a no c$"):
        check(runs, Place())
    with pytest.raises(ValueError, match="no such device"):
        absent([Wrong("a", [])], Place())


def test_a_grid_grows(tmp_path):
    one = TabularRun("wine", 0.0, (0,), (("mgce", 1.4),), hidden=4, epochs=1)
    do([one], tmp_path)
    grid = replace(one, members=(("mgce", 1.4), ("mgce", 2.0), ("ce", float("inf"))))
    (rest,) = pending([grid, grid, replace(grid, members=grid.members[:2])], Runs(tmp_path))
    assert rest == replace(grid, members=grid.members[1:])
    do([rest], tmp_path)
    assert pending([grid], Runs(tmp_path)) == []
    check_no_network_twice([run.specification for run in Runs(tmp_path).read().values()])


def test_the_number_of_jobs_is_what_was_asked_for_or_what_the_machine_has():
    assert Workers.of(Place()).jobs == os.cpu_count() and Workers.of(Place(), 3).jobs == 3
    assert Workers.of(SimpleNamespace(device="cuda:1")).jobs == 1
    assert Workers.of(Place(), None, "dask", "tcp://here") == Workers(-1, "dask", "tcp://here")


@dataclass(frozen=True)
class Small:
    """A run that leaves a checkpoint, and may be killed."""

    kind: ClassVar[str] = "small"
    axes: ClassVar[tuple[str, ...]] = ("seed",)
    by_dataset: ClassVar[tuple[str, ...] | None] = None

    seed: int
    dataset: str = "none"
    killed: bool = False

    def check(self, place):
        pass

    def data_checksum(self, place):
        return "abc"

    def run(self, place):
        if self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        folder = Path(place.scratch, run_name(document(self)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "last.ckpt").write_text("")
        return [{"accuracy": 0.5}]


def do(runs, folder, jobs=1):
    place = Place(scratch=folder / "scratch")
    sweep(runs, Runs(folder), place, workers=Workers(jobs), on_finished=lambda run: None)


def test_checkpoints_stay_until_the_records_are_written(tmp_path, monkeypatch):
    write = Runs.write

    def full(store, run):
        assert (tmp_path / "scratch" / run.name / "last.ckpt").is_file()
        raise OSError("No space left on device")

    monkeypatch.setattr(Runs, "write", full)
    with pytest.raises(OSError, match="No space"):
        do([Small(0)], tmp_path)
    (left,) = (tmp_path / "scratch").iterdir()
    monkeypatch.setattr(Runs, "write", write)
    do([Small(0), Small(1)], tmp_path)
    assert list((tmp_path / "scratch").iterdir()) == [] and len(Runs(tmp_path).read()) == 2
    left.mkdir()  # a stop after the records were written, of the last run: nothing is left to do
    (tmp_path / "scratch" / "another").mkdir()  # of a run that is not finished
    done, place = [Small(0), Small(1)], Place(scratch=tmp_path / "scratch")
    carry_out(Study("", (Small,), {}, len), done, Runs(tmp_path), place, Workers(1), print)
    assert [folder.name for folder in (tmp_path / "scratch").iterdir()] == ["another"]
    do([Small(2)], tmp_path)
    assert {run.machine["data"] for run in Runs(tmp_path).read().values()} == {"abc"}


@pytest.mark.nightly
def test_a_worker_that_the_system_ends_is_one_sentence(tmp_path):
    with pytest.raises(
        OSError, match="Expected `jobs` to be such that each process has the memory it needs, but got 2"
    ):
        do([Small(0, killed=True), Small(1, killed=True)], tmp_path, jobs=2)
