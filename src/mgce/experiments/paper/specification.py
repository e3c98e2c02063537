"""What a run of the paper is: a frozen specification that says everything its records depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Protocol

from mgce._files import plain
from mgce._validation import expected


@dataclass(frozen=True)
class Place:
    """Where runs find their data and do their work; the records do not depend on it but for rounding.

    A long run keeps what it needs to go on after a stop in a folder of its own in `scratch`, if there is one, and
    removes that when it is finished. A run that knows how leaves the logits of its test rows in `logits`, if there is
    such a folder, so that another measure of them needs no training.
    """

    data_dir: Path | None = None
    device: str = "cpu"
    download: bool = False
    scratch: Path | None = None
    logits: Path | None = None


class Specification(Protocol):
    """A frozen dataclass that can be run.

    Attributes:
        kind: the name of the kind of runs.
        axes: the names of the fields in which the runs of one table differ. In all others the runs on a data set have
            to agree, so that a table compares what can be compared. A field with a tuple stands for several values.
        dataset: the name of the data set.
    """

    kind: ClassVar[str]
    axes: ClassVar[tuple[str, ...]]

    @property
    def dataset(self) -> str: ...  # noqa: D102

    def check(self, place: Place) -> None:
        """Raise what would keep the run from its data."""

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Do the work; give the records, plain enough for JSON."""


def document(specification: Specification) -> dict[str, Any]:
    """Give a specification as it stands in a file."""
    fields: dict[str, Any] = plain(asdict(specification))  # type: ignore[call-overload]
    return {"kind": specification.kind, "axes": list(specification.axes), **fields}


def check_one_setting(documents: Sequence[Mapping[str, Any]]) -> None:
    """Require the runs of a data set to differ in their axes only, and to have nothing in common there.

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
