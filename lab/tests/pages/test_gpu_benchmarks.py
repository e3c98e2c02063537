"""The stages of the benchmarks on a GPU, as far as there need be none: plans, what goes on, and pages."""

import functools
import itertools
import json
import math
import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from mgce.functional import mgce_loss
from mgce_lab.engine.place import Place
from mgce_lab.engine.specification import document
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.paper.images import SMOKE, ImageRun
from mgce_lab.studies.gpu import heads, kernels, losses, page, replay, stages, training

MACHINE = {"gpu": "one", "driver": "1", "clocks": "10 MHz"}
CELL = {"taken": 1.0, "clocks": {"before": "10 MHz", "after": "10 MHz"}}


def run(cells, path, seconds=60.0, **changed):
    return stages.run("losses", cells, path, seconds, lambda: {**MACHINE, **changed})


def test_a_stage_goes_on_where_it_was(tmp_path):
    seen, path = [], tmp_path / "new" / "losses.json"

    def cell(name, progress):
        seen.append((name, sorted(progress.cells)))
        if seen[-1][0] == "second" and len(seen) == 2:
            raise KeyboardInterrupt
        return {"value": name}

    cells = {name: functools.partial(cell, name) for name in ("first", "second", "third")}
    with pytest.raises(KeyboardInterrupt):
        run(cells, path)
    assert list(json.loads(path.read_text())["cells"]) == ["first"]
    assert run(cells, path, clocks="20 MHz")
    assert seen == [("first", []), ("second", ["first"]), ("second", ["first"]), ("third", ["first", "second"])]
    results = json.loads(path.read_text())
    assert results["stage"] == "losses" and results["machine"] == {"gpu": "one", "driver": "1"}
    assert [cell["value"] for cell in results["cells"].values()] == ["first", "second", "third"]
    assert results["cells"]["first"]["clocks"] == {"before": "10 MHz", "after": "10 MHz"}
    assert results["cells"]["third"]["clocks"]["before"] == "20 MHz" and results["cells"]["third"]["taken"] >= 0


def test_a_cell_that_fails_keeps_no_other_from_being_measured(tmp_path, capsys):
    path, fails, seen = tmp_path / "losses.json", [True], []

    def cell(name, progress):
        seen.append(name)
        if name == "first" and fails:
            raise RuntimeError("no such\nkernel")
        return {}

    cells = {name: functools.partial(cell, name) for name in ("first", "second", "third")}
    assert not run(cells, path)
    assert "2 of 3 cells" in capsys.readouterr().out
    results = json.loads(path.read_text())
    assert list(results["cells"]) == ["second", "third"] and results["failed"] == {
        "first": "RuntimeError: no such\nkernel"
    }
    assert "Failed: first: `RuntimeError: no such kernel`" in page.render({"losses": results})
    fails.clear()
    assert run({"first": cells["first"], "fourth": functools.partial(cell, "fourth")}, path)
    assert seen == ["first", "second", "third", "fourth", "first"]  # what failed before comes last
    assert json.loads(path.read_text())["failed"] == {}


def test_a_stage_ends_with_its_device(tmp_path):
    """A fault that spoils the device for the process ends the stage, with what was measured before it written."""
    path, lost = tmp_path / "losses.json", []

    def facts():
        if lost:
            raise RuntimeError("CUDA error: unspecified launch failure")
        return dict(MACHINE)

    def fault(progress):
        lost.append(True)
        raise RuntimeError("CUDA error: unspecified launch failure")

    cells = {"a": lambda progress: {}, "b": fault, "c": lambda progress: {}}
    with pytest.raises(RuntimeError, match="unspecified"):
        stages.run("losses", cells, path, 60.0, facts)
    results = json.loads(path.read_text())
    assert list(results["cells"]) == ["a"] and list(results["failed"]) == ["b"]


def test_a_stage_ends_in_time(tmp_path):
    """No cell is begun in less time than the one before took; one that is stopped has no result."""
    path = tmp_path / "losses.json"
    cells = {str(number): lambda progress: time.sleep(0.2) or {} for number in range(9)}
    start = time.monotonic()
    assert not run(cells, path, seconds=0.7)
    assert time.monotonic() - start < 1.5
    assert 1 <= len(json.loads(path.read_text())["cells"]) <= 3

    def stopped(progress):
        raise subprocess.TimeoutExpired("pytest", progress.left)

    other = tmp_path / "tests.json"
    assert not stages.run("tests", {"a": lambda progress: {}, "b": stopped}, other, 60.0, lambda: dict(MACHINE))
    assert list(json.loads(other.read_text())["cells"]) == ["a"]


def test_results_of_two_machines_are_not_mixed(tmp_path):
    path = tmp_path / "losses.json"
    assert run({"a": lambda progress: {}}, path)
    with pytest.raises(ValueError, match=r"results of this machine, but got another \(driver\): move it away"):
        run({"a": lambda progress: {}}, path, driver="2")


def test_every_cell_has_a_name_of_its_own():
    shapes = len(losses.SHAPES) * len(losses.DTYPES) * len(losses.SCALES)
    assert len(losses.cells()) == 1 + shapes
    assert len(heads.cells()) == 1 + len(heads.HEADS) * len(heads.SCALES)
    assert next(iter(losses.cells())) == "copy" and next(iter(heads.cells())) == "launch"
    assert len(kernels.cells()) == len(kernels.TESTS) + len(kernels.TOOLS)
    assert list(training.cells(None)) == [
        "tables",
        *(f"images, {name}" for name in ("float32", "bfloat16", "compiled")),
    ]


def test_what_a_report_of_tests_says():
    report = """<testsuites><testsuite errors="1" failures="1" skipped="1" tests="5">
      <testcase name="a"/><testcase name="b"><failure message="off by 3 eps">...</failure></testcase>
      <testcase name="c"><skipped message="no GPU"/></testcase><testcase name="d"/>
      <testcase name="e"><error message="gone"/></testcase></testsuite></testsuites>"""
    failures = {"b": "off by 3 eps", "e": "gone"}
    assert kernels.counts(report) == {"passed": 2, "failed": 2, "skipped": 1, "failures": failures}


def test_each_group_of_tests_has_tests():
    """The groups of one file are complements, so that every test of it is in one of them."""
    assert kernels.TESTS["hard rows"][1:] == ["-k", "hard_rows or margins"]
    assert kernels.TESTS["calls of every kind"][1:] == ["-k", "not hard_rows and not margins"]
    files = [argument for chosen in kernels.TESTS.values() for argument in chosen if argument.endswith(".py")]
    assert all((kernels.ROOT / file).exists() for file in files)
    for file in kernels.TESTS["metrics, noise, tables"][:-2]:
        assert re.search(r"def test_\w*(gpu|accelerator)", (kernels.ROOT / file).read_text())


@pytest.mark.slow
def test_a_command_that_is_stopped_leaves_nothing_running(tmp_path):
    """Also what it has started itself, as the sanitizer starts the program that it watches."""
    beats = tmp_path / "beats"
    inner = f"import time\nwhile True: open({str(beats)!r}, 'a').write('.'); time.sleep(0.02)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with pytest.raises(subprocess.TimeoutExpired):
        kernels._run([sys.executable, "-c", outer], 2.0)
    written = beats.stat().st_size
    time.sleep(0.3)
    assert written == beats.stat().st_size > 0
    assert kernels._run([sys.executable, "-c", "print('said'); raise SystemExit(9)"], 60.0) == (9, "said\n")


PROGRESS = stages.Progress(60.0, {})


@pytest.fixture
def on_cpu(monkeypatch):
    """Have the cells run on the CPU, each call once: what they measure means nothing, but they measure it."""

    def seconds(calls):
        for call in calls:
            call()
        return [1.0] * len(calls)

    for module in (heads, losses, training):
        monkeypatch.setattr(module, "DEVICE", "cpu")
    for module, clock in itertools.product((heads, losses), ("device_seconds", "wall_seconds")):
        monkeypatch.setattr(module, clock, seconds)
    monkeypatch.setattr(heads, "peak_bytes", lambda call: call() or 2**20)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where Triton's interpreter subtracts infinities
def test_the_cells_of_losses_measure_every_contestant(on_cpu, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(losses, "mgce_loss", lambda *a, backend="cpu", **k: mgce_loss(*a, **k))
    monkeypatch.setattr(losses, "BETAS", (1.4,))
    cell = losses.measure(2, 20, "bfloat16", 1.0)
    assert list(cell["seconds"]) == [*page.CROSS_ENTROPIES[:2], "1.4"] and not cell["failed"]
    assert cell["bytes_per_second"] == 2 * 2 * 20 * 2  # in the second that every call takes here


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_cells_of_heads_measure_time_memory_and_error(on_cpu, monkeypatch):
    pytest.importorskip("triton")
    assert set(heads.measure_launch()["seconds"]) == {"cross_entropy", "mgce_loss"}
    cell = heads.measure(8, 4, 40, 8.0)
    assert {"linear_mgce_loss", "cross_entropy, unfused"} <= set(cell["contestants"]) <= set(page.HEADS)
    for name, found in cell["contestants"].items():  # of bfloat16's rounding: in logits, products and the result
        assert 0 < found["error"] < 0.1, name
    assert 0 < cell["rounded"]["1.4"] < torch.finfo(torch.bfloat16).eps
    text = page.render({"heads": {"machine": MACHINE, "cells": {"head 8192 x 2048 x 128000, s = 3": cell}}})
    assert "| linear_mgce_loss |  | 1000.0; 0.00; " in text


def test_a_contestant_that_fails_is_said_to(on_cpu):
    working, failed = losses.try_each({"a": 1, "b": 0}, lambda number: 1 / number)
    assert list(working) == ["a"] and failed == {"b": "ZeroDivisionError: division by zero"}


def test_networks_at_once_are_measured(on_cpu, monkeypatch):
    for name, value in {"GROUPS": 2, "MEMBERS": 2, "ALONE": 1, "ROWS": 20, "EPOCHS": 1}.items():
        monkeypatch.setattr(training, name, value)
    cell = training.networks_at_once(PROGRESS)
    assert cell["networks"] == 4 and cell["times"] == pytest.approx(4 * cell["alone"] / cell["together"])


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_images_are_trained_and_counted(on_cpu, monkeypatch):
    pytest.importorskip("lightning")
    pytest.importorskip("tensorboard")
    monkeypatch.setattr(training, "DATASET", "digits")
    monkeypatch.setattr(training, "PAPER", {"digits": replace(ImageSettings(), **SMOKE)})
    monkeypatch.setattr(training, "MACHINES", {"compiled": ("32-true", False)})
    speed = training.images_per_second(None, "compiled", PROGRESS)
    assert 1000 < speed["images"] < 1797 and speed["images_per_second"] > 0 and speed["first_epoch"] > 0


def measured(n, k, dtype, scale):
    names = ["cross_entropy", "cross_entropy, compiled", "1.05", "1.4"]
    device = dict(zip(names, (2e-3, 1e-3, 3e-3, 8e-4), strict=True))
    seconds = {name: {"device": value, "wall": value} for name, value in device.items()}
    cell = {"n": n, "k": k, "dtype": dtype, "scale": scale, "seconds": seconds, "bytes_per_second": 1e12}
    return {**cell, "failed": {}, **CELL}


def test_what_was_measured_is_on_the_page():
    cells = {
        "copy": {"bytes_per_second": 2e12, **CELL},
        "a": measured(64, 128000, "bfloat16", 10.0),
    }
    text = page.render({"losses": {"machine": {"gpu": "one"}, "cells": cells}})
    assert "| measured | on: gpu |" in text and "| losses | one |" in text
    assert "| 64 x 128000 | 10 | 0.50 | 0.40 |  |  |" in text
    assert "| `mgce_loss` | 0.80 |  |  |" in text
    launched = {name: {"forward": 1e-5, "both": 3e-5} for name in ("cross_entropy", "mgce_loss")}
    text_of_heads = page.render({"heads": {"machine": {}, "cells": {"launch": {"seconds": launched}}}})
    assert "| mgce_loss | 10 | 30 |" in text_of_heads
    failures = {"x": "y", "z": "CUDA error: out of memory"}
    tests = {"hard rows": {"passed": 5, "failed": 2, "skipped": 0, "failures": failures}}
    tests["compute-sanitizer memcheck"] = {"returned": 9, "output": "..."}
    tests["compute-sanitizer racecheck"] = {"missing": "compute-sanitizer is not installed"}
    text = page.render({"tests": {"machine": {}, "cells": tests}})
    assert "| hard rows | 5 | 1 | 1 | 0 |" in text and "| compute-sanitizer memcheck | a fault |" in text
    assert "| compute-sanitizer racecheck | compute-sanitizer is not installed |" in text
    trained = {
        "images, compiled": {"images_per_second": 31234.5},
        "tables": {"times": 31.4},
    }
    text = page.render({"training": {"machine": {}, "cells": trained}})
    assert "compiled, images/s | 31234 |" in text and "| 31 times as fast |" in text


def test_what_was_not_measured_is_empty():
    text = page.render({})
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 6
    for line in (line for lines in tables for line in lines[2:]):
        assert not "".join(line.strip("| ").split(" | ")[1:]).strip(" |"), line


@pytest.mark.nightly
def test_networks_trained_side_by_side_are_those_that_lightning_trains(tmp_path):
    """The numbers of `mgce-lab reproduce`, and a training that time stops is the beginning of a longer one."""
    shared = {**SMOKE, "dataset": "digits", "noise_rate": 0.4, "seed": 1, "epochs": 3, "smoke": "table1"}
    runs = [ImageRun(**shared, method="mgce", beta=1.4), ImageRun(**shared, method="ce", beta=math.inf)]
    place = Place(precision="32-true")
    found = replay.run_group(runs, place, "32-true", 1e9, lambda done: None)
    for run, got in zip(runs, found, strict=True):
        assert got.specification == document(run) and got.machine["trained"] == "2 at once"
        (expected,) = run.run(place)
        (record,) = got.records
        assert record.keys() == expected.keys()
        for name in ("accuracy", "best_epoch", "validation_accuracy", "test_accuracy_by_epoch", "ece_h", "ece_p"):
            assert record[name] == pytest.approx(expected[name], abs=1e-5), name


def test_a_group_of_networks_is_written_in_one_line():
    runs, precision = replay.runs_of("fashion_mnist,imagenet,bf16-mixed,30,2,0.4:ce+mgce@1;0:gce")
    assert precision == "bf16-mixed"
    assert [(run.method, run.beta, run.noise_rate) for run in runs] == [
        ("ce", math.inf, 0.4),
        ("mgce", 1.0, 0.4),
        ("gce", 1.4, 0.0),
    ]
    assert {(run.stem, run.epochs, run.seed, run.architecture) for run in runs} == {("imagenet", 30, 2, "resnet18")}
