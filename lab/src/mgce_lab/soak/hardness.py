"""The parts of the page on files, faults, load and mutants, from what their runs have found."""

from __future__ import annotations

from typing import Any

from mgce_lab.soak import reliability
from mgce_lab.soak.load import LOADS
from mgce_lab.studies.markdown import machine_line, table

Results = dict[str, Any]
BAD = ("crash", "hang", "memory", "traceback")
FILES = """
damaged files were opened by the readers of the package. The damaged files were made from good files by changes of
bytes, numbers, words, lengths and members, also inside archives whose checksums were then corrected. A reader may
return a value, or refuse a damaged file in one sentence.
"""
HAND_MADE = """
Some small files were made by hand to fill the memory or to crash the reader. Each of these files was opened in a
separate process, with 6 GB of memory and one minute of time. “Before” and “after” are the outcomes before and after
the reader was repaired:
"""
MATLAB = """
The row `mat` of the table is a reader of MATLAB files that the package no longer contains. SciPy now reads MATLAB
files, and only files with the published checksum. A changed MATLAB file is refused before it is read.
"""
FAULTS = """
A library between Python and the operating system counts the calls by which a command changes files: create, write,
sync, rename and remove. At one of these calls the library kills the process in the middle of a write, or reports a
full disk from then on. The fault is tried at every call, or at evenly spaced calls if a command makes many. After the
fault, no file may be incomplete. The command, run again, has to produce exactly the files of a run without faults,
and must not repeat a finished run.
"""
OTHER_BYTES = (
    " Earlier versions wrote different bytes in every fit. So each injected fault of `mgce fit` counts as bad for them."
)
FORK = """
**Do not fork after PyTorch has used threads.** The forked process has no threads, and waits for ever when PyTorch
asks for them. A loss or prediction of this package asks for threads if it is large: for the estimators, above ten
million numbers. Start worker processes by `spawn` or `forkserver`. Alternatively, call `torch.set_num_threads(1)`
first in a forked worker.
"""
MUTANTS = """
The tests were checked by mutation testing: a copy of the source gets one small wrong change at a time, and the tests
should fail. A change replaces an operator, moves a number by one, swaps `and` and `or`, negates a condition, or swaps
`max` and `min`. Other changes alter a returned value or a default, or leave a statement out. A *room* is a subpackage
of `mgce`. For each change, only tests of the room that execute the changed line were run. A test that exceeds its
time limit counts as a failure. A change that only tests of other rooms would notice counts as not noticed.
"""
DRAWN = """
The wrong changes are a random sample of all possible changes in a room. “Noticed before” is the share of the first
changes of the sample that the tests noticed at the start. The interval in brackets (95 %, Clopper and Pearson) holds
for all changes of the room. Later, tests were added for the unnoticed changes that mattered. “Noticed after”
therefore describes the sample, and not the whole room. “Equivalent” changes are changes that no test could notice.
Equivalent changes were judged by hand and are not counted; `soak/equivalent_mutants.json` lists them with reasons.
The quick tier is `pytest -m 'not slow and not nightly'`.
"""


def sections() -> list[str]:
    """Return the parts of the page, one of each kind of which there are results."""
    parts: list[str] = []
    for kind, render in (("files", _files), ("faults", _faults), ("load", _load), ("mutants", _mutants)):
        results = reliability.read(kind)
        if "after" in results:
            parts += render(results.get("before", {}), results["after"])
    return parts


def _files(before: Results, after: Results) -> list[str]:
    tried = [part for one in after["readers"].values() for part in (one, one.get("guided")) if part]
    failures = sum(part.get("outcomes", {}).get(kind, 0) for part in tried for kind in BAD)
    rows = []
    for name, one in after["readers"].items():
        counts = [f"{one['outcomes'].get(kind, 0):,}" for kind in ("value", "sentence")]
        then = before.get("readers", {}).get(name)
        guided = _bad(one.get("guided"))
        rows.append([name, _bad(then), f"{one['files']:,}", *counts, _bad(one), guided])
    attacks = [
        [name, f"{one['bytes']:,}", _attack(before.get("attacks", {}).get(name)), _attack(one)]
        for name, one in after.get("attacks", {}).items()
    ]
    return [
        "## No file does harm",
        f"{sum(part['files'] for part in tried):,} {_joined(FILES)} **{failures or 'None'} of the files** caused a "
        "crash or a traceback, or took more than 20 seconds or 1.5 GB.",
        f"{_machine(after)} `python -m mgce_lab.soak files --files 1e5 --guided 1e4 --jobs 2 --record "
        "after` repeats this test "
        "and writes this page. “Failed before” counts failures before the readers were repaired. The changes of the "
        "*guided* files were chosen by the fuzzer atheris, by the code that they reach.",
        table(["reader", "failed before", "files", "read", "refused", "failed", "failed, guided"], rows),
        _joined(HAND_MADE),
        table(["file", "bytes", "before", "after"], attacks),
        *([_joined(MATLAB)] if "mat" in after["readers"] else []),
    ]


def _bad(one: Results | None) -> str:
    if one is None or not one["files"]:
        return "not tried"
    kinds = [f"{one['outcomes'][kind]:,} {kind}" for kind in BAD if one["outcomes"].get(kind)]
    return f"{', '.join(kinds) or '0'} of {one['files']:,}"


def _attack(one: Results | None) -> str:
    if one is None:
        return "not tried"
    words = {"sentence": "refused", "value": "read", "memory": "fills the memory", "hang": "does not end"}
    how = words.get(one["outcome"], one["outcome"])
    return f"{how}, {one['seconds']:g} s, {one['megabytes']:,} MB"


def _faults(before: Results, after: Results) -> list[str]:
    rows = []
    for name, one in after["commands"].items():
        then = before.get("commands", {}).get(name)
        was = "not tried" if then is None else f"{_lost(then)} of {then['kills'] + then['full disks']}"
        counts = [str(one[kind]) for kind in ("calls", "kills", "full disks")]
        rows.append([name, was, *counts, str(_lost(one)), after["read-only"].get(name, "not tried")])
    lost = sum(_lost(one) for one in after["commands"].values())
    equal = {True: "the same bytes", False: "OTHER BYTES"}
    same = ", ".join(f"{name}: {equal[found]}" for name, found in after["determinism"].items())
    return [
        "## No fault loses a result",
        f"{_joined(FAULTS)} **{lost or 'None'}** of the faults was bad. A fault is bad if a file is lost or left over, "
        "or if the command ends in anything other than one sentence.",
        f"{_machine(after)} `python -m mgce_lab.soak faults --faults 100 --record after` repeats this "
        "test. “Bad before” counts "
        "bad faults before the commands were repaired.",
        table(["command", "bad before", "calls", "kills", "full disks", "bad", "in a place of another user"], rows),
        f"A model was fitted with one seed and saved twice more, under two other conditions. The saved file under each "
        f"condition: {same}." + ("" if all(before.get("determinism", {}).values()) else OTHER_BYTES),
    ]


def _lost(one: Results) -> int:
    """Count the faults of which something was lost or left; of one fault several things may be."""
    return len({what.partition(":")[0] for what in one["bad"]})


def _load(before: Results, after: Results) -> list[str]:
    rows = []
    for name, one in after["loads"].items():
        then = before.get("loads", {}).get(name)
        rows.append([str(LOADS[name].__doc__).split("\n")[0], _figures(then), _figures(one)])
    return [
        "## Load",
        f"{_machine(after)} `python -m mgce_lab.soak load --scale 1 --record after` measures the load "
        "again, at the sizes "
        "in the first column. The columns “before” and “after” name the measured sizes, before and after the code was "
        "repaired.",
        table(["load", "before", "after"], rows),
        _joined(FORK),
    ]


def _figures(one: Results | None) -> str:
    if one is None:
        return "not tried"
    figures = ", ".join(f"{name} {value}" for name, value in one.items() if name not in ("ok", "wall_s"))
    return figures + ("" if one.get("ok") else " (FAILED)")


def _mutants(before: Results, after: Results) -> list[str]:
    rows = []
    for room, one in after["rooms"].items():
        then = before.get("rooms", {}).get(room)
        quick = _percent(one["quick"], one["tried"])
        rows.append([room, str(one["tried"]), str(one["equivalent"]), _noticed(then), _noticed(one), quick])
    return [
        "## Tests that notice",
        _joined(MUTANTS),
        f"{_joined(DRAWN)} {_machine(after)} `python -m mgce_lab.soak mutants --per-room {max(_drawn(after))} --seed "
        f"{after['seed']} --record after` repeats the test, and continues after an interruption.",
        table(["room", "changes", "equivalent", "noticed before", "noticed after", "by the quick tier"], rows),
    ]


def _noticed(one: Results | None) -> str:
    if one is None:
        return "not tried"
    low, high = one["interval"]
    share = _percent(one["caught"], one["tried"])
    return f"{one['caught']} of {one['tried']}: {share} ({100 * low:.0f} to {100 * high:.0f})"


def _drawn(results: Results) -> list[int]:
    return [one["drawn"] for one in results["rooms"].values()]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"


def _joined(text: str) -> str:
    return " ".join(text.split())


def _machine(results: Results) -> str:
    return f"{machine_line(results['machine'])} {results.get('note', '')}".rstrip()
