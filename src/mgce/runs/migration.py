"""Names in specifications and records that have changed, so that finished runs survive a new name.

The name of a run is the hash of its specification. A field or a method that is called otherwise from some version on
would give every run a new name, under which its records are not found, and a run that was stopped would begin anew. So
each such change has an entry in `CHANGES`, which stays there: `store.py` reads every folder in today's names, and
`scratch.py` finds what was left under those of before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A change of names. Each function gives what it does not concern as it is, and does nothing a second time.

    Attributes:
        specification: gives a specification in the new names.
        former: gives it in the old ones: the inverse of `specification`, to the last key, on what that can give.
        record: gives a record in the new names; beside it, it takes the specification of its run in the old ones.
    """

    specification: Callable[[Document], Document]
    former: Callable[[Document], Document]
    record: Callable[[Document, Document], Document] = lambda record, specification: record


def _rename(before: str, after: str) -> Change:
    """Rename a field of all runs, which may be an axis of theirs."""

    def renaming(before: str, after: str) -> Callable[[Document], Document]:
        def renamed(document: Document) -> Document:
            found = {after if key == before else key: value for key, value in document.items()}
            axes = [after if axis == before else axis for axis in document.get("axes", ())]
            return found | ({"axes": axes} if axes else {})

        return renamed

    there = renaming(before, after)
    return Change(there, renaming(after, before), lambda record, _: there(record))


def _rename_loss(before: str, after: str, beta: float, kinds: tuple[str, ...]) -> Change:
    """Rename a loss at one beta, in runs of these kinds: in the others the same name is of another loss."""

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
    """Rename a hyperparameter of a loss, where runs have recorded it."""

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
    """Return the specification and the records of a run in today's names."""
    for change in CHANGES:
        records = [change.record(record, specification) for record in records]
        specification = change.specification(specification)
    return specification, records


def earlier(specification: Document) -> Iterator[Document]:
    """Yield a specification as it was in earlier versions, the last one first, where it was not the same."""
    for change in reversed(CHANGES):
        before = change.former(specification)
        if before != specification:
            yield before
        specification = before
