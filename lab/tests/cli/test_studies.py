from collections import Counter
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mgce_lab.cli.report import report
from mgce_lab.cli.reproduce import reproduce
from mgce_lab.engine.store import Runs


def run(command, *arguments):
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.fixture
def read(monkeypatch):
    """How often each file was read."""
    counts, read_text = Counter(), Path.read_text

    def counting(path, *arguments, **keywords):
        counts[path] += 1
        return read_text(path, *arguments, **keywords)

    monkeypatch.setattr(Path, "read_text", counting)
    return counts


def test_a_command_reads_what_is_finished_once(tmp_path, read):
    smoke = ["table3", "--smoke", "--dataset", "wine", "--seeds", "1", "--jobs", "1", "--noise-rate", "0.2"]
    run(reproduce, *smoke, "--methods", "ce", "--out-dir", tmp_path)
    (first,) = (tmp_path / "runs").iterdir()
    for command, *arguments in (
        (reproduce, *smoke, "--methods", "ce", "--out-dir", tmp_path),  # nothing is left to run
        (reproduce, *smoke, "--methods", "ce,mae", "--out-dir", tmp_path),
        (report, tmp_path),
    ):
        read.clear()
        run(command, *arguments)
        files = {path: count for path, count in read.items() if tmp_path in path.parents}
        assert {tmp_path / name for name in Runs.PACKED} | set(first.iterdir()) <= files.keys()
        assert set(files.values()) == {1}
    assert len(Runs(tmp_path).read()) == 2
