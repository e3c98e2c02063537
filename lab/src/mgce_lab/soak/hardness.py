"""The parts of the page on files, faults, load and mutants, from what their runs have found."""

from __future__ import annotations

from typing import Any

from mgce_lab.engine.markdown import machine_line, table
from mgce_lab.soak import reliability
from mgce_lab.soak.load import LOADS

Results = dict[str, Any]
BAD = ("crash", "hang", "memory", "traceback")
FILES = """
damaged files were opened by the readers of the package: good files with changed bytes, numbers, words, lengths and
members.
"""
HAND_MADE = """
Small files were made by hand to fill the memory or to crash the reader.
"""
FAULTS = """
At a call by which a command changes files, the process is killed in the middle of a write, or the disk becomes full.
On a full disk, the command must end with an error of one sentence. The command, run again, must produce exactly the
files of a run without faults, and must not repeat a finished run.
"""
MUTANTS = """
A copy of the source gets one small wrong change at a time, such as another operator or a number moved by one. A test
of the changed subpackage should fail.
"""
DRAWN = """
A room is a subpackage. Changes are drawn at random from all possible changes of a room. Changes that no test could
notice are not counted. “Noticed before” is the number of sampled changes at which a test failed. In brackets is a 95 %
interval for the share among all possible changes of the room. Then tests were added, so “noticed after” describes the
sample alone. For results with a *, only the quick tests ran.
"""


def sections() -> list[str]:
    """Return the parts of the page, one of each kind of which there are results."""
    parts: list[str] = []
    for kind, render in (("files", _files), ("faults", _faults), ("load", _load)):
        results = reliability.read(kind)
        if "after" in results:
            parts += render(results["after"])
    results = reliability.read("mutants")
    if "after" in results:
        parts += _mutants(results["after"], results.get("before", {}))
    return parts


def _files(after: Results) -> list[str]:
    tried = [part for one in after["readers"].values() for part in (one, one.get("guided")) if part]
    failures = sum(part.get("outcomes", {}).get(kind, 0) for part in tried for kind in BAD)
    rows = [
        [name, _bad(one), _bad(one.get("guided"))]
        for name, one in after["readers"].items()
        if _bad(one)[0] != "0" or _bad(one.get("guided"))[0] != "0"
    ]
    attacks = after.get("attacks", {})
    harm = [f"{name} ({one['outcome']})" for name, one in attacks.items() if one["outcome"] != "sentence"]
    return [
        "## No file does harm",
        f"{sum(part['files'] for part in tried):,} {_joined(FILES)} **{failures or 'None'} of the files** caused a "
        "crash or a traceback, or took more than 20 seconds or 1.5 GB.",
        f"{_machine(after)} `python -m mgce_lab.soak files --files 1e5 --guided 1e4 --jobs 2 --record "
        "after` repeats this test.",
        *([table(["reader", "failed", "failed, guided"], rows)] if rows else []),
        *([f"{_joined(HAND_MADE)} {_attacked([*attacks.values()], harm)}"] if attacks else []),
    ]


def _bad(one: Results | None) -> str:
    if one is None or not one["files"]:
        return "not tried"
    kinds = [f"{one['outcomes'][kind]:,} {kind}" for kind in BAD if one["outcomes"].get(kind)]
    return f"{', '.join(kinds) or '0'} of {one['files']:,}"


def _attacked(attacks: list[Results], harm: list[str]) -> str:
    if harm:
        return f"**Not refused: {', '.join(harm)}.**"
    slowest, largest = (max(one[name] for one in attacks) for name in ("seconds", "megabytes"))
    return f"Each was refused: the slowest after {slowest:g} s, and none took more than {largest:,} MB."


def _faults(after: Results) -> list[str]:
    rows = []
    for name, one in after["commands"].items():
        counts = [str(one[kind]) for kind in ("calls", "kills", "full disks")]
        rows.append([name, *counts, str(_lost(one))])
    lost = sum(_lost(one) for one in after["commands"].values())
    equal = {True: "the same bytes", False: "OTHER BYTES"}
    same = ", ".join(f"{name}: {equal[found]}" for name, found in after["determinism"].items())
    return [
        "## No fault loses a result",
        f"{_joined(FAULTS)} **{lost or 'No'}** fault broke one of these rules.",
        f"{_machine(after)} `python -m mgce_lab.soak faults --faults 100 --record after` repeats this test.",
        table(["command", "calls", "kills", "full disks", "bad"], rows),
        "If the folder belongs to another user, each of these commands ends with "
        f"{' or '.join(sorted({*after['read-only'].values()}))}.",
        f"A model was fitted with one seed and saved, then again under two other conditions: {same}.",
    ]


def _lost(one: Results) -> int:
    """Count the faults of which something was lost or left; of one fault several things may be."""
    return len({what.partition(":")[0] for what in one["bad"]})


def _load(after: Results) -> list[str]:
    rows = []
    for name, one in after["loads"].items():
        rows.append([str(LOADS[name].__doc__).split("\n")[0], _figures(one)])
    return [
        "## Load",
        f"{_machine(after)} `python -m mgce_lab.soak load --scale 1 --record after` measures again.",
        table(["load", "measured"], rows),
    ]


def _figures(one: Results) -> str:
    figures = ", ".join(f"{name} {value}" for name, value in one.items() if name not in ("ok", "wall_s"))
    return figures + ("" if one.get("ok") else " (FAILED)")


def _mutants(after: Results, before: Results) -> list[str]:
    then, now = before.get("rooms", {}), after["rooms"]
    rows = [[room, _noticed(then.get(room)), _noticed(now.get(room), interval=False)] for room in {**now, **then}]
    later = {room: one["mgce"] for room, one in {**now, **then}.items() if "mgce" in one}
    return [
        "## Tests that notice",
        _joined(MUTANTS),
        f"{_joined(DRAWN)} {_machine(after)} `python -m mgce_lab.soak mutants --per-room {max(_drawn(after))} --seed "
        f"{after['seed']} --record after` repeats the test.",
        table(["room", "noticed before", "noticed after"], rows),
        *([f"Tried with mgce {', '.join(sorted({*later.values()}))}: {', '.join(later)}."] if later else []),
    ]


def _noticed(one: Results | None, interval: bool = True) -> str:
    if one is None:
        return "not tried"
    low, high = one["interval"]
    by = "*" if one.get("tier") == "quick" else ""
    return f"{one['caught']} of {one['tried']}{by}" + (f" ({100 * low:.0f} to {100 * high:.0f} %)" if interval else "")


def _drawn(results: Results) -> list[int]:
    return [one["drawn"] for one in results["rooms"].values()]


def _joined(text: str) -> str:
    return " ".join(text.split())


def _machine(results: Results) -> str:
    return f"{machine_line(results['machine'])} {results.get('note', '')}".rstrip()
