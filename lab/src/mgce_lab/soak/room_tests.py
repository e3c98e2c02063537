"""The tests of a room, run again and again in forks of one process that has all libraries already.

`python -m mgce_lab.soak.room_tests`, in a copy of the tree, reads one request a line from its input, as JSON, and
answers each with a line: the exit code of the tests, or why they did not end. A mutant whose tests take a second would
otherwise wait ten for PyTorch.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WAIT = 0.02  # seconds between two looks at a child
WALL = 4  # wall time that is allowed, in units of the processor time that is, for a busy machine
MEMORY = 16 * 2**30  # bytes of addresses; a change that asks for more is caught
Request = dict[str, Any]

FULL_TIER = ("-m", "not nightly")  # those against other libraries too; pytest alone takes the quick one


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "load":
            answer: Any = _load(request["modules"])
        else:
            answer = _in_a_fork(request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _load(names: list[str]) -> int:
    """Import libraries, once for all forks; of the package itself nothing, for that is what changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    return len(names)


def _in_a_fork(request: Request) -> Any:
    child = os.fork()
    if child == 0:
        _child(request)
    until = time.monotonic() + WALL * request["seconds"]
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _kill_group(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(WAIT)
    _kill_group(child)
    os.waitpid(child, 0)
    return "time"


def _kill_group(leader: int) -> None:
    """Kill what a child has started: workers that wait for one that has died."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _child(request: Request) -> None:
    code = 99
    try:
        os.setsid()
        seconds = int(request["seconds"])
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with Path(request["out"]).with_suffix(".log").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        code = _measure(request) if request["do"] == "measure" else _try(request)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def _pytest(arguments: list[str], plugin: Any) -> int:
    import pytest

    # The libraries are loaded before pytest could rewrite their assertions.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider", "-q", "--tb=no"]
    return int(pytest.main([*quiet, *FULL_TIER, *arguments], plugins=[plugin]))


class _Verdicts:
    """Run the tests that are asked for, in their order, and keep which of them failed."""

    def __init__(self, wanted: list[str]) -> None:
        self.place = {name: place for place, name in enumerate(wanted)}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.place), key=lambda it: self.place[it.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)


def _try(request: Request) -> int:
    sys.dont_write_bytecode = True
    plugin = _Verdicts(request["tests"])
    files = list(dict.fromkeys(name.partition("::")[0] for name in request["tests"]))
    code = _pytest([*(["-x"] if request["first"] else []), *files], plugin)
    Path(request["out"]).write_text(json.dumps(plugin.failed))
    return code


class _Contexts:
    """Tell the coverage which test runs, and keep how long each takes, and whether it is in the quick tier."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.tests: dict[str, dict[str, Any]] = {}
        self.now = ""  # the test that runs

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            slow = any(item.get_closest_marker(name) for name in ("slow", "nightly", "integration"))
            self.tests[item.nodeid] = {"seconds": 0.0, "slow": slow, "passed": True}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.now = nodeid
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.coverage.switch_context("")

    @contextlib.contextmanager
    def _shared(self, fixture: Any, nodeid: str) -> Iterator[None]:
        """Count the lines that a module's fixture runs for every test of the module."""
        if fixture.scope == "function":
            yield
            return
        self.coverage.switch_context(nodeid.partition("::")[0])
        yield
        self.coverage.switch_context(self.now)

    def hooks(self) -> Any:
        import pytest

        contexts = self

        class Fixtures:
            @pytest.hookimpl(wrapper=True)
            def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
                with contexts._shared(fixturedef, request.node.nodeid or "session"):
                    return (yield)

        return Fixtures()

    def pytest_runtest_logreport(self, report: Any) -> None:
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        test["passed"] &= not report.failed


def _measure(request: Request) -> int:
    """Run all tests of a room, and keep which of them runs which line of it."""
    import coverage
    import pytest

    sys.dont_write_bytecode = False  # of the copy, so that its modules are compiled once
    measured = coverage.Coverage(data_file=None, config_file=False, source=[request["source"]], messages=False)
    contexts = _Contexts(measured)
    measured.start()
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider", "-q", "--tb=short"]
    tier = () if request["quick"] else FULL_TIER
    code = int(pytest.main([*quiet, *tier, *request["tests"]], plugins=[contexts, contexts.hooks()]))
    measured.stop()
    data = measured.get_data()
    here = Path.cwd()
    files = {str(Path(name).relative_to(here)): data.contexts_by_lineno(name) for name in data.measured_files()}
    modules = [
        name
        for name, module in list(sys.modules.items())
        if "site-packages" in str(getattr(module, "__file__", None)) and "__main__" not in name
    ]
    document = {"tests": contexts.tests, "files": files, "modules": modules}
    Path(request["out"]).write_text(json.dumps(document))
    return code


if __name__ == "__main__":
    main()
