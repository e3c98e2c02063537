"""A stage: cells that are measured one after the other, as far as the time goes, and written as each comes."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NamedTuple

from mgce._files import replacing

# Facts that change from one moment to the next; in all others two devices are told apart.
CLOCKS = "clocks"


class Progress(NamedTuple):
    """What a cell may want to know of the stage that it is in."""

    left: float  # seconds
    cells: Mapping[str, Mapping[str, Any]]  # the results that are there


Cells = Mapping[str, Callable[[Progress], dict[str, Any]]]  # what to measure, by name


def run(name: str, cells: Cells, path: Path, seconds: float, facts: Callable[[], dict[str, str]]) -> bool:
    """Measure the cells of a stage that have no result yet, and tell whether all of them have one now.

    No cell is begun when less time is left than the one measured before it took; one whose processes are stopped at the
    end of the time has no result. Neither has one that fails: what it said is written, the others go on, and the next
    run tries it again after those that it has not tried.

    Args:
        name: of the stage.
        cells: what to measure.
        path: JSON file of the stage, which holds what was measured before.
        seconds: how long this may take.
        facts: gives the machine, its clocks among it; raises if it can no longer be used.

    Raises:
        ValueError: if the file holds results of another machine.
        Exception: of `facts`, after a cell that spoiled the machine for this process.
    """
    end = time.monotonic() + seconds
    machine, taken = facts(), 0.0
    results = _read(path, name, machine)
    for key in _missing(cells, results):
        left = end - time.monotonic()
        if left < taken:
            break
        before, start = facts()[CLOCKS], time.monotonic()
        try:
            found = cells[key](Progress(left, results["cells"]))
        except TimeoutExpired:
            break
        except Exception as error:  # of a kernel, a compiler or a file: the others can be measured all the same
            traceback.print_exc()
            results["failed"][key] = f"{type(error).__name__}: {error}"[:1000]
            _write(path, results)
            facts()
            continue
        taken = time.monotonic() - start
        results["cells"][key] = {**found, "taken": taken, CLOCKS: {"before": before, "after": facts()[CLOCKS]}}
        results["failed"].pop(key, None)
        _write(path, results)
        print(f"{name}: {key}: {taken:.0f} s", flush=True)
    missing = len(_missing(cells, results))
    print(f"{name}: {len(cells) - missing} of {len(cells)} cells are measured", flush=True)
    return missing == 0


def _missing(cells: Cells, results: Mapping[str, Any]) -> list[str]:
    """Name the cells without a result, those that failed before last."""
    return sorted((key for key in cells if key not in results["cells"]), key=lambda key: key in results["failed"])


def _read(path: Path, name: str, machine: Mapping[str, str]) -> dict[str, Any]:
    constant = {fact: value for fact, value in machine.items() if fact != CLOCKS}
    if not path.exists():
        return {"stage": name, "machine": constant, "cells": {}, "failed": {}}
    results: dict[str, Any] = json.loads(path.read_text())
    if results["machine"] != constant:
        then = results["machine"]
        differ = ", ".join(sorted(fact for fact in {*constant, *then} if constant.get(fact) != then.get(fact)))
        raise ValueError(f"Expected {path} to hold results of this machine, but got another ({differ}): move it away.")
    results.setdefault("failed", {})
    return results


def _write(path: Path, results: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n")
