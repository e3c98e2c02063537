import contextlib
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from paper.image_runs import tiny

from mgce._files import alone_in
from mgce_lab.engine import migration
from mgce_lab.engine.migration import CHANGES, Change
from mgce_lab.engine.place import Place
from mgce_lab.engine.scratch import carry_over
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import Run, Runs, former_names, run_name
from mgce_lab.engine.study import Study
from mgce_lab.engine.sweep import Workers, carry_out

RESULTS = Path(__file__).parents[3] / "results"


def renamed(document, before, after):
    """Rename a key of a document, and what it is among the axes."""
    axes = {"axes": [after if axis == before else axis for axis in document["axes"]]} if "axes" in document else {}
    return {after if key == before else key: value for key, value in {**document, **axes}.items()}


# Two changes as they may come: a field is renamed, and of the paper's runs on images a method is what another is at one
# beta. A loss of the same name in other runs is another one.
FIELD = Change(
    specification=lambda document: renamed(document, "noise", "noise_rate"),
    former=lambda document: renamed(document, "noise_rate", "noise"),
    record=lambda record, _: renamed(record, "noise", "noise_rate"),
)


def method(before, after):
    def change(document):
        concerned = (document["kind"], document["method"], document["beta"]) == ("images", before, 1.0)
        return {**document, "method": after} if concerned else document

    return change


METHOD = Change(
    specification=lambda document: method("mae", "mgce")(document) if document["kind"] == "images" else document,
    former=lambda document: method("mgce", "mae")(document) if document["kind"] == "images" else document,
    record=lambda record, run: {**record, "method": method("mae", "mgce")({**record, "kind": run["kind"]})["method"]},
)


def run(kind="images", name="mae", noise=0.4):
    keys = {"method": name, "beta": 1.0, "noise": noise}
    return Run({"kind": kind, "axes": ["noise", "method"], **keys}, [{**keys, "accuracy": 0.5}], {"seconds": 1.0})


OLD = [run(), run(noise=0.2), run("losses"), run("losses", "ce")]
NEW = [
    {**document, "method": "mgce" if document["kind"] == "images" else document["method"]}
    for document in (renamed(old.specification, "noise", "noise_rate") for old in OLD)
]


@pytest.fixture
def changes(monkeypatch):
    """Two versions later. What is called changes() is another version's list."""
    return lambda *entries: monkeypatch.setattr(migration, "CHANGES", entries)


@pytest.fixture(params=["loose", "packed", "both"])
def stored(tmp_path, request):
    """Runs of the first version."""
    folder = tmp_path / "stored"
    store = Runs(folder)
    for old in OLD:
        store.write(old)
    if request.param != "loose":
        store.pack()
    if request.param == "packed":
        shutil.rmtree(folder / "runs")
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(documents=NEW):
    return sorted(map(run_name, documents))


def test_finished_runs_are_found_under_their_new_names_and_nothing_is_written(stored, changes):
    before = contents(stored)
    changes(FIELD, METHOD)
    found = Runs(stored).read()
    assert list(found) == names() and [one.specification for one in found.values()] == sorted(NEW, key=run_name)
    for one in found.values():
        (record,) = one.records
        assert one.name == run_name(one.specification) and one.machine == {"seconds": 1.0}
        assert record["accuracy"] == 0.5 and "noise" not in record
        assert (record["method"], record["noise_rate"]) == (
            one.specification["method"],
            one.specification["noise_rate"],
        )
    assert contents(stored) == before


def test_a_pack_writes_the_new_names_once_and_for_all(stored, changes):
    changes(FIELD)
    Runs(stored).pack()
    changes(FIELD, METHOD)
    store = Runs(stored)
    store.pack()
    after = contents(stored)
    assert not any(old.name in path for path in after for old in OLD)  # no folder of an old name
    Runs(stored).pack()
    store.pack()
    assert contents(stored) == after
    changes()  # what is on the disk needs no change any more
    assert list(Runs(stored).read()) == names()


class Stopped(BaseException):
    pass


def test_a_stop_anywhere_loses_nothing(stored, changes, monkeypatch, tmp_path):
    changes(FIELD, METHOD)
    whole = tmp_path / "whole"
    shutil.copytree(stored, whole)
    Runs(whole).pack()
    stop = 0
    while True:
        folder, done = tmp_path / f"stopped-{stop}", []
        shutil.copytree(stored, folder)

        def counted(move, done=done, stop=stop):
            def moving(path, to):
                if len(done) == stop:
                    raise Stopped
                done.append(to)
                return move(path, to)

            return moving

        with monkeypatch.context() as patch:
            for name in ("replace", "rename"):
                patch.setattr(Path, name, counted(getattr(Path, name)))
            try:
                Runs(folder).pack()
            except Stopped:
                pass
            else:
                break
        assert Runs(folder).read() == Runs(whole).read(), stop
        Runs(folder).pack()  # lines of old names may stay in files that specifications.jsonl no longer speaks of
        changes()
        assert Runs(folder).read() == Runs(whole).read(), stop
        changes(FIELD, METHOD)
        stop += 1
    assert stop >= 9  # a file that loses checks, four with both names, four with the new ones, and folders


def test_a_run_under_both_names_counts_once_as_the_new_one(stored, changes):
    changes(FIELD, METHOD)
    assert len({old.name < run_name(document) for old, document in zip(OLD, NEW, strict=True)}) == 2
    for new in NEW:
        Runs(stored).write(Run(new, [{**new, "accuracy": 0.75}], {}))
    for packed in range(3):
        found = Runs(stored).read()
        assert list(found) == names() and {one.records[0]["accuracy"] for one in found.values()} == {0.75}
        if packed < 2:
            Runs(stored).pack()
    changes()
    assert list(Runs(stored).read()) == names()


def test_a_folder_of_an_old_name_is_gone_at_once(stored, changes, monkeypatch):
    """Half of it would be taken for a damaged run."""
    changes(FIELD, METHOD)
    remove = shutil.rmtree

    def stopping(folder, **options):
        if folder.parent.name != "runs":
            return remove(folder, **options)
        (folder / "records.jsonl").unlink()
        raise Stopped

    monkeypatch.setattr(shutil, "rmtree", stopping)
    with contextlib.suppress(Stopped):
        Runs(stored).pack()
    assert list(Runs(stored).read()) == names()


def test_what_a_stopped_run_needs_and_logits_are_carried_over(tmp_path, changes):
    place = Place(scratch=tmp_path / "scratch", logits=tmp_path / "logits")
    for old in OLD[:2]:
        (place.scratch / old.name / "32-true").mkdir(parents=True)
        (place.scratch / old.name / "32-true" / "last.ckpt").write_text(old.name)
    (place.scratch / "another").mkdir()
    place.logits.mkdir()
    (place.logits / f"{OLD[2].name}.npz").write_text("logits")
    changes(FIELD, METHOD)
    assert former_names(NEW[0])[-1] == OLD[0].name and former_names(NEW[2]) == [OLD[2].name]
    with alone_in(place.scratch / OLD[1].name), pytest.raises(ValueError, match="one command for the same runs"):
        carry_over(place, NEW)
    for _ in range(2):
        carry_over(place, NEW)
        assert {path.name for path in place.scratch.iterdir()} == {"another", run_name(NEW[0]), run_name(NEW[1])}
        assert [path.name for path in place.logits.iterdir()] == [f"{run_name(NEW[2])}.npz"]
    assert (place.scratch / run_name(NEW[0]) / "32-true" / "last.ckpt").read_text() == OLD[0].name
    (place.scratch / OLD[0].name).mkdir()  # begun anew by an earlier version: what goes on stays
    carry_over(place, NEW)
    assert (place.scratch / run_name(NEW[0]) / "32-true").is_dir() and (place.scratch / OLD[0].name).is_dir()


@dataclass(frozen=True)
class Small:
    """A run that says in its record whether it went on."""

    kind: ClassVar[str] = "small"
    axes: ClassVar[tuple[str, ...]] = ("noise_rate",)
    by_dataset: ClassVar[tuple[str, ...] | None] = None

    noise_rate: float
    dataset: str = "none"

    def check(self, place):
        pass

    def data_checksum(self, place):
        return ""

    def run(self, place):
        went_on = (place.scratch / run_name(document(self)) / "last.ckpt").is_file()
        return [{"noise_rate": self.noise_rate, "went_on": went_on}]


def test_a_command_goes_on_with_what_an_earlier_version_left(tmp_path, changes):
    old = [renamed(document(Small(rate)), "noise_rate", "noise") for rate in (0.2, 0.4)]
    store, place = Runs(tmp_path), Place(scratch=tmp_path / "scratch")
    store.write(Run(old[0], [{"noise": 0.2, "went_on": None}], {}))
    (place.scratch / run_name(old[1])).mkdir(parents=True)
    (place.scratch / run_name(old[1]) / "last.ckpt").write_text("")
    changes(FIELD)
    study = Study("", (Small,), {}, len)
    carry_out(study, [Small(0.2), Small(0.4)], Runs(tmp_path), place, Workers(), lambda done, total: None)
    records = [record for one in Runs(tmp_path).read().values() for record in one.records]
    assert {record["noise_rate"]: record["went_on"] for record in records} == {0.2: None, 0.4: True}
    assert not list(place.scratch.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("folder", [path.parent.name for path in RESULTS.glob("*/specifications.jsonl")])
def test_each_change_can_be_undone_and_does_nothing_twice(folder, changes):
    """For `CHANGES` too, on all that is committed: else a stopped run would not be found, or a record changed again."""
    for change in (FIELD, METHOD, *CHANGES):
        changes(change)
        for name, one in Runs(RESULTS / folder).read().items():
            again, records = migration.renewed(one.specification, one.records)
            assert (again, records) == (one.specification, list(one.records))
            assert name == (one.stored_as or name) or one.stored_as in former_names(one.specification)


# Those of before the words changed; later ones have today's.
FOLDERS = [path.parent for path in sorted(RESULTS.glob("*/specifications.jsonl")) if '"noise":' in path.read_text()]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_committed_runs_have_the_words_of_today_and_the_numbers_of_before(folder):
    """The words are replaced in the text of the files, which stay as they are."""
    specifications, lines = (folder / name for name in ("specifications.jsonl", "records.jsonl"))
    records = {}
    for line in lines.read_text().splitlines():
        name = json.loads(line)["run"]
        records.setdefault(name, []).append(line.replace('"noise":', '"noise_rate":'))
    found = {run.stored_as: run for run in Runs(folder).read().values()}
    for line in specifications.read_text().splitlines():
        before, words = json.loads(line), line
        changed = {'"noise"': '"noise_rate"', '{"delta":': '{"inverse_norm":'}
        changed |= {'["mae",1.0]': '["mgce",1.0]'} if before["kind"] == "tabular" else {}
        for former, today in changed.items():
            words = words.replace(former, today)
        name = run_name(before)
        run = found.pop(name)
        assert run.specification == json.loads(words) and former_names(run.specification)[-1] == name
        paper = before["kind"] == "tabular"
        same = [one.replace('"method":"mae",', '"method":"mgce",') if paper else one for one in records[name]]
        assert [{**record, "run": name} for record in run.records] == list(map(json.loads, same))
        assert run.name == run_name(run.specification) != name
    assert not found


def test_the_mae_of_softmax_is_no_former_name():
    """The paper's runs called MGCE at beta = 1 `mae`, the others that of softmax, as now all do."""
    for members in ([["mae", "inf"]], [["mgce", 1.4], ["mae", "inf"]]):
        run = {"kind": "tabular", "axes": ["noise_rate", "members"], "members": members, "noise_rate": 0.2}
        (before,) = {str(one["members"]) for one in migration.earlier(run)}
        assert before == str(members) and migration.renewed(run, [{"method": "mae", "beta": "inf"}])[0] == run
    own = {"kind": "rates", "axes": ["members"], "members": [["mae", "inf"], ["mgce", 1.0]]}
    assert migration.renewed(own, [{"method": "mae", "beta": "inf"}]) == (own, [{"method": "mae", "beta": "inf"}])


@pytest.mark.parametrize(
    ("method", "beta", "loss"),
    [
        ("ce", math.inf, {"family": "mgce"}),
        ("mgce", 1.0, {}),
        ("ce+logitclip", math.inf, {"options": {"delta": 1.0}}),
    ],
)
def test_a_network_that_an_earlier_version_stopped_goes_on(tmp_path, method, beta, loss):
    """Its checkpoint has the words of that version, and lies under the name of that version."""
    run, place = tiny(method, beta, epochs=1), Place(scratch=tmp_path)
    first, name = run.run(place), run_name(document(run))
    last = tmp_path / name / place.image_precision / "last.ckpt"
    checkpoint = torch.load(last, weights_only=False)
    checkpoint["specification"]["loss"]["0"] |= loss
    torch.save(checkpoint, last)
    written = last.read_bytes()
    (tmp_path / name).rename(tmp_path / former_names(document(run))[-1])
    carry_over(place, [document(run)])
    assert last.read_bytes() == written and run.run(place) == first and last.read_bytes() == written


@pytest.mark.parametrize("members", [3, [3], [["mae"]], None])
def test_a_specification_that_no_version_wrote_is_damage(tmp_path, members):
    with pytest.raises(ValueError, match="to hold finished runs, but got a specification that no version wrote"):
        Runs(tmp_path).write(Run({"kind": "tabular", "members": members, "noise": 0.2}, [{"method": "mae"}], {}))
