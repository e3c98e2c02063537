"""Translate specifications and records of earlier versions to the current names of fields and losses.

The name of a run is the hash of its specification. If a field or a loss is renamed, every run gets a new name: its
records would not be found, and a stopped run would start again. So each renaming has an entry in `CHANGES`, which is
never removed. `store.py` translates all stored runs to the current names. `scratch.py` finds folders of stopped runs
under their earlier names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A renaming of fields or losses, as functions that translate specifications and records.

    Specifications and records are dicts here. Each function returns those that the renaming does not affect unchanged.
    Applying it twice is the same as once.

    Attributes:
        specification: translates a specification to the new names.
        former: translates a specification with new names to the old ones, exactly inverting `specification`.
        record: translates a record to the new names, given the record and its run's specification with old names.
    """

    specification: Callable[[Document], Document]
    former: Callable[[Document], Document]
    record: Callable[[Document, Document], Document] = lambda record, specification: record


def _rename(before: str, after: str) -> Change:
    """Return the change that renames a field of all runs, also in their lists of axes."""

    def renaming(before: str, after: str) -> Callable[[Document], Document]:
        def renamed(document: Document) -> Document:
            found = {after if key == before else key: value for key, value in document.items()}
            axes = [after if axis == before else axis for axis in document.get("axes", ())]
            return found | ({"axes": axes} if axes else {})

        return renamed

    there = renaming(before, after)
    return Change(there, renaming(after, before), lambda record, _: there(record))


def _rename_loss(before: str, after: str, beta: float, kinds: tuple[str, ...]) -> Change:
    """Return the change that renames a loss at one beta in some kinds of runs; elsewhere it names another loss."""

    def renaming(before: str, after: str) -> Callable[[Document], Document]:
        def renamed(document: Document) -> Document:
            if document.get("kind") not in kinds:
                return document
            if "members" in document:
                members = [[after if [name, at] == [before, beta] else name, at] for name, at in document["members"]]
                return {**document, "members": members}
            concerned = [document["method"], document["beta"]] == [before, beta]
            return {**document, "method": after} if concerned else document

        return renamed

    there = renaming(before, after)

    def record(record: Document, specification: Document) -> Document:
        found = there({**record, "kind": specification.get("kind")})
        return {name: found[name] for name in record}

    return Change(there, renaming(after, before), record)


def _rename_hyperparameter(loss: str, before: str, after: str) -> Change:
    """Return the change that renames a recorded hyperparameter of a loss."""

    def renaming(before: str, after: str) -> Callable[[Document], Document]:
        def renamed(document: Document) -> Document:
            of_losses = document.get("hyperparameters", {})
            if before not in of_losses.get(loss, {}):
                return document
            own = {after if name == before else name: value for name, value in of_losses[loss].items()}
            return {**document, "hyperparameters": {**of_losses, loss: own}}

        return renamed

    return Change(renaming(before, after), renaming(after, before))


# From the first to the last; a new one comes last, and none is ever removed.
CHANGES: Sequence[Change] = (
    _rename("noise", "noise_rate"),
    _rename_hyperparameter("ce+logitclip", "delta", "inverse_norm"),
    _rename_hyperparameter("mgce+logitclip", "delta", "inverse_norm"),
    # What the paper calls MAE is MGCE at beta = 1. In runs that compare losses, `mae` was that of softmax already.
    _rename_loss("mae", "mgce", 1.0, ("tabular", "images")),
)


def renewed(specification: Document, records: Sequence[Document]) -> tuple[Document, Sequence[Document]]:
    """Return the specification and the records of a run, translated to the current names."""
    for change in CHANGES:
        records = [change.record(record, specification) for record in records]
        specification = change.specification(specification)
    return specification, records


def earlier(specification: Document) -> Iterator[Document]:
    """Yield the different specifications that a run had in earlier versions, from the latest to the earliest."""
    for change in reversed(CHANGES):
        before = change.former(specification)
        if before != specification:
            yield before
        specification = before
