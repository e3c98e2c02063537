"""A stage: cells that are measured one after the other, as far as the time goes, and written as each comes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
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

    No cell is begun when less time is left than the longest took so far, in this run or before; one whose processes
    are stopped at the end of the time has no result.

    Args:
        name: of the stage.
        cells: what to measure.
        path: JSON file of the stage, which holds what was measured before.
        seconds: how long this may take.
        facts: gives the machine, its clocks among it.

    Raises:
        ValueError: if the file holds results of another machine.
    """
    end = time.monotonic() + seconds
    machine = facts()
    results = _read(path, name, machine)
    for key in _missing(cells, results):
        left = end - time.monotonic()
        if left < max((cell["taken"] for cell in results["cells"].values()), default=0.0):
            break
        start = time.monotonic()
        try:
            found = cells[key](Progress(left, results["cells"]))
        except TimeoutExpired:
            break
        clocks = {"before": machine[CLOCKS], "after": facts()[CLOCKS]}
        results["cells"][key] = {**found, "taken": time.monotonic() - start, CLOCKS: clocks}
        _write(path, results)
        print(f"{name}: {key}: {results['cells'][key]['taken']:.0f} s", flush=True)
    missing = len(list(_missing(cells, results)))
    print(f"{name}: {len(cells) - missing} of {len(cells)} cells are measured", flush=True)
    return missing == 0


def _missing(cells: Cells, results: Mapping[str, Any]) -> Iterator[str]:
    return (key for key in cells if key not in results["cells"])


def _read(path: Path, name: str, machine: Mapping[str, str]) -> dict[str, Any]:
    constant = {fact: value for fact, value in machine.items() if fact != CLOCKS}
    if not path.exists():
        return {"stage": name, "machine": constant, "cells": {}}
    results: dict[str, Any] = json.loads(path.read_text())
    if results["machine"] != constant:
        then = results["machine"]
        differ = ", ".join(sorted(fact for fact in {*constant, *then} if constant.get(fact) != then.get(fact)))
        raise ValueError(f"Expected {path} to hold results of this machine, but got another ({differ}): move it away.")
    return results


def _write(path: Path, results: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n")
