"""Fits in chunks: like a fit in memory, but no label is judged by a model that has learnt it."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import average_precision_score

from mgce.desk.files.parts import Parts
from mgce.desk.review.draws import Draws
from mgce.desk.review.suspect_file import read_suspects
from mgce.desk.streams.chunks import Chunks, chunk_of
from mgce.desk.streams.dask_frames import fit_dask, workers
from mgce.desk.streams.fit import Judged, Work, fit_in_chunks
from mgce.desk.streams.pilot import ANCHOR, Pilot, with_all_classes
from mgce.desk.tables.fit import run
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.learning import Counts
from mgce.desk.tables.listing import Listing
from mgce.labels.doubtful import doubtful_labels

N = 900


def moons(n=N):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, n))
    right = np.where(x * y > 0, "same", "other")
    wrong = rng.random(n) < 0.2
    given = np.where(wrong, np.where(right == "same", "other", "same"), right)
    return pd.DataFrame({"x": x, "y": y, "kind": rng.choice(["a", "b"], n), "label": given}), wrong


def in_chunks(folder, frame, n, *, row_groups=200, plan=None):
    """Fit in chunks; return the fit, and the file of suspects of all rows in the order of the table."""
    chunks, parts = folder / "chunks", folder / "suspects"
    for one in (chunks, parts):
        one.mkdir(parents=True)
    frame.to_parquet(folder / "table.parquet", row_group_size=row_groups)
    table, plan = Parts.of(folder / "table.parquet"), plan or FitPlan("label")
    work = Work(Chunks.of(chunks, n, table, plan), plan, 1, parts)
    with workers(None) as each:
        fit = fit_in_chunks(table, work, each)
    found = pd.concat([pd.read_parquet(part) for part in sorted(parts.iterdir())])
    return fit, found.assign(row=found["row"].astype(int)).sort_values("row", ignore_index=True)


@pytest.mark.nightly
def test_suspects_of_chunks_are_about_those_in_memory(tmp_path):
    frame, wrong = moons()
    whole = run(frame, FitPlan("label"))
    fit, found = in_chunks(tmp_path, frame, 3)
    assert found["row"].tolist() == [*range(1, N + 1)]
    assert found["given"].tolist() == frame["label"].tolist()
    first = {*whole.judgement.order[:100].tolist()}
    ours = {int(name) - 1 for name in fit.row_names.iloc[fit.judgement.order[:100]]}
    assert len(first & ours) >= 60  # of chunks of 300 rows; nine tenths are the goal where chunks are large
    in_memory, of_chunks = (average_precision_score(wrong, p) for p in (whole.judgement.wrong, 1 - found["p_given"]))
    assert of_chunks > in_memory - 0.05
    assert fit.counts.rows.sum() == N == fit.share.n
    assert len(fit.model.trained_rows) == N
    assert "divided into 3 chunks" in fit.notes[0]
    listed = read_suspects(tmp_path / "suspects")
    assert len(listed) == N


def test_no_label_is_judged_by_a_model_that_has_learnt_it(tmp_path):
    frame, _ = moons(240)
    _, before = in_chunks(tmp_path / "before", frame, 2, plan=FitPlan("label", model="linear"))
    row = 17
    changed = frame.copy()
    changed.loc[row, "label"] = {"same": "other", "other": "same"}[frame["label"][row]]
    _, after = in_chunks(tmp_path / "after", changed, 2, plan=FitPlan("label", model="linear"))
    one, other = before.iloc[row], after.iloc[row]
    assert one["given"] != other["given"]
    assert abs(one["p_given"] - (1 - other["p_given"])) < 0.25  # a model that had learnt the label would follow it


def test_what_few_rows_have_is_said_and_not_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("mgce.desk.streams.fit.LEARNT", 150)  # so that two of the three chunks are learnt
    n = 300
    frame, _ = moons(n)
    frame.loc[n - 2 :, "label"] = "rare"  # a class that only the last part has
    frame.loc[n - 40 :, "kind"] = "late"
    frame.loc[:99, "y"] = np.nan  # the first row group has no value
    frame.loc[3, "label"] = None
    frame = pd.concat([frame, frame[100:104]], ignore_index=True)
    frame.loc[50, "kind"] = _kind_of_chunk(frame.loc[50], 2)
    fit, found = in_chunks(tmp_path, frame, 3, row_groups=100)
    notes = " ".join(fit.notes)
    assert "The model in the file is of the first 2." in notes
    sizes = [len(pd.read_parquet(part)) for part in sorted((tmp_path / "suspects").iterdir())]
    assert sum(sizes[:2]) - 4 <= len(fit.model.trained_rows) <= sum(sizes[:2])  # four are copies
    assert "1 row has no label" in notes or "without a label" in notes
    assert "2 rows were left out, with labels too rare for the first chunk." in notes
    assert "In chunk 3 of 3: in 1 row, column `kind` holds a category that no training row had" in notes
    assert not any(note[0].isdigit() for note in fit.notes[4:])
    mean = (sizes[0] * sizes[1] * 2 + sizes[2] * sum(sizes[:2])) / sum(sizes)  # rows that a judge has learnt
    assert int(notes.split("if it learns ")[2].split(".")[0]) == pytest.approx(mean, rel=0.05)
    judged, parts = fit.judgement, sorted((tmp_path / "suspects").iterdir())
    lead = judged.probs[np.arange(len(judged.target)), judged.target] - judged.probs.max(1)
    assert (np.diff(lead[np.argsort(judged.rank)]) >= 0).all()
    drawn = [(pd.read_parquet(part)["draw_probability"] > 0).any() for part in parts]
    assert drawn == [True, False, False]  # the first chunk alone is sampled and certified
    assert {*found["row"]} == {*range(1, len(frame) + 1)} - {4, n - 1, n}
    assert fit.n_missing == {"x": 0, "y": 99, "kind": 0}
    assert fit.n_copies == 4
    assert found["key"].is_unique


def _kind_of_chunk(row, chunk):
    """Return a category that no other row has, with which a row of the table is in this chunk of three."""
    values = {name: [row[name]] * 40 for name in ("x", "y")}
    kinds = [f"new{number}" for number in range(40)]
    return kinds[chunk_of(pa.table(values | {"kind": kinds}), ("x", "y", "kind"), 3).tolist().index(chunk)]


def test_rows_of_a_chunk_are_learnt_once_and_each_class_is_there():
    frame, _ = moons(80)
    fit = run(frame, FitPlan("label", model="linear"))
    pilot = Pilot.of(fit, np.arange(80))
    more = pd.concat([frame, frame[:1], frame[1:2].assign(label="rare")], ignore_index=True)
    more.loc[81, "label"] = "other" if frame.loc[1, "label"] == "same" else "same"  # the same row, but for its label
    more = pd.concat([more, frame[2:3].assign(label="rare")], ignore_index=True)  # of no class
    rows = pilot.rows(more)
    assert (len(rows.frame), rows.n_copies, len(rows.unknown)) == (82, 1, 0)
    assert len(rows.train) == 81 and len({*rows.train.tolist()} & {0, 80}) == 1
    assert rows.first[0] == rows.first[80] and rows.first[1] != rows.first[81]
    X, alone = with_all_classes(pilot.features(rows.selected.iloc[rows.train]), rows)
    assert len(X) == 81 and sorted(alone.weights) == [1] * 80 + [2]
    distinct = pilot.rows(frame[frame["label"] == "same"])
    X, alone = with_all_classes(pilot.features(distinct.selected), distinct)
    assert len(X) == len(alone.target) == len(distinct.target) + 1
    assert alone.weights.tolist() == [1] * len(distinct.target) + [ANCHOR]
    assert alone.classes[alone.target[-1]] == "other" and not X[-1].any()
    every = pilot.rows(frame)
    assert with_all_classes(pilot.features(every.selected), every)[1].weights is None


def test_so_many_chunks_are_learnt_as_have_the_rows_that_are_learnt(tmp_path):
    plan = FitPlan("label")
    for rows, learnt in ((100, 10), (800_000, 5), (10**9, 2)):
        assert Work(Chunks(tmp_path, 10, ("x",), rows), plan, 1, tmp_path).learnt == range(learnt), rows


def test_the_most_suspect_rows_and_those_drawn_are_listed(monkeypatch):
    monkeypatch.setattr("mgce.desk.streams.fit.LISTED", 3)
    monkeypatch.setattr("mgce.desk.streams.fit.DRAWN", 2)
    right = np.array([0.9, 0.1, 0.2, 0.8, 0.7, 0.3, 0.95, 0.85])  # probability of the given label
    found = doubtful_labels(np.stack([right, 1 - right], 1), np.zeros(8, np.int64), classes=np.array(["a", "b"]))
    number = np.array([2, 3, 4, 5, 6, 7, 1, 8])
    names = pd.Series([*"rstuvwxy"], index=range(10, 18))
    listing = Listing(pd.DataFrame({"cell": names}), [*names], None, Draws(number, number / 8), {}, "label")
    judged = Judged(found, names, listing, Counts.of(found), 3, {}, np.zeros(2, np.int64), {}).listed()
    assert judged.names.to_dict() == dict(enumerate("rstwx"))
    assert judged.listing.keys == judged.listing.cells["cell"].tolist() == [*"rstwx"]
    assert judged.listing.draws.number.tolist() == [2, 3, 4, 7, 1]
    assert judged.counts.rows.sum() == 8


class Dask:
    """What is used of Dask: frames that write themselves, and clients that call a function with each argument."""

    npartitions = 2

    def __init__(self, address=None, timeout=None):
        self.address = address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.address = None

    def map(self, function, arguments, pure):
        assert self.address == "tcp://one" and not pure
        return map(function, arguments)

    def gather(self, found):
        return [*found]

    def get_client():
        raise ValueError("No global client found")

    def to_parquet(self, folder, write_index):
        folder.mkdir()
        for number in range(2):
            moons(60)[0].to_parquet(folder / f"part.{number}.parquet", index=write_index)


def test_workers_get_the_work_and_frames_of_dask_become_its_files(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Dask, get_client=Dask.get_client))
    with workers("tcp://one") as each:
        assert each(len, ["ab", "c"]) == [2, 1]
    fitted = lambda parts, work, each: (parts.rows, work.chunks.n, work.out.is_dir(), each(len, ["ab", "c"]))  # noqa: E731
    monkeypatch.setattr("mgce.desk.streams.dask_frames.fit_in_chunks", fitted)
    assert fit_dask(Dask(), FitPlan("label"), tmp_path / "a/new/suspects") == (120, 2, True, [2, 1])
    assert [path.name for path in (tmp_path / "a/new").iterdir()] == ["suspects"]


def test_an_order_in_time_needs_all_rows_at_once_and_is_refused(tmp_path):
    with pytest.raises(ValueError, match="^Expected `time` to be"):
        in_chunks(tmp_path, moons(60)[0], 2, plan=FitPlan("label", time="x"))
