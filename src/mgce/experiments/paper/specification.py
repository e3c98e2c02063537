"""What a run of the paper is: a frozen specification that says everything its records depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Protocol

from mgce._files import plain
from mgce._validation import expected
from mgce.experiments.store import Run


@dataclass(frozen=True)
class Place:
    """Where runs find their data and do their work; the records depend on it by rounding only.

    Attributes:
        data_dir: folder of the data sets; None for the default of `mgce.datasets.load`.
        device: where to train, as PyTorch spells it.
        download: whether data sets that are missing may be downloaded.
        scratch: folder in which a long run keeps a folder of its own with what it needs to go on after a stop; whoever
            writes its records removes that afterwards. None keeps nothing.
        logits: folder in which a run that knows how leaves the logits of its test rows, so that another measure of
            them needs no training; None keeps none.
    """

    data_dir: Path | None = None
    device: str = "cpu"
    download: bool = False
    scratch: Path | None = None
    logits: Path | None = None


class Specification(Protocol):
    """A frozen dataclass that can be run.

    Attributes:
        kind: "tabular" or "images".
        axes: the names of the fields in which the runs of one table differ. In all other fields the runs on a data set
            have to agree, so that a table compares what can be compared. An axis that is a tuple has several values in
            one run, each with each value of the other axes.
        dataset: the name of the data set.
    """

    kind: ClassVar[str]
    axes: ClassVar[tuple[str, ...]]

    @property
    def dataset(self) -> str: ...  # noqa: D102

    def check(self, place: Place) -> None:
        """Raise an error if the run's device or data set is missing."""

    def data_checksum(self, place: Place) -> str:
        """Give a SHA-256 of the data as they are read."""

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train; give the records, of types that JSON has."""


def document(specification: Specification) -> dict[str, Any]:
    """Give a specification as a dict of types that JSON has, with its kind and axes."""
    fields: dict[str, Any] = plain(asdict(specification))  # type: ignore[call-overload]
    return {"kind": specification.kind, "axes": list(specification.axes), **fields}


def check_one_data(runs: Sequence[Run]) -> None:
    """Require the runs on a data set to have read the same data; runs of earlier versions do not say which.

    Raises:
        ValueError: if they did not.
    """
    seen: dict[tuple[str, str, Any], str] = {}
    for run in runs:
        specification, checksum = run.specification, run.machine.get("data")
        if checksum is not None:
            key = specification["kind"], specification["dataset"], specification.get("rows")
            if seen.setdefault(key, checksum) != checksum:
                what = f"the same in all runs on {specification['dataset']} of one folder"
                raise ValueError(expected("data", what, f"{seen[key]} and {checksum}"))


def check_one_setting(documents: Sequence[Mapping[str, Any]]) -> None:
    """Require the runs on a data set to differ in their axes only, and no network to be in two of them.

    A network is a point on the axes: a noise rate, a seed, a method with its beta.

    Raises:
        ValueError: if they do not.
    """
    settings: dict[tuple[str, str], Mapping[str, Any]] = {}
    seen: set[str] = set()
    for specification in documents:
        axes = specification["axes"]
        setting = {name: value for name, value in specification.items() if name not in axes}
        first = settings.setdefault((specification["kind"], specification["dataset"]), setting)
        for name in first.keys() | setting.keys():
            if first.get(name) != setting.get(name):
                what = f"{first.get(name)!r} in all runs on {specification['dataset']} of one folder"
                raise ValueError(expected(name, what, setting.get(name)))
        values = [value if isinstance(value, list) else [value] for value in (specification[name] for name in axes)]
        points = {repr((specification["kind"], specification["dataset"], point)) for point in product(*values)}
        if points & seen:
            twice = sorted(points & seen)[0]
            raise ValueError(f"Expected the runs of a folder to be of different networks, but got {twice} twice.")
        seen |= points
