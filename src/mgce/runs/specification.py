"""What a run is: a frozen specification that says everything its records depend on."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, replace
from itertools import product
from typing import Any, ClassVar, Protocol

from mgce._files import plain
from mgce.runs.place import Place


class Specification(Protocol):
    """A frozen dataclass that can be run.

    Attributes:
        kind: a word for runs of this class.
        axes: the names of the fields in which the runs of one table differ. In all other fields the runs on a data set
            have to agree, so that a table compares what can be compared. An axis that is a tuple has several values in
            one run, each with each value of the other axes.
        by_dataset: the other fields in which runs on one data set may differ from those on another; None for any.
        dataset: the name of the data set.
    """

    kind: ClassVar[str]
    axes: ClassVar[tuple[str, ...]]
    by_dataset: ClassVar[tuple[str, ...] | None]

    @property
    def dataset(self) -> str: ...  # noqa: D102

    def check(self, place: Place) -> None:
        """Raise an error if the run's data set is missing."""

    def data_checksum(self, place: Place) -> str:
        """Return a SHA-256 of the data as they are read."""

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train; give the records, of types that JSON has."""


# Fields that came later: left out while they are empty, so that runs keep the names that they had before. Not where
# they are an axis: that kind of run has had them from its first day.
LATER = ("labels", "smoke", "random_test", "hyperparameters")
LATER_AXES = ("cap_from", "trim", "penalty")  # left out while they are None, and then no axes either


def document(specification: Specification) -> dict[str, Any]:
    """Return a specification as a dict of types that JSON has, with its kind and axes."""
    fields: dict[str, Any] = plain(asdict(specification))  # type: ignore[call-overload]
    unused = {name for name in LATER_AXES if fields.get(name) is None}
    axes = [axis for axis in specification.axes if axis not in unused]
    empty = {name for name in LATER if name not in axes and not fields.get(name)}
    return {"kind": specification.kind, "axes": axes, **{n: v for n, v in fields.items() if n not in unused | empty}}


def networks(specification: Mapping[str, Any]) -> set[str]:
    """Name the networks of a run by its document: its points on the axes, such as a noise rate, a seed and a method."""
    named = (specification[name] for name in specification["axes"])
    values = [value if isinstance(value, list) else [value] for value in named]
    where = (specification["kind"], specification["dataset"], specification.get("smoke", ""))
    return {repr((*where, point)) for point in product(*values)}


def remaining(specification: Specification, done: Set[str]) -> list[Specification]:
    """Return specifications of the networks that are not done yet, in as few runs as that takes.

    Args:
        specification: of a run.
        done: names of networks, as `networks` gives them.
    """
    names = networks(document(specification))
    if not names & done:
        return [specification]
    if names <= done:
        return []
    several = (axis for axis in specification.axes if isinstance(getattr(specification, axis), tuple))
    axis = next(axis for axis in several if len(getattr(specification, axis)) > 1)
    # Values of the axis that lack the same networks of the other axes share a run.
    joined: dict[str, list[Specification]] = {}
    for value in getattr(specification, axis):
        for part in remaining(_at(specification, axis, (value,)), done):
            joined.setdefault(repr({**document(part), axis: None}), []).append(part)
    return [_at(parts[0], axis, tuple(getattr(part, axis)[0] for part in parts)) for parts in joined.values()]


def _at(specification: Specification, axis: str, values: tuple[Any, ...]) -> Specification:
    changed: Specification = replace(specification, **{axis: values})  # type: ignore[type-var]
    return changed
