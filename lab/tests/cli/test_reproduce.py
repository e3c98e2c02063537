import os
import signal
import subprocess
import sys
import time

import pytest

from commands import mgce
from mgce_lab.engine.store import Runs
from web_pages import check_structure

SMOKE = ["--smoke", "--dataset", "wine", "--seeds", "2", "--jobs", "1"]
TABLES = ("table3-smoke.txt", "table3-smoke.csv", "table3-smoke.tex", "records.jsonl", "specifications.jsonl")


def command(*arguments):
    return [sys.executable, "-m", "mgce_lab", *arguments]


@pytest.mark.parametrize("name", ["figure1", "figure2"])
def test_figures_of_curves_need_no_runs(tmp_path, name):
    result = mgce("reproduce", name, "--out-dir", "out", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "MAE" in result.stdout
    for suffix in ("txt", "csv", "tex", "png"):
        assert (tmp_path / "out" / f"{name}.{suffix}").stat().st_size > 0
    assert not (tmp_path / "out" / "runs").exists()


def test_runs_that_suffice_for_no_figure_leave_it_out(tmp_path):
    options = ["--smoke", "--dataset", "wine", "--methods", "ce", "--seeds", "1", "--jobs", "1"]
    result = mgce("reproduce", "table3", *options, "--out-dir", "out", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    again = mgce("report", "out", "--out-dir", "again", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    for folder in ("out", "again"):
        assert (tmp_path / folder / "table3-smoke.csv").is_file()
        assert not list((tmp_path / folder).glob("figure6*")) + list((tmp_path / folder).glob("*3.*"))
        check_structure((tmp_path / folder / "report-smoke.html").read_text())


@pytest.mark.slow
@pytest.mark.nightly
def test_a_killed_sweep_loses_no_finished_run_and_ends_in_the_same_bytes(tmp_path):
    whole = mgce("reproduce", "table3", *SMOKE, "--out-dir", "whole", folder=tmp_path)
    assert whole.returncode == 0, whole.stderr
    runs = tmp_path / "killed" / "runs"
    process = subprocess.Popen(
        command("reproduce", "table3", *SMOKE, "--out-dir", "killed"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while len(list(runs.glob("[!.]*"))) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None, "the sweep ended before it was killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in runs.glob("[!.]*/*")}
    planned = len((tmp_path / "whole" / "specifications.jsonl").read_text().splitlines())
    assert 0 < len(list(runs.glob("[!.]*"))) < planned
    assert not (tmp_path / "killed" / "table3-smoke.csv").exists()
    resumed = mgce("reproduce", "table3", *SMOKE, "--out-dir", "killed", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    for name in TABLES:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.nightly
def test_a_stopped_sweep_says_where_its_runs_are_and_leaves_no_worker(tmp_path):
    process = subprocess.Popen(
        command(
            "reproduce", "table3", "--smoke", "--dataset", "wine", "--seeds", "50", "--jobs", "2", "--out-dir", "out"
        ),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out" / "runs").glob("[!.]*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.terminate()
    assert "the finished runs are in out/" in " ".join(process.communicate(timeout=60)[1].split())
    assert process.returncode == 128 + signal.SIGTERM
    deadline = time.monotonic() + 60
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.01)


def test_report_needs_only_the_packed_records(tmp_path):
    assert mgce("reproduce", "figure6", *SMOKE, "--out-dir", "out", folder=tmp_path).returncode == 0
    packed = tmp_path / "packed"
    packed.mkdir()
    for name in Runs.PACKED:
        (tmp_path / "out" / name).rename(packed / name)
    result = mgce("report", "packed", "--out-dir", "again", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    for name in ("figure6-smoke.csv", "figure6-smoke.png", "report-smoke.html"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    assert check_structure((tmp_path / "again" / "report-smoke.html").read_text()).count("img") == 3


def test_a_grid_grows_and_all_says_what_is_missing(tmp_path):
    small = ["--smoke", "--seeds", "1", "--jobs", "1", "--out-dir", "out"]
    first = mgce("reproduce", "table3", *small, "--dataset", "wine", "--methods", "ce, sce", folder=tmp_path)
    assert first.returncode == 0, first.stderr
    rest = ["--dataset", "wine,letter,adult", "--methods", "mgce,ce", "--betas", "1.4", "--data-dir", "nowhere"]
    result = mgce("reproduce", "all", *small, *rest, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Left out because their data are missing: letter, adult." in result.stderr
    assert "uci/letter-recognition.data" in result.stderr and "uci/adult.data" in result.stderr
    rows = (tmp_path / "out" / "table3-smoke.csv").read_text().splitlines()[1:]
    assert sum(row.split(",")[3] == "1" for row in rows) == 3 * 3  # the methods at three rates of noise
    asked = mgce("reproduce", "table3", *small, *rest, folder=tmp_path)
    assert asked.returncode == 2 and "uci/letter-recognition.data" in asked.stderr and "uci/adult" in asked.stderr
    real = mgce("reproduce", "table3", "--dataset", "wine", "--out-dir", "out", folder=tmp_path)
    assert real.returncode == 2 and "to be all of --smoke or none" in real.stderr
    other = mgce("benchmark", "rates", "--smoke", "--dataset", "wine", "--out-dir", "out", folder=tmp_path)
    assert other.returncode == 2 and "to be all of mgce-lab reproduce or all of mgce-lab benchmark" in other.stderr
    alone = ["--dataset", "wine", "--methods", "ce", "--out-dir", "alone"]
    result = mgce("reproduce", "advantage", *small[:-2], *alone, folder=tmp_path)
    assert result.returncode == 0 and "The runs in alone/ do not suffice for advantage." in result.stderr
    (tmp_path / "alone" / "reasons.json").write_text("[]")
    damaged = mgce("reproduce", "table3", *small[:-2], *alone, "--seeds", "2", folder=tmp_path)
    assert damaged.returncode == 2 and damaged.stderr.startswith("Error: Expected `reasons.json` to be an object")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["reproduce", "table9"], "Error: Expected `name` to be one of 'advantage', 'figure1'"),
        (["reproduce", "table3", "--methods", "svm"], "Error: Expected `methods` to be one of 'mgce', 'gce'"),
        (["reproduce", "table3", "--betas", "0.5"], "Error: Expected `beta`"),
        (["reproduce", "table3", "--seeds", "0"], "Error: Expected `seeds`"),
        (["reproduce", "table3", "--dataset", "nowhere"], "Error: Expected `dataset` to be one of"),
        (["reproduce", "table3", "--dataset", "my.csv"], "Error: Expected `dataset` to be one of 'digits', "),
        (["benchmark", "rates", "--dataset", "my.csv"], "Error: Expected `dataset` to be one of 'digits', "),
        (["reproduce", "table3", "--smoke", "--backend", "dask"], "Error: Expected `scheduler`"),
        (["reproduce", "table3", "--smoke", "--device", "nowhere"], "Error: Expected `device` to be a device"),
        (["report", "nowhere"], "Error: Expected `runs` to be a folder"),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(tmp_path, arguments, sentence):
    result = mgce(*arguments, folder=tmp_path)
    assert result.returncode == 2
    assert sentence in result.stderr and "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_dask_workers_give_the_same_records(tmp_path):
    distributed = pytest.importorskip("distributed")
    assert mgce("reproduce", "table3", *SMOKE, "--out-dir", "here", folder=tmp_path).returncode == 0
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        there = ["--backend", "dask", "--scheduler", cluster.scheduler_address, "--out-dir", "there"]
        arguments = [option for option in SMOKE if option not in ("--jobs", "1")]
        result = mgce("reproduce", "table3", *arguments, *there, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    for name in TABLES:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
