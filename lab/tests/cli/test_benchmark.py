import json

import pandas as pd
import pytest

from commands import mgce
from web_pages import check_structure


def test_a_smoke_run_and_its_report(tmp_path):
    options = ["--smoke", "--methods", "gce,nce+rce", "--dataset", "wine", "--jobs", "1", "--out-dir", "out"]
    result = mgce("benchmark", "rates", *options, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "nce+rce" in result.stdout and "w/t/l" in result.stdout
    out = tmp_path / "out"
    # Nothing can be taken for a result: every file, title and row says what it is.
    assert result.stdout.startswith("Smoke run, no results: ")
    assert "Smoke run, no results: " in check_structure((out / "report-smoke.html").read_text()).text("h2")[0]
    assert set(pd.read_csv(out / "rates-smoke.csv").run) == {"smoke"} and not (out / "rates.csv").exists()
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert len(records) == 2 * 4 * 2  # losses, learning rates, seeds
    assert len(list((out / "logits").iterdir())) == 8
    again = mgce("report", "out", "--out-dir", "again", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "rates-smoke.csv").read_bytes() == (out / "rates-smoke.csv").read_bytes()
    real = mgce("benchmark", "rates", *options[1:], folder=tmp_path)
    assert real.returncode == 2 and "all of --smoke or none" in real.stderr
    nowhere = mgce("benchmark", "rates", *options, "--device", "nowhere", folder=tmp_path)  # and nothing left to run
    assert nowhere.returncode == 2 and nowhere.stderr.startswith("Error: Expected `device` to be a device that this")
    half = mgce("benchmark", "rates", *options, "--precision", "half", folder=tmp_path)
    assert half.returncode == 2 and half.stderr.startswith("Error: Expected `precision` to be one of '32-true'")


def test_a_folder_that_cannot_be_written_to_is_named_before_any_work(tmp_path):
    (tmp_path / "out").write_text("")
    result = mgce("benchmark", "rates", "--smoke", "--out-dir", "out", folder=tmp_path)
    assert result.returncode == 2 and result.stderr.startswith("Error: Expected `out_dir` to be the path of a folder")


@pytest.mark.parametrize("protocol", ["p1", "p2", "reduced"])
@pytest.mark.parametrize("smoke", [True, False])
def test_a_data_set_of_another_protocol_is_one_sentence(tmp_path, protocol, smoke):
    result = mgce("benchmark", protocol, "--dataset", "letter", *(["--smoke"] if smoke else []), folder=tmp_path)
    assert result.returncode == 2 and result.stderr.startswith("Error: Expected `dataset` to be"), result.stderr
    assert result.stderr.count("\n") == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("jobs", ["0", "-3"])
def test_the_number_of_jobs(tmp_path, jobs):
    result = mgce("benchmark", "rates", "--smoke", "--jobs", jobs, folder=tmp_path)
    assert result.returncode == 2 and result.stderr == f"Error: Expected `jobs` to be at least 1, but got {jobs}.\n"


def test_a_wrong_protocol_is_one_sentence(tmp_path):
    result = mgce("benchmark", "p3", folder=tmp_path)
    assert result.returncode == 2
    names = "'p1', 'p2', 'reduced', 'training', 'selection', 'rates'"
    assert result.stderr == f"Error: Expected `protocol` to be one of {names}, but got 'p3'.\n"
