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


CHANGES: Sequence[Change] = ()  # from the first to the last; a new one comes last, and none is ever removed


def renewed(specification: Document, records: Sequence[Document]) -> tuple[Document, Sequence[Document]]:
    """Give the specification and the records of a run in today's names."""
    for change in CHANGES:
        records = [change.record(record, specification) for record in records]
        specification = change.specification(specification)
    return specification, records


def earlier(specification: Document) -> Iterator[Document]:
    """Give a specification as it was in earlier versions, the last one first, where it was not the same."""
    for change in reversed(CHANGES):
        before = change.former(specification)
        if before != specification:
            yield before
        specification = before
