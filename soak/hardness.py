"""The parts of the page on files, faults, load and mutants, from what their runs have found."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import machine_line, table

from soak import reliability
from soak.load import LOADS

Results = dict[str, Any]
BAD = ("crash", "hang", "memory", "traceback")
FILES = """
files were given to the readers of the package. They were made from good files by changes of bytes, numbers, words,
lengths and members, also below the checksums of archives. Each may give a value, or refuse the file in one sentence.
"""
HAND_MADE = """
Small files were made by hand to run over the memory or to crash. Each was opened in a process of its own with 6 GB,
for a minute at most:
"""
MATLAB = """
MATLAB files were then read by a reader of this package. SciPy reads them now, and only files with the published
checksum. A changed file is refused before.
"""
FAULTS = """
A library between Python and the system counts the calls that change files in a command's folder: opening to create,
writing, syncing, renaming and removing. At one of these calls it kills the process, a write half done, or says that
the disk is full from now on. These calls are spread evenly, or every call is taken where there are few. Afterwards no
file may be half there. The same command has to end in the files of a run without faults, and to leave nothing else.
No finished run may be done twice.
"""
OTHER_BYTES = " Before, every fit wrote other bytes, and each of its faults counts as bad."
FORK = """
A process that is forked from one that has used PyTorch's threads has none of them, and waits for ever when it asks for
them. PyTorch does so, and so does any loss or prediction of this package that is large enough to be shared out: for the
estimators, more than ten million numbers, which the predictions above are not. Start workers by `spawn` or
`forkserver`, or call `torch.set_num_threads(1)` first in a worker that was forked.
"""
MUTANTS = """
Small wrong changes were made in a copy of the source, one at a time. A change takes another operator, moves a number
by one, swaps `and` and `or`, negates a condition, or swaps the largest and the smallest. Others change a returned
value or a default, or leave a statement out. Each was judged by those tests of its room that run the changed line,
which take a time limit for a failure. So what tests of other rooms would notice counts as not noticed.
"""
DRAWN = """
The changes are a sample drawn at random, by a seed, from all such changes of a room. The interval (95 %, Clopper and
Pearson) before tests were added is for the share of all of them. Then tests were added for what mattered, so that
what is noticed after says more of the sample than of the room. Changes that no test could notice were judged by hand
and are not counted; their list, with the reasons, is `soak/equivalent_mutants.json`. Before is of the first changes
of the sample, by the tests that were there. The quick tier is `pytest -m 'not slow and not nightly'`.
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
        f"{sum(part['files'] for part in tried):,} {_joined(FILES)} **{failures or 'None'} of them** ended in a crash "
        "or traceback, took 20 seconds, or more than 1.5 GB.",
        f"{_machine(after)} `python -m soak files --files 1e5 --guided 1e4 --jobs 2 --record after` does it again and "
        "writes this page; the changes of the guided files were chosen by atheris, by the code that they reach.",
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
        f"{_joined(FAULTS)} **{lost or 'None'}** of the faults was bad: lost or left "
        "something, or ended a command otherwise than by one sentence.",
        f"{_machine(after)} `python -m soak faults --faults 100 --record after` does it again.",
        table(["command", "bad before", "calls", "kills", "full disks", "bad", "in a place of another user"], rows),
        f"A model file of one seed, fitted in other circumstances: {same}."
        + ("" if all(before.get("determinism", {}).values()) else OTHER_BYTES),
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
        f"{_machine(after)} `python -m soak load --scale 1 --record after` does it again at the sizes that the lines "
        "name; the figures say at which they were taken here.",
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
        f"{_joined(DRAWN)} {_machine(after)} `python -m soak mutants --per-room {max(_drawn(after))} --seed "
        f"{after['seed']} --record after` does it again, and goes on from what is done.",
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
