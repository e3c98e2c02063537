"""`python -m mgce_lab.soak mutants`: which small wrong changes of a room do the tests of this room notice?

A seeded sample of changes, each made in a copy of the tree, and judged by the tests that run the changed line. Needs
`coverage`, whose version is in constraints.txt.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scipy import stats

import mgce
from mgce_lab.soak import reliability
from mgce_lab.soak.code_changes import Change, changes

DESK = ("files", "pages", "columns", "encoders", "review", "tables", "streams", "cli")
ROOMS = (
    *("risk", "sets", "noise", "labels", "metrics", "numerics", "losses", "link", "linear", "features", "loop"),
    *("estimators", "integrations", "kernels", *(f"desk/{room}" for room in DESK)),
)
COPIED = ("src", "tests", "lab", "examples", "docs", "conftest.py", "pyproject.toml")
WORK = Path("build/soak/mutants")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")  # judged by hand: no test could notice these
# Processor time after which the tests of a change hang, in units of what they took before, and as much more in seconds.
SLOWER, SECONDS = 4, 30
WHOLE = 1800  # seconds for all tests of a room
Verdict = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--rooms", default=",".join(ROOMS), help="folders of src/mgce, with commas between them")
    parser.add_argument("--per-room", type=int, default=40, help="changes of each room; more go on from fewer")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--quick", action="store_true", help="judge by the quick tier alone")
    parser.add_argument("--all", action="store_true", help="find all tests that notice a change, not the first alone")
    parser.add_argument("--again", action="store_true", help="judge those again that were not noticed before")
    parser.add_argument(
        "--moved",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="tests, by a part of their names, that leave the quick tier",
    )
    parser.add_argument(
        "--work", type=Path, default=WORK, help="folder of the verdicts, from which a later run goes on"
    )
    parser.add_argument("--record", metavar="WHEN", choices=("before", "after"), help=f"write {reliability.RESULTS}")


def main(options: argparse.Namespace) -> int:
    """Run it; 1 if a change was not noticed that is not known to be equivalent."""
    if importlib.util.find_spec("coverage") is None:
        sys.exit("Expected coverage to be installed: pip install -c constraints.txt coverage")
    equivalent, rooms = json.loads(EQUIVALENT.read_text()), {}
    for room in options.rooms.split(","):
        verdicts = judge(Path.cwd(), room, options)
        how = {"tier": "quick" if options.quick else "all", "mgce": mgce.__version__}
        rooms[room] = summary(verdicts, equivalent, options.moved) | how
        _print(room, rooms[room], verdicts, equivalent)
    if options.record:
        from mgce._machine import describe

        kept = reliability.read("mutants").get(options.record, {}).get("rooms", {})
        document = {"machine": describe(), "seed": options.seed, "rooms": {**kept, **rooms}}
        reliability.write("mutants", options.record, document)
    return int(any(one["caught"] < one["tried"] for one in rooms.values()))


def sample(tree: Path, room: str, n: int, seed: int) -> list[tuple[str, str, Change]]:
    """Draw changes of a room: name, file and change. A larger sample begins with a smaller one."""
    found: list[tuple[str, str, Change]] = []
    for path in sorted((tree / "src/mgce" / room).rglob("*.py")):
        source, seen = path.read_bytes(), Counter[str]()
        for change in changes(source):
            name = f"{path.relative_to(tree / 'src/mgce')}: {change.described(source)}"
            seen[name] += 1
            number = f"  #{seen[name]}" if seen[name] > 1 else ""
            found.append((name + number, str(path.relative_to(tree)), change))
    random.Random(f"{seed}:{room}").shuffle(found)
    return found[:n]


def judge(tree: Path, room: str, options: argparse.Namespace) -> dict[str, Verdict]:
    """Try the changes of a room that have no verdict yet; give the verdicts of the whole sample."""
    drawn = sample(tree, room, options.per_room, options.seed)
    kept = options.work / f"{_flat(room)}.json"
    verdicts: dict[str, Verdict] = json.loads(kept.read_text()) if kept.exists() else {}

    def is_left(name: str) -> bool:
        known = verdicts.get(name)
        return known is None or (options.again and not known["tests"]) or (options.all and not known["all"])

    left = [each for each in drawn if is_left(each[0])]
    if left:
        with Copy(tree, options.work) as copy:
            tests = copy.measure(room, options.quick)
            while left:
                for name, file, change in left:
                    verdicts[name] = _verdict(copy, tests, file, change, options.all)
                    _save(kept, verdicts)
                    print(_line(name, verdicts[name]), flush=True)
                unfit = copy.unfit(tests, [test for name, _, _ in left for test in verdicts[name]["tests"]])
                left = [each for each in left if unfit.intersection(verdicts[each[0]]["tests"])]
    return {name: verdicts[name] for name, _, _ in drawn}


def _verdict(copy: Copy, tests: Tests, file: str, change: Change, every: bool) -> Verdict:
    chosen = tests.of(file, change)
    began = time.monotonic()
    code, failed = copy.attempt(file, change, chosen, tests.seconds(chosen), every) if chosen else (0, [])
    # What ends the process, or lets no test be collected, is noticed by whichever test comes first.
    ended = [] if code in (0, 5) else failed or chosen[:1]
    return {
        "tests": ended,
        "quick": [name for name in ended if not tests.slow(name)],
        "all": every or not ended,
        "code": code,
        "kind": change.kind,
        "tried": len(chosen),
        "seconds": round(time.monotonic() - began, 1),
    }


class Tests:
    """The tests of a room, and which of them run which line."""

    def __init__(self, measured: dict[str, Any]) -> None:
        self.tests = measured["tests"]
        self.files = measured["files"]
        self.modules = measured["modules"]

    def of(self, file: str, change: Change) -> list[str]:
        """Choose the tests that run a change: those of the quick tier first, and among them the fastest."""
        lines = self.files.get(file, {})
        first, last = change.lines
        some = [name for line in range(first, last + 1) for name in lines.get(str(line), [])]
        if change.everywhere or not any(some):  # it acts on import, or is run by a compiler or by a process of a test
            some = [name for names in lines.values() for name in names]
        names = set(filter(None, some))
        chosen = [name for name in self.tests if name in names or name.partition("::")[0] in names]
        return self.ordered(name for name in chosen or self.tests if self.tests[name]["passed"])

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Put the quick tier first, and in it the fastest."""
        return sorted(names, key=lambda name: (self.slow(name), self.tests[name]["seconds"]))

    def slow(self, name: str) -> bool:
        """Tell whether a test is not in the quick tier."""
        return bool(self.tests.get(name, {}).get("slow"))

    def seconds(self, names: list[str]) -> float:
        """Tell how long tests took, one after another."""
        return float(sum(self.tests[name]["seconds"] for name in names))


class Copy:
    """A copy of the tree in which changes are made, and the process that tests it."""

    def __init__(self, tree: Path, work: Path) -> None:
        self.tree, self.work = tree, work.absolute()

    def __enter__(self) -> Copy:
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        ignored = shutil.ignore_patterns("__pycache__", "_build", "generated", "gallery")
        for name in COPIED:
            source, target = self.tree / name, self.folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=ignored)
            elif source.exists():
                shutil.copy2(source, target)
        for source in self.tree.iterdir():  # read only
            if not (self.folder / source.name).exists() and source.name != "build":
                (self.folder / source.name).symlink_to(source.absolute())
        environment = {
            **os.environ,
            "PYTHONPATH": f"{self.folder / 'src'}:{self.folder / 'lab/src'}",
            "OMP_NUM_THREADS": "1",
        }
        if importlib.util.find_spec("coverage") is not None:  # it may lie beside the environment's own libraries
            import coverage

            beside = str(Path(coverage.__file__).parents[1])
            environment["PYTHONPATH"] += os.pathsep + beside
        command = [sys.executable, "-m", "mgce_lab.soak.room_tests"]
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=self.folder, env=environment, **pipe)  # type: ignore[call-overload]
        self.work.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        with self.process:  # closes its input, at whose end it ends
            pass
        shutil.rmtree(self.folder)

    def ask(self, **request: Any) -> Any:
        """Send a request to the process, and give its answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def measure(self, room: str, quick: bool) -> Tests:
        """Learn which test of a room runs which line; of what was learnt before, only files that changed run again."""
        kept = self.work / f"{_flat(room)}-lines.json"
        known = json.loads(kept.read_text()) if kept.exists() else {"hashes": {}}
        now = _hashes(self.tree, room)
        if known["hashes"].get("src") != now["src"]:
            known = {"hashes": {}, "tests": {}, "files": {}, "modules": []}
        changed = {name for name in {*now, *known["hashes"]} if known["hashes"].get(name) != now.get(name)}
        every = [f"tests/{room}", f"src/mgce/{room}", *_elsewhere(self.tree, room)]
        places = every if "src" in changed else sorted(changed & now.keys())
        _forget(known, changed)
        if places:
            _add(known, self._measured(room, places, quick))
        kept.write_text(json.dumps({**known, "hashes": now}))
        tests = Tests(known)
        self.ask(do="load", modules=tests.modules)
        broken = [name for name, test in tests.tests.items() if not test["passed"]]
        if broken:
            print(f"{room}: left out, since they fail on the tree as it is: {', '.join(broken)}", flush=True)
        return tests

    def _measured(self, room: str, places: list[str], quick: bool) -> Any:
        source, out = str(self.folder / "src/mgce" / room), self.work / f"{_flat(room)}-lines.new"
        out.unlink(missing_ok=True)
        code = self.ask(do="measure", tests=places, source=source, out=str(out), seconds=WHOLE, quick=quick)
        measured = json.loads(out.read_text()) if out.exists() else {}
        if not measured.get("tests"):
            sys.exit(f"The tests of {room} did not run ({code}): see {out.with_suffix('.log')}.")
        out.unlink()
        return measured

    def attempt(
        self, file: str, change: Change, tests: list[str], seconds: float, every: bool
    ) -> tuple[Any, list[str]]:
        """Make a change, run tests and undo it; give their exit code, and those that failed."""
        with self.changed(file, change):
            return self._run(tests, SECONDS + SLOWER * seconds, every)

    def _run(self, tests: list[str], seconds: float, every: bool) -> tuple[Any, list[str]]:
        out = self.work / "attempt.json"
        out.unlink(missing_ok=True)
        code = self.ask(do="try", tests=tests, first=not every, out=str(out), seconds=seconds)
        return code, json.loads(out.read_text()) if out.exists() else []

    def unfit(self, tests: Tests, names: list[str]) -> set[str]:
        """Remove from `tests` those of `names` that fail without any change in this order; return them."""
        chosen = tests.ordered(set(names))
        _, failed = self._run(chosen, SECONDS + SLOWER * tests.seconds(chosen), every=True) if chosen else (0, [])
        for name in failed:
            tests.tests[name]["passed"] = False
            print(f"left out, since it fails without a change: {name}", flush=True)
        return set(failed)

    @contextmanager
    def changed(self, file: str, change: Change) -> Iterator[None]:
        """Change a file of the copy for a while; no compiled module may stand for another version."""
        path = self.folder / file
        source = path.read_bytes()
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
        path.write_bytes(change.apply(source))
        try:
            yield
        finally:
            path.write_bytes(source)


def _flat(room: str) -> str:
    return room.replace("/", "-")


def _hashes(tree: Path, room: str) -> dict[str, str]:
    """Return a hash of each test file of a room; `src` names that of all sources and of what the tests share."""
    tests = [*sorted((tree / "tests" / room).rglob("test_*.py")), *(tree / file for file in _elsewhere(tree, room))]
    shared = [
        *(tree / "src/mgce").rglob("*.py"),
        *(tree / "tests").glob("*.py"),
        *(tree / "tests" / room).rglob("*.py"),
    ]
    total = hashlib.sha256()
    for path in sorted(set(shared).difference(tests)):
        total.update(str(path.relative_to(tree)).encode() + path.read_bytes())
    own = {str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest() for path in tests}
    return {"src": total.hexdigest(), **own}


def _elsewhere(tree: Path, room: str) -> list[str]:
    """Return the files of other rooms that test a module of this room, as `tests/test_modules.py` says."""
    said = tree / "tests/test_modules.py"
    body = ast.parse(said.read_text()).body if said.exists() else []
    stated = [one.value for one in body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "TESTED_IN"]
    names = ast.literal_eval(stated[0]) if stated else {}
    of_room = {file for module, file in names.items() if module.rpartition("/")[0] == room}
    return sorted(f"tests/{file}" for file in of_room if Path(file).parent.as_posix() != room)


def _forget(known: dict[str, Any], changed: set[str]) -> None:
    """Drop what is known of the tests in files that have changed."""
    known["tests"] = {name: test for name, test in known["tests"].items() if name.partition("::")[0] not in changed}
    for lines in known["files"].values():
        for line, names in lines.items():
            lines[line] = [name for name in names if name.partition("::")[0] not in changed]


def _add(known: dict[str, Any], measured: dict[str, Any]) -> None:
    known["tests"] |= measured["tests"]
    known["modules"] = sorted({*known["modules"], *measured["modules"]})
    for file, lines in measured["files"].items():
        for line, names in lines.items():
            here = known["files"].setdefault(file, {}).setdefault(line, [])
            here += [name for name in names if name not in here]


def _save(path: Path, verdicts: dict[str, Verdict]) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(verdicts, indent=1))
    unfinished.replace(path)


def summary(verdicts: dict[str, Verdict], equivalent: dict[str, str], moved: list[str]) -> dict[str, Any]:
    """Count what was tried, what of it was noticed, and by which tier; equivalent changes are not counted."""
    judged = {name: one for name, one in verdicts.items() if one["tests"] or name not in equivalent}
    caught = sum(bool(one["tests"]) for one in judged.values())
    result = {
        "drawn": len(verdicts),
        "equivalent": len(verdicts) - len(judged),
        "tried": len(judged),
        "caught": caught,
        "interval": interval(caught, len(judged)),
        "quick": sum(bool(one["quick"]) for one in judged.values()),
    }
    if moved:
        result["quick without"] = sum(_still_quick(one, moved) for one in judged.values())
    return result


def interval(caught: int, tried: int) -> tuple[float, float]:
    """Return the exact 95 % interval of Clopper and Pearson for the share of all changes that is noticed."""
    if not tried:
        return 0.0, 1.0
    found = stats.binomtest(caught, tried).proportion_ci(method="exact")
    return float(found.low), float(found.high)


def _still_quick(one: Verdict, moved: list[str]) -> bool:
    """Tell whether a quick test notices a change that is not moved away; it takes the verdicts of `--all`."""
    return any(not any(text in name for text in moved) for name in one["quick"])


def _line(name: str, one: Verdict) -> str:
    by = f"{len(one['tests'])} tests, first {one['tests'][0]}" if one["tests"] else f"NOT by any of {one['tried']}"
    return f"  {one['seconds']:6.1f} s  {name}\n            {by}" + (
        "" if one["quick"] or not one["tests"] else " (slow)"
    )


def _print(room: str, one: dict[str, Any], verdicts: dict[str, Verdict], equivalent: dict[str, str]) -> None:
    low, high = one["interval"]
    quick = f", quick tier {one['quick']}"
    if "quick without" in one:
        quick += f", without those moved {one['quick without']}"
    print(
        f"{room}: {one['caught']} of {one['tried']} noticed ({100 * low:.0f} to {100 * high:.0f} %){quick}; "
        f"{one['equivalent']} more are equivalent."
    )
    for name, verdict in verdicts.items():
        if not verdict["tests"]:
            print(f"  {'equivalent' if name in equivalent else 'NOT NOTICED'}: {name}")
