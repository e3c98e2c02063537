"""`mgce_lab.soak faults`: wherever a command is killed or the disk is full, no result is lost and none half there."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from mgce._machine import describe
from mgce_lab.soak import commands, reliability
from mgce_lab.soak.commands import COMMANDS, Outcome

WORK = Path("build/soak/faults")
NOBODY = 65534
Result = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--faults", type=int, default=4, help="kills, and full disks, of each command; at most one at each of its calls"
    )
    parser.add_argument("--commands", help="names, with commas between them; all of them")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the shim and of the faults that are done")
    parser.add_argument("--record", metavar="WHEN", choices=("before", "after"), help=f"write {reliability.RESULTS}")


def main(options: argparse.Namespace) -> int:
    """Run it; 1 if something was lost."""
    commands.preload(commands.build(options.work))
    commands.import_all()
    names = options.commands.split(",") if options.commands else list(COMMANDS)
    results: Result = {"commands": {}, "read-only": {}}
    for name in names:
        results["commands"][name] = _faults_of(name, options)
        shown = {kind: found for kind, found in results["commands"][name].items() if kind != "bad"}
        print(f"{name:10}", shown, *results["commands"][name]["bad"][:3], sep="\n  ", flush=True)
        results["read-only"][name] = _read_only(name)
        print(f"{name:10} in a place of another user: {results['read-only'][name]}", flush=True)
    results["determinism"] = _determinism()
    print("Files of one fit in other circumstances:", results["determinism"])
    if options.record:
        reliability.write("faults", options.record, {"machine": describe(), **results})
    lost = sum(len(result["bad"]) for result in results["commands"].values())
    return 1 if lost or "traceback" in results["read-only"].values() or not all(results["determinism"].values()) else 0


def _faults_of(name: str, options: argparse.Namespace) -> Result:
    """Inject faults at calls that change files, spread evenly over those of a command; each at most once."""
    with tempfile.TemporaryDirectory() as base:
        whole = Path(base, "whole")
        _prepare(name, whole)
        reference = commands.run(COMMANDS[name], whole)
        if reference.code != 0:
            raise RuntimeError(f"{name} fails without any fault: {reference.said}")
        expected = _files(whole)
        result: Result = {"calls": reference.calls, "kills": 0, "full disks": 0, "outcomes": {}, "bad": []}
        outcomes: Counter[str] = Counter()
        count = min(options.faults, reference.calls)  # all calls, where they are fewer
        for kind in ("kills", "full disks"):
            for number in range(count):
                at = 1 + number * reference.calls // count
                done = _one(name, at, kind, expected, options.work)
                outcomes.update(done["outcomes"])
                result[kind] += 1
                result["bad"] += [f"{kind} at call {at}: {what}" for what in done["bad"]]
        result["outcomes"] = dict(outcomes)
        return result


def _one(name: str, at: int, kind: str, expected: dict[str, bytes], work: Path) -> Result:
    """Let one fault happen, look at what is there, run the command again, and compare with a run without faults."""
    path = work / name / f"{kind.replace(' ', '-')}-{at}.json"
    if path.exists():
        known: Result = json.loads(path.read_text())
        return known
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base, "whole")
        _prepare(name, folder)
        before = _files(folder)
        fault = commands.run(COMMANDS[name], folder, at=at, full=kind != "kills")
        bad = _wrong_after(kind, fault) + _half_there(_files(folder), before, expected)
        kept = _finished(folder)
        again = commands.run(COMMANDS[name], folder)
        if again.code != 0:
            bad.append(f"the same command fails afterwards: {_last(again)}")
        else:
            bad += _differences(_files(folder), expected)
        bad += [f"finished run {run} was done again" for run in kept if _finished(folder).get(run) != kept[run]]
        ended = "killed" if fault.code == -9 else "one sentence" if fault.code == 2 else f"exit {fault.code}"
    done = {"outcomes": {f"{kind}: {ended}": 1}, "bad": bad}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(done))
    return done


def _prepare(name: str, folder: Path) -> None:
    """Make the folder that a command begins in; what others have to do before is done once."""
    folder.mkdir(parents=True)
    commands.people(folder)
    needed = {"predict": "fit", "report": "sweep"}.get(name)
    if needed:
        shared = Path(tempfile.gettempdir(), f"mgce-soak-{os.getpid()}-{needed}")
        if not shared.exists():
            _prepare(needed, shared)
            commands.run(COMMANDS[needed], shared)
        wanted = {"fit": "people.mgce", "sweep": "out"}[needed]
        if needed == "sweep":
            (folder / "runs").mkdir()
            shutil.copytree(shared / "out" / "runs", folder / "runs" / "runs")
        else:
            shutil.copy(shared / wanted, folder / wanted)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _is_temporary(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def _half_there(found: dict[str, bytes], before: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    """Name the files whose content is neither the earlier nor the new one; temporary files are not counted."""
    bad = []
    for name, content in found.items():
        if _is_temporary(name) or "scratch" in Path(name).parts or name.endswith(commands.VARIES):
            continue
        if content not in (before.get(name), expected.get(name)):
            bad.append(f"{name} is half there")
    return bad


def _differences(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    """Name the files that a run after a fault should not have left, or should have made otherwise."""
    left = [f"{name} is left" for name in found.keys() - expected.keys()]
    missing = [f"{name} is missing" for name in expected.keys() - found.keys()]
    both = found.keys() & expected.keys()
    other = [name for name in both if not name.endswith(commands.VARIES) and found[name] != expected[name]]
    return left + missing + [f"{name} differs" for name in other]


def _finished(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (folder / "out" / "runs").glob("[!.]*/records.jsonl")}


def _wrong_after(kind: str, fault: Outcome) -> list[str]:
    if kind == "kills":
        return [] if fault.code in (-9, 0) else [f"exit {fault.code} where it was to be killed: {_last(fault)}"]
    fine = fault.code == 0 or (fault.code == 2 and "Error: " in fault.said and "Traceback" not in fault.said)
    return [] if fine else [f"exit {fault.code} on a full disk: {_last(fault)}"]


def _last(outcome: Outcome) -> str:
    return (outcome.said.strip().splitlines() or [""])[-1][:200]


def _read_only(name: str) -> str:
    """Run a command as a user who may not write into its folder; return how it ended."""
    if os.geteuid() != 0:
        return "not tried: needs root"
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base, "whole")
        _prepare(name, folder)
        for path in (Path(base), folder):
            path.chmod(0o755)
        outcome = commands.run(COMMANDS[name], folder, user=NOBODY)
    return "one sentence" if outcome.code == 2 and "Traceback" not in outcome.said else f"traceback: {_last(outcome)}"


def _determinism() -> dict[str, bool]:
    """Fit in new processes; tell for each change of circumstances whether the files have the same bytes."""

    def model(**environment: str) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            commands.people(Path(name))
            clean = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
            # All models; without a limit of time, which would let the speed of the machine decide.
            command = [sys.executable, "-m", "mgce", "fit", "people.csv", "--target", "y"]
            subprocess.run(command, cwd=name, env={**clean, **environment}, check=True, stdout=subprocess.DEVNULL)
            return Path(name, "people.mgce").read_bytes()

    first = model(PYTHONHASHSEED="0", OMP_NUM_THREADS="1")
    return {
        "another hash seed": model(PYTHONHASHSEED="1", OMP_NUM_THREADS="1") == first,
        "two threads": model(PYTHONHASHSEED="0", OMP_NUM_THREADS="2") == first,
    }
