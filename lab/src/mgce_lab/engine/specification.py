"""Define the specification of a run: a frozen dataclass with everything that the run's records depend on."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, replace
from itertools import product
from typing import Any, ClassVar, Protocol

from mgce._files import plain
from mgce_lab.engine.place import Place


class Specification(Protocol):
    """The interface of specifications: a frozen dataclass that describes a training run and executes it.

    Attributes:
        kind: a word that identifies runs of this class in files.
        axes: names of the fields in which the runs of one table differ, such as the seed. In all other fields the runs
            on a data set have to agree, so that they can be compared. If an axis is a tuple, one run trains a network
            for each of its values, combined with all values of the other axes.
        by_dataset: names of further fields in which runs on different data sets may differ; None allows all fields.
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
        """Return the SHA-256 of the data that the run reads."""

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train the networks and return a record of each, as dicts that JSON can store."""


def document(specification: Specification) -> dict[str, Any]:
    """Return a specification as a dict that JSON can store, with its `kind`, the names of its `axes` and its fields."""
    fields: dict[str, Any] = plain(asdict(specification))  # type: ignore[call-overload]
    return {"kind": specification.kind, "axes": list(specification.axes), **fields}


def networks(specification: Mapping[str, Any]) -> set[str]:
    """Return a name for each network of a run, given the run's specification as a dict.

    A name is made of the data set and one value on each axis, such as a noise rate, a seed and a method.
    """
    named = (specification[name] for name in specification["axes"])
    values = [value if isinstance(value, list) else [value] for value in named]
    where = (specification["kind"], specification["dataset"], specification.get("smoke"))
    return {repr((*where, point)) for point in product(*values)}


def remaining(specification: Specification, done: Set[str]) -> list[Specification]:
    """Return as few specifications as possible that contain the networks of a run that have not been trained yet.

    Args:
        specification: the specification of the run.
        done: names of the networks already trained, as returned by :func:`networks`.
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
