"""Define a study: its runs, and the tables and figures that are rendered from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mgce_lab.engine.result import Result
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run

Asked = TypeVar("Asked")


@dataclass(frozen=True)
class Item(Generic[Asked]):
    """A table or figure of a study.

    Attributes:
        render: function from all finished runs of the study to the rendered result; the function returns None if the
            runs do not suffice.
        plan: function from the user's options to the specifications of the runs; None for an item that needs no runs.
        datasets: names of the data sets that the user may choose for this item.
    """

    render: Callable[[Sequence[Run]], Result | None]
    plan: Callable[[Asked], list[Specification]] | None = None
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study(Generic[Asked]):
    """A collection of tables and figures on one subject, shown on one HTML page.

    Attributes:
        title: title of the page.
        runs: the classes of specifications that the study uses.
        items: tables and figures by name, in the order of the page.
        headline: function from the rendered results to the first sentences of the page.
    """

    title: str
    runs: tuple[type[Specification], ...]
    items: Mapping[str, Item[Asked]]
    headline: Callable[[Sequence[Result]], str]

    @property
    def by_dataset(self) -> Mapping[str, tuple[str, ...] | None]:
        """For each kind of run, the fields in which runs on different data sets may differ; None allows all fields."""
        return {run.kind: run.by_dataset for run in self.runs}
