"""Pages whose printed output is made again: `python tests/transcripts.py PAGE ...` writes what the blocks print today.

A block of output (`text`) belongs to the block of `sh` or `python` before it. Blocks of a page run in their order, in
one folder, and share their names. A block of shell runs only if it has no command but those known here; what sets up
an environment is left out of it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import torch

import commands

FENCE = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"\b\d+ s\b")  # of a clock
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Percentages of a network, of one decimal: on another processor three test rows of 500 fell otherwise.
PERCENT = re.compile(r"\b\d+\.\d\b(?!\.)")
NEAR = 0.7
COLUMNS = 70  # of the terminal: what a page shows beside its navigation without scrolling
RUN = ("mgce", "mgce-lab", "head", "python")  # commands that run; a block with any other is for the reader alone
SET_UP = ("python3", ".", "pip")  # done before the tests: left out of a block that has another command


@dataclass(frozen=True)
class Printed:
    """A block of output: its place on the page, what it says, and what came."""

    start: int
    end: int
    said: str
    came: str
    of_python: bool = False

    @property
    def is_true(self) -> bool:
        """Whether the output is as printed, except blanks, seconds, what `...` leaves out, and Python's percentages."""
        said, came = (SECONDS.sub("N s", text) for text in (self.said, self.came))
        if self.of_python:
            numbers = [[float(number) for number in PERCENT.findall(text)] for text in (said, came)]
            if len(numbers[0]) != len(numbers[1]) or any(abs(a - b) > NEAR for a, b in zip(*numbers, strict=True)):
                return False
            said, came = (PERCENT.sub("0.0", text) for text in (said, came))
        return doctest.OutputChecker().check_output(said, came, FLAGS)


def run(page: str, folder: Path) -> Iterator[Printed]:
    """Run the blocks of a page in a folder, and yield each block of output."""
    names: dict[str, Any] = {"__name__": "__main__"}
    came, before = None, ""
    for fence in FENCE.finditer(page):
        language, code = fence.groups()
        if language == "text":
            if came is None:
                raise ValueError(f"no block that runs stands before this output: {code}")
            yield Printed(fence.start(2), fence.end(2), code, came, of_python=before == "python")
            came = None
        elif language == "python":
            came = _python(code, names, folder)
        else:
            came = _shell(code, folder)
        before = language


def _python(code: str, names: dict[str, Any], folder: Path) -> str:
    output = io.StringIO()
    torch.manual_seed(0)
    with _inside(folder), contextlib.redirect_stdout(output), matplotlib.rc_context({"backend": "agg"}):
        exec(compile(code, "block", "exec"), names)
    return _stripped(output.getvalue())


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _shell(code: str, folder: Path) -> str | None:
    calls = [shlex.split(line, comments=True) for line in code.replace("\\\n", "").splitlines()]
    calls = [part for call in calls for part in _chained(call) if part[0] not in SET_UP]
    if not calls or any(call[0] not in RUN for call in calls):
        return None
    return _stripped("".join(_call(call, folder) for call in calls))


def _chained(call: list[str]) -> Iterator[list[str]]:
    """Yield the commands of a line that `&&` joins."""
    for is_and, words in itertools.groupby(call, lambda word: word == "&&"):
        if not is_and:
            yield list(words)


def _call(call: list[str], folder: Path) -> str:
    if call[0] == "python":
        python = [sys.executable, *call[1:]]
        return subprocess.run(python, cwd=folder, capture_output=True, text=True, check=True).stdout
    if call[0] == "head":
        option, name = call[1:]
        lines = (folder / name).read_text().splitlines(keepends=True)
        return "".join(lines[: int(option.removeprefix("-"))])
    done = commands.mgce(*call[1:], folder=folder, columns=COLUMNS)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(call)}: {done.stderr}")
    return done.stdout


def _stripped(output: str) -> str:
    lines = [line.rstrip() for line in output.splitlines()]
    return "".join(f"{line}\n" for line in "\n".join(lines).strip("\n").splitlines())


def recorded(page: str, folder: Path) -> str:
    """Return the page with the output of today; what leaves something out stays as long as it is true."""
    for printed in reversed([*run(page, folder)]):
        said, came = (SECONDS.sub("N s", text) for text in (printed.said, printed.came))
        if not printed.is_true if "..." in said else said != came:
            page = page[: printed.start] + printed.came + page[printed.end :]
    return page


def main(paths: list[str]) -> None:
    """Write what the blocks of pages print today into them."""
    for path in map(Path, paths):
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(recorded(path.read_text(), Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
