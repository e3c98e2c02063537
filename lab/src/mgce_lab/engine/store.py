"""Store finished runs in files, each under a name computed from its specification."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mgce._files import replacing
from mgce_lab.engine.migration import earlier, renewed

SHARES = ("ece_", "sce_")  # numbers of a record that begin so are shares, and so are accuracies


@dataclass(frozen=True)
class Run:
    """A finished run: its specification, its results, and facts about the machine.

    Attributes:
        specification: everything that the records depend on.
        records: the results, a dict for each network.
        machine: facts about the machine, and the duration of the run in seconds.
        stored_as: the name under which the run is stored, if an earlier version gave it another name; otherwise "".
    """

    specification: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    machine: Mapping[str, Any]
    stored_as: str = field(default="", compare=False)

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


def former_names(specification: Mapping[str, Any]) -> list[str]:
    """Return the names that a run had in earlier versions, from the latest to the earliest."""
    return [run_name(document) for document in earlier(specification)]


class Runs:
    """The finished runs stored in a folder.

    Each newly finished run gets its own subfolder of `runs/`, which appears only when it is complete. :meth:`pack`
    collects all runs in four files with a line for each run or record, which are small enough to be committed.
    Afterwards `runs/` may be deleted.

    A file of checks stores for each run the number of its records and a SHA-256 of its content. The facts about the
    machine include the version of this package and a checksum of the data. Folders of earlier versions have no file of
    checks. In such folders, every run must have as many records as its specification requires, and accuracies and
    calibration errors must be between 0 and 1.

    Runs of earlier versions are returned with the current names of fields and losses (`migration.py`), and
    :meth:`pack` writes them with these names.
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
        return self._renewed(self._stored())

    def pack(self) -> None:
        """Write all finished runs to four files with a line for each run or record, unless the files contain all runs.

        Each new file contains everything that the old file contains. So if the command is stopped, a mixture of new
        and old files still has all earlier runs. Runs with names of an earlier version first get additional lines with
        current names. Then their old lines are removed, from the last file to the first. Until then, such runs have no
        checks.
        """
        folders, known = self._folders(), {run.stored_as or name for name, run in self.runs.items()}
        others = [folder for folder in folders if folder.name not in known]  # of another command, meanwhile
        runs = dict(sorted({**self._renewed(self._checked(*_loose(others))), **self.runs}.items()))
        old = {run.stored_as for run in runs.values()} - {""}
        if old:
            stored = self._stored()
            self._write_packed({name: run for name, run in stored.items() if name not in old}, self.PACKED[3:])
            self._write_packed({**stored, **runs}, self.PACKED)
            self._write_packed(runs, self.PACKED[::-1])
            for name in old - runs.keys():
                _remove(self.directory / "runs" / name)
        elif folders:
            self._write_packed(runs, self.PACKED)
        self.runs = {name: replace(run, stored_as="") for name, run in runs.items()}

    def _write_packed(self, runs: Mapping[str, Run], names: Sequence[str]) -> None:
        lines: list[list[Mapping[str, Any]]] = [
            [{"run": name, **record} for name, run in runs.items() for record in run.records],
            [{"run": name, **run.machine} for name, run in runs.items()],
            [run.specification for run in runs.values()],
            [{name: _check_of(run) for name, run in runs.items()}],
        ]
        contents = {name: b"".join(map(_line, content)) for name, content in zip(self.PACKED, lines, strict=True)}
        with ExitStack() as stack:
            for name in reversed(names):  # left in the reverse order
                stack.enter_context(replacing(self.directory / name)).write_bytes(contents[name])

    def _folders(self) -> list[Path]:
        return sorted((self.directory / "runs").glob("[!.]*/"))

    def _stored(self) -> dict[str, Run]:
        """Return the stored runs as they were written, by the names under which they are stored."""
        runs, checks = _loose(self._folders())
        packed = {run.name: run for run in self._packed()}
        checks = {**_read_one(self.directory / "checks.json", absent={}), **checks}
        return dict(sorted(self._checked({**packed, **runs}, checks).items()))

    def _checked(self, runs: dict[str, Run], checks: Mapping[str, Any]) -> dict[str, Run]:
        """Return the runs unchanged; raise an error if a run is missing, was changed, or has implausible numbers."""
        for name, check in checks.items():
            if name not in runs:
                raise _damaged(self.directory, f"no run {name}")
            if check != _check_of(runs[name]):
                raise _damaged(self.directory, f"run {name} not as it was written")
        for run in runs.values():
            _check_plausible(run, self.directory)
        return runs

    def _renewed(self, runs: Mapping[str, Run]) -> dict[str, Run]:
        """Return the runs with current names of fields and losses.

        If a run is stored under both an earlier and its current name, the one stored under the current name is
        returned.
        """
        found: dict[str, Run] = {}
        for name, run in runs.items():
            try:
                specification, records = renewed(run.specification, run.records)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                got = f"a specification that no version wrote ({type(error).__name__}: {error})"
                raise _damaged(self.directory, got) from None
            if (specification, records) == (run.specification, run.records):
                found[name] = replace(run, stored_as=found[name].stored_as) if name in found else run
            else:
                new = Run(specification, records, run.machine, stored_as=name)
                found[new.name] = replace(runs.get(new.name, new), stored_as=name)
        return dict(sorted(found.items()))

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


def _remove(folder: Path) -> None:
    """Delete a folder if it exists, in one step: other processes see either the whole folder or no folder."""
    if folder.is_dir():
        shutil.rmtree(folder.rename(folder.with_name(f".{folder.name}")))


def _check_of(run: Run) -> dict[str, Any]:
    """Return the number of records and the SHA-256 of a run, by which damage is detected."""
    content = b"".join(map(_line, [run.specification, run.machine, *run.records]))
    return {"records": len(run.records), "sha256": hashlib.sha256(content).hexdigest()}


def _check_plausible(run: Run, directory: Path) -> None:
    """Raise an error if a run lacks records that its specification requires, or a metric is outside of [0, 1]."""
    axes = run.specification.get("axes", [])
    values = [run.specification.get(axis) for axis in axes] if isinstance(axes, list) else []
    least = math.prod(len(value) for value in values if isinstance(value, list))
    if len(run.records) < least:
        raise _damaged(directory, f"{len(run.records)} of {least} records of run {run.name}")
    for record in run.records:
        for key, value in record.items():
            if key.startswith(SHARES) or key in ("accuracy", "validation_accuracy", "test_accuracy_by_epoch"):
                shares = value if isinstance(value, list) else [value]
                if not all(share is None or (_is_number(share) and 0 <= share <= 1) for share in shares):
                    raise _damaged(directory, f"a share `{key}` outside of [0, 1] in run {run.name}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
