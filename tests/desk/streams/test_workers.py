"""Fits in chunks on the workers of a Dask cluster: as in one process, and one worker lost costs its parts alone."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

from mgce.desk.files.parts import Parts
from mgce.desk.streams.chunks import Chunks
from mgce.desk.streams.dask_frames import fit_dask, workers
from mgce.desk.streams.fit import Work, fit_in_chunks
from mgce.desk.tables.fit_plan import FitPlan

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore"),  # of Dask and Tornado, about processes that end
]


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("cloudpickle").register_pickle_by_value(sys.modules[__name__])  # workers cannot import this
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as found:
        yield found


def table():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 900))
    label = np.where((x * y > 0) ^ (rng.random(900) < 0.2), "same", "other")
    return pd.DataFrame({"x": x, "y": y, "label": label})


def in_chunks(folder):
    """Write the table; return it with the work on its chunks."""
    for name in ("chunks", "suspects"):
        (folder / name).mkdir(parents=True)
    table().to_parquet(folder / "table.parquet", row_group_size=100)
    parts = Parts.of(folder / "table.parquet")
    plan = FitPlan("label")
    return parts, Work(Chunks.of(folder / "chunks", 4, parts, plan), plan, 1, folder / "suspects")


def in_one_process(parts, work):
    with workers(None) as each:
        return fit_in_chunks(parts, work, each)


def kill_one(cluster, chunks, killed):
    """Kill a worker as soon as a chunk is learnt, while others are."""
    while not [*chunks.glob("models-*")]:
        time.sleep(0.05)
    pid = next(iter(cluster.workers.values())).pid
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)


def test_a_killed_worker_changes_nothing(tmp_path, cluster):
    parts, alone = in_chunks(tmp_path / "alone")
    with cluster.get_client() as client:  # one process, where forests have as many trees as on other workers
        fit = client.submit(in_one_process, parts, alone).result()
    parts, together = in_chunks(tmp_path / "together")
    killed = []
    thread = threading.Thread(target=kill_one, args=(cluster, together.chunks.folder, killed), daemon=True)
    thread.start()
    with workers(cluster.scheduler_address) as each:
        same = fit_in_chunks(parts, together, each)
    thread.join(60)
    assert killed
    pd.testing.assert_frame_equal(pd.read_parquet(alone.out), pd.read_parquet(together.out))
    assert same.share == fit.share
    assert same.notes == fit.notes
    rows = table().drop(columns="label")
    probs = [one.model.predict(one.model.columns.select(rows)).h for one in (fit, same)]
    np.testing.assert_array_equal(*probs)


def test_a_dask_frame_is_fitted_to_where_its_rows_are(tmp_path, cluster):
    frames = pytest.importorskip("dask.dataframe")
    with cluster.get_client():
        fit = fit_dask(frames.from_pandas(table(), npartitions=3), FitPlan("label"), tmp_path / "a/new/suspects")
    assert fit.counts.rows.sum() == len(table())
    assert len(pd.read_parquet(tmp_path / "a/new/suspects")) == len(table())
    assert [path.name for path in (tmp_path / "a/new").iterdir()] == ["suspects"]


def test_what_is_no_dask_frame_and_a_folder_that_exists_are_refused_before_anything_is_fitted(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    with pytest.raises(TypeError, match="^Expected `frame` to be a DataFrame of Dask, but got 'DataFrame'"):
        fit_dask(table(), FitPlan("label"), tmp_path / "suspects")
    with pytest.raises(ValueError, match="^Expected `out` to be the path of a folder that does not exist yet"):
        fit_dask(frames.from_pandas(table(), npartitions=3), FitPlan("label"), tmp_path)


def test_an_error_of_a_worker_is_that_of_the_command(cluster):
    with workers(cluster.scheduler_address) as each, pytest.raises(ValueError, match="Expected"):
        each(_refused, [1])


def _refused(one):
    raise ValueError(f"Expected another, but got {one}.")
