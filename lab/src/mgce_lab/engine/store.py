"""Store finished runs in files, each under a name computed from its specification."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mgce._files import replacing


@dataclass(frozen=True)
class Run:
    """A finished run: its specification, its results, and facts about the machine.

    Attributes:
        specification: everything that the records depend on.
        records: the results, a dict for each network.
        machine: facts about the machine, and the duration of the run in seconds.
    """

    specification: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    machine: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the run, which is also the name of the run's folder."""
        return run_name(self.specification)


def run_name(specification: Mapping[str, Any]) -> str:
    """Return the name of a run: the first 12 hexadecimal digits (48 bits) of the SHA-256 of its specification.

    The probability that two of 10,000 runs have the same name is 10,000^2 / 2^49, 2 in ten million.

    Example:
        >>> run_name({"b": 1, "a": 2}) == run_name({"a": 2, "b": 1})
        True
    """
    return hashlib.sha256(_line(specification)).hexdigest()[:12]


class Runs:
    """The finished runs stored in a folder.

    Each newly finished run gets its own subfolder of `runs/`, which appears only when it is complete. :meth:`pack`
    collects all runs in four files with a line for each run or record, which are small enough to be committed.
    Afterwards `runs/` may be deleted.

    A file of checks stores for each run the number of its records and a SHA-256 of its content. The facts about the
    machine include the version of this package and a checksum of the data.
    """

    # In the order of writing, so that a pack that was stopped midway names no run that is not there.
    PACKED = ("records.jsonl", "machines.jsonl", "specifications.jsonl", "checks.json")

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @cached_property
    def runs(self) -> dict[str, Run]:
        """The finished runs by name: those read from the folder once, and those written since."""
        return self.read()

    def write(self, run: Run) -> None:
        """Store a run in its own subfolder; a run that is stored already is not changed."""
        folder = self.directory / "runs" / run.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(folder) as temporary:
                temporary.mkdir()
                (temporary / "specification.json").write_bytes(_line(run.specification))
                (temporary / "records.jsonl").write_bytes(b"".join(_line(record) for record in run.records))
                (temporary / "machine.json").write_bytes(_line(run.machine))
                (temporary / "checks.json").write_bytes(_line({run.name: _check_of(run)}))
        except OSError:  # another command on this folder may have been quicker
            if not folder.is_dir():
                raise
        self.runs |= self._checked(*_loose([folder]))

    def read(self) -> dict[str, Run]:
        """Read the finished runs from the folder; return them by name, sorted by name.

        Raises:
            ValueError: if a file is damaged, or if a run is missing that the file of checks lists.
        """
        runs, checks = _loose(self._folders())
        packed = {run.name: run for run in self._packed()}
        checks = {**_read_one(self.directory / "checks.json", absent={}), **checks}
        return dict(sorted(self._checked({**packed, **runs}, checks).items()))

    def pack(self) -> None:
        """Write all finished runs to four files with a line for each run or record, unless the files contain all runs.

        Each new file contains everything that the old file contains. So if the command is stopped, a mixture of new
        and old files still has all earlier runs.
        """
        folders = self._folders()
        others = [folder for folder in folders if folder.name not in self.runs]  # of another command, meanwhile
        self.runs = dict(sorted({**self._checked(*_loose(others)), **self.runs}.items()))
        if folders:
            self._write_packed(self.runs)

    def _write_packed(self, runs: Mapping[str, Run]) -> None:
        lines: list[list[Mapping[str, Any]]] = [
            [{"run": name, **record} for name, run in runs.items() for record in run.records],
            [{"run": name, **run.machine} for name, run in runs.items()],
            [run.specification for run in runs.values()],
            [{name: _check_of(run) for name, run in runs.items()}],
        ]
        contents = {name: b"".join(map(_line, content)) for name, content in zip(self.PACKED, lines, strict=True)}
        with ExitStack() as stack:
            for name in reversed(self.PACKED):  # left in the reverse order
                stack.enter_context(replacing(self.directory / name)).write_bytes(contents[name])

    def _folders(self) -> list[Path]:
        return sorted((self.directory / "runs").glob("[!.]*/"))

    def _checked(self, runs: dict[str, Run], checks: Mapping[str, Any]) -> dict[str, Run]:
        """Return the runs unchanged; raise an error if a run is missing, was changed, or has no check."""
        for name, check in checks.items():
            if name not in runs:
                raise _damaged(self.directory, f"no run {name}")
            if check != _check_of(runs[name]):
                raise _damaged(self.directory, f"run {name} not as it was written")
        if unchecked := runs.keys() - checks.keys():
            raise _damaged(self.directory, f"no check of run {min(unchecked)}")
        return runs

    def _packed(self) -> list[Run]:
        paths = [self.directory / name for name in self.PACKED[:3]]
        if not paths[-1].is_file():
            return []
        records, machines, specifications = map(_read, paths)
        lines: dict[str, list[dict[str, Any]]] = {}
        try:
            for record in records:
                lines.setdefault(record.pop("run"), []).append(record)
            facts = {machine.pop("run"): machine for machine in machines}
            named = {run_name(specification): specification for specification in specifications}
            return [Run(specification, lines[name], facts[name]) for name, specification in named.items()]
        except (KeyError, TypeError) as error:
            raise _damaged(self.directory, f"lines that do not belong together ({error})") from None


def _loose(folders: Sequence[Path]) -> tuple[dict[str, Run], dict[str, Any]]:
    """Return the runs that are stored in these subfolders, and their checks, both by name."""
    runs: dict[str, Run] = {}
    checks: dict[str, Any] = {}
    for folder in folders:
        run = Run(
            _read_one(folder / "specification.json"),
            _read(folder / "records.jsonl"),
            _read_one(folder / "machine.json"),
        )
        if run.name != folder.name:
            raise _damaged(folder, f"the specification of {run.name}")
        runs[run.name] = run
        checks |= _read_one(folder / "checks.json", absent={})
    return runs, checks


def _check_of(run: Run) -> dict[str, Any]:
    """Return the number of records and the SHA-256 of a run, by which damage is detected."""
    content = b"".join(map(_line, [run.specification, run.machine, *run.records]))
    return {"records": len(run.records), "sha256": hashlib.sha256(content).hexdigest()}


def _line(document: Mapping[str, Any]) -> bytes:
    """Return a document as one line of JSON with sorted keys."""
    return (json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        documents = [json.loads(line, parse_float=_finite, parse_constant=_finite) for line in lines]
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    if not all(isinstance(document, dict) for document in documents):
        raise _damaged(path, "a line that is no object")
    return documents


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text}")
    return number


def _read_one(path: Path, absent: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read a file with one line of JSON; if it does not exist and `absent` is given, return a copy of `absent`."""
    if absent is not None and not path.exists():
        return dict(absent)
    documents = _read(path)
    if len(documents) != 1:
        raise _damaged(path, f"{len(documents)} lines")
    return documents[0]


def _damaged(path: Path, got: str) -> ValueError:
    return ValueError(f"Expected {path} to hold finished runs, but got {got}: delete what is damaged, and run it anew.")
