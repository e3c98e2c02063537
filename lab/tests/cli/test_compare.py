import functools
import json
import signal
import subprocess
import sys
from unittest import mock

import pandas as pd
import pytest

from commands import mgce

SMALL = ["--seeds", "2", "--epochs", "3", "--hidden", "8", "--betas", "1.4,5"]


def test_compare_prints_the_table_and_writes_the_files(tmp_path):
    result = mgce("compare", "iris", *SMALL, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    for text in ("iris, symmetric noise 0.4", "accuracy", "ECE(h)", "SCE(p)", "mgce", "gce", "ce", "mgce@1"):
        assert text in result.stdout
    assert "mean ± standard deviation of 2 seeds" in " ".join(result.stdout.split())
    folder = tmp_path / "mgce-compare-iris"
    assert {p.name for p in folder.iterdir()} == {"table.csv", "runs.json", "accuracy.png", "reliability.png"}
    document = json.loads((folder / "runs.json").read_text())
    assert len(document["runs"]) == 12 and document["plan"]["noise_rate"] == 0.4
    assert document["environment"]["torch"].startswith("2.")
    table = pd.read_csv(folder / "table.csv")
    assert table["method"].tolist() == ["mgce", "gce", "ce", "mgce@1"]


def test_compare_takes_a_file_of_mixed_columns(tmp_path):
    rows = [{"x": i % 7, "kind": "ab"[i % 2], "y": "yes" if i % 2 else "no"} for i in range(60)]
    frame = pd.DataFrame(rows)
    frame.loc[3, "x"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["t.csv", "--target", "y", "--noise-rate", "0.1", "--noise-type", "pair", "--out-dir", "results"]
    result = mgce("compare", *arguments, *SMALL, "--seeds", "1", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "one seed" in words and "deviation" not in words
    assert words.startswith("Note: The labels in t are taken as right. This command makes a share 0.1 of those for")
    assert (tmp_path / "results" / "table.csv").is_file()
    known = mgce("compare", "iris", *SMALL, "--seeds", "1", "--json", "-", folder=tmp_path)
    assert json.loads(known.stdout)["notes"] == []


def test_what_is_said_of_the_labels_of_a_file_is_said_before_the_work(tmp_path, monkeypatch):
    pd.DataFrame({"x": range(60), "y": ["yes", "no"] * 30}).to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr("mgce_lab.cli.compare.run", mock.Mock(side_effect=KeyboardInterrupt))
    stopped = mgce("compare", "t.csv", "--target", "y", *SMALL, folder=tmp_path)
    assert stopped.returncode == 130 and "taken as right" in stopped.stdout


def test_numbers_are_not_cut_off_in_a_narrow_terminal(tmp_path):
    wide, narrow = (
        mgce("compare", "iris", *SMALL, "--methods", "ce_eps+mae,ce+trim", folder=tmp_path, columns=columns)
        for columns in (200, 40)
    )
    tables = [
        [line.split() for line in done.stdout.splitlines() if line.lstrip().startswith(("method", "ce"))]
        for done in (wide, narrow)
    ]
    assert tables[0] == tables[1] and "…" not in narrow.stdout
    assert [row[0] for row in tables[0]] == ["method", "ce_eps+mae", "ce+trim"] and "trim" in tables[0][0]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--json", "table.csv"], "Expected `json` to be the path of a file that nothing else uses"),
        (["--json", "./table.csv"], "Expected `json` to be the path of a file that nothing else uses"),
        (
            ["--json", "old/../table.csv"],
            "Expected `json` to be the path of a file that nothing else uses",
        ),
        (
            ["--out-dir", "."],
            "Expected `out_dir` to be a folder with a file table.csv that nothing else uses",
        ),
        (
            ["--out-dir", "new", "--json", "new"],
            "Expected `json` to be the path of a file that nothing else uses",
        ),
        (
            ["--out-dir", "new", "--json", "new/runs.json"],
            "Expected `json` to be the path of a file that nothing else uses",
        ),
        (
            ["--json", "mgce-compare-table/accuracy.png"],
            "Expected `json` to be the path of a file that nothing else uses",
        ),
        (
            ["--out-dir", "old"],
            "Expected `out_dir` to be the path of a file, but got 'old/runs.json, which is a folder'.",
        ),
        (["--json", "old"], "Expected `json` to be the path of a file, but got 'old, which is a folder'."),
    ],
)
def test_no_output_replaces_the_table_or_another(tmp_path, arguments, sentence):
    (tmp_path / "table.csv").write_text("x,y\n" + "1,a\n2,b\n" * 30)
    (tmp_path / "old" / "runs.json").mkdir(parents=True)
    before = {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}
    result = mgce("compare", "table.csv", "--target", "y", "--seeds", "1", "--epochs", "1", *arguments, folder=tmp_path)
    assert result.returncode == 2 and sentence in result.stderr, result.stderr
    assert {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["nowhere"], "Error: Expected `dataset` to be one of 'digits'"),
        (["nowhere.csv"], "Error: Expected `dataset` to be the path of a file that exists"),
        (["t.csv", "--target", "z"], "Error: Expected `target` to be a column of t.csv (x, y), but got 'z'."),
        (["t.csv", "--target", "y"], "Error: Expected `dataset` to be a data set with enough rows of every class"),
        (["iris", "--noise-rate", "1.5"], "Error: Expected `noise_rate` to be a float in [0, 1], but got 1.5."),
        (["iris", "--device", "nowhere"], "Error: Expected `device` to be a device that this PyTorch can use"),
        (["iris", "--trims", "1"], "Error: Expected `trims` to be below 1"),
        (["iris", "--trims", "0.2,0.2"], "Error: Expected `trims` to be one or more values, none of them twice"),
        (
            ["iris", "--lr", "1e20", "--epochs", "30", "--seeds", "1"],
            "Error: Expected `lr` to be so small that training",
        ),
        (["iris", "--betas", "0.5"], "Error: Expected `beta` to be a float in [1, inf], but got 0.5."),
        (["iris", "--betas", "1.4,x"], "Error: Expected `betas` to be numbers"),
    ],
)
def test_bad_input_is_one_sentence_exit_code_2_and_no_file(tmp_path, arguments, sentence):
    (tmp_path / "t.csv").write_text("x,y\n" + "1,a\n" * 9 + "2,b\n")
    result = mgce("compare", *arguments, folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(sentence) and result.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


# The command, which says on its standard error when the first epoch is done.
WATCHED = """
import sys
from mgce_lab.cli import compare, main

run = compare.run

def watched(*arguments, on_epoch, **options):
    def report(done, total):
        if done == 1:
            print("training", file=sys.stderr, flush=True)
        on_epoch(done, total)

    return run(*arguments, on_epoch=report, **options)

compare.run = watched
sys.argv = ["mgce", "compare", "digits", "--epochs", "100000"]
main.main()
"""


@pytest.mark.nightly
def test_interrupt_leaves_no_file_and_says_so(tmp_path):
    # A shell's background jobs ignore SIGINT, and so would what they start.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", WATCHED], cwd=tmp_path, preexec_fn=heed, **pipes)
    assert process.stderr.readline() == "training\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted: nothing was written." in output
    assert list(tmp_path.iterdir()) == []


def test_env_names_versions(tmp_path):
    result = mgce("env", folder=tmp_path)
    assert result.returncode == 0
    assert "torch" in result.stdout and "accelerator" in result.stdout
