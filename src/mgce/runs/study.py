"""A study: what is run for a subject, and the tables and figures that are rendered from its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mgce.runs.result import Result
from mgce.runs.specification import Specification
from mgce.runs.store import Run

Asked = TypeVar("Asked")


@dataclass(frozen=True)
class Item(Generic[Asked]):
    """A table or figure.

    Attributes:
        render: gives its result from finished runs, those of other items among them; None if they do not suffice.
        plan: gives the specifications of its runs, of what is asked for; None if it shows no runs, and is computed.
        datasets: the names of the data sets that can be asked for, where the item says so.
    """

    render: Callable[[Sequence[Run]], Result | None]
    plan: Callable[[Asked], list[Specification]] | None = None
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study(Generic[Asked]):
    """Tables and figures on one subject, on one page.

    Attributes:
        title: of the page.
        runs: the classes of its specifications.
        items: its tables and figures by name, in the order of the page.
        headline: gives the first sentences of the page.
    """

    title: str
    runs: tuple[type[Specification], ...]
    items: Mapping[str, Item[Asked]]
    headline: Callable[[Sequence[Result]], str]

    @property
    def by_dataset(self) -> Mapping[str, tuple[str, ...] | None]:
        """What `Specification` calls so, by the kind of run."""
        return {run.kind: run.by_dataset for run in self.runs}
