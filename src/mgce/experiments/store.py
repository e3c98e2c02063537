"""Finished runs in files, each under a name that its specification determines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgce._files import replacing, write_files


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        specification: everything that the records depend on.
        records: what the run gave, a dict for each network.
        machine: facts of the machine that it ran on, and the seconds that it took.
    """

    specification: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    machine: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return run_name(self.specification)


def run_name(specification: Mapping[str, Any]) -> str:
    """Name a run by the first 12 hexadecimal digits, 48 bits, of the SHA-256 of its specification.

    Of 10,000 runs, two have the same name with a probability of 10,000^2 / 2^49, 2 in ten million.

    Example:
        >>> run_name({"b": 1, "a": 2}) == run_name({"a": 2, "b": 1})
        True
    """
    return hashlib.sha256(_line(specification)).hexdigest()[:12]


class Runs:
    """The finished runs of a folder.

    A run that has just finished is a folder of its own in `runs/`, which appears only when all its files are written.
    :meth:`pack` collects all runs in three files with a line for each run or record, which are small enough to be
    committed; `runs/` may then be deleted.
    """

    # In the order of writing. The specifications are last: a run counts as finished once its specification is there.
    PACKED = ("records.jsonl", "machines.jsonl", "specifications.jsonl")

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, run: Run) -> None:
        """Add a run; if a run of that name is there already, it stays as it is."""
        folder = self.directory / "runs" / run.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(folder) as temporary:
                temporary.mkdir()
                (temporary / "specification.json").write_bytes(_line(run.specification))
                (temporary / "records.jsonl").write_bytes(b"".join(_line(record) for record in run.records))
                (temporary / "machine.json").write_bytes(_line(run.machine))
        except OSError:  # no error if another command has written the same run meanwhile
            if not folder.is_dir():
                raise

    def read(self) -> dict[str, Run]:
        """Give the finished runs by name, in the order of their names.

        Raises:
            ValueError: if a file is damaged.
        """
        runs = {run.name: run for run in self._packed()}
        for folder in sorted((self.directory / "runs").glob("[!.]*/")):
            (specification,) = _read(folder / "specification.json") or [{}]
            (machine,) = _read(folder / "machine.json") or [{}]
            run = Run(specification, _read(folder / "records.jsonl"), machine)
            if run.name != folder.name:
                raise _damaged(folder, f"the specification of {run.name}")
            runs[run.name] = run
        return dict(sorted(runs.items()))

    def pack(self) -> None:
        """Write all finished runs into the three files, a line for each run or record."""
        runs = self.read()
        lines: list[list[Mapping[str, Any]]] = [
            [{"run": name, **record} for name, run in runs.items() for record in run.records],
            [{"run": name, **run.machine} for name, run in runs.items()],
            [run.specification for run in runs.values()],
        ]
        contents = [b"".join(map(_line, content)) for content in lines]
        write_files(self.directory, dict(zip(self.PACKED, contents, strict=True)))

    def _packed(self) -> list[Run]:
        """Read the runs in the three files."""
        paths = [self.directory / name for name in self.PACKED]
        if not paths[-1].is_file():
            return []
        records, machines, specifications = map(_read, paths)
        lines: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            lines.setdefault(record.pop("run"), []).append(record)
        facts = {machine.pop("run"): machine for machine in machines}
        named = {run_name(specification): specification for specification in specifications}
        if not named.keys() <= lines.keys() & facts.keys():
            raise _damaged(paths[-1], "a run of which there are no records")
        return [Run(specification, lines[name], facts[name]) for name, specification in named.items()]


def _line(document: Mapping[str, Any]) -> bytes:
    """Give the one JSON line of a document."""
    return (json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: Path, got: str) -> ValueError:
    return ValueError(f"Expected {path} to hold finished runs, but got {got}: delete it, and run it anew.")
