"""The tables and figures that can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mgce._validation import check_choice
from mgce.experiments.paper import figure1, figure2, figure6, table3
from mgce.experiments.paper.plan import Options
from mgce.experiments.paper.result import Result
from mgce.experiments.paper.specification import Specification
from mgce.experiments.store import Run


@dataclass(frozen=True)
class Item:
    """A table or figure: what has to be run for it, and what it looks like, if runs of it are there."""

    plan: Callable[[Options], list[Specification]]
    render: Callable[[Sequence[Run]], Result | None]


ITEMS = {
    "figure1": Item(figure1.plan, figure1.render),
    "figure2": Item(figure2.plan, figure2.render),
    "figure6": Item(figure6.plan, figure6.render),
    "table3": Item(table3.plan, table3.render),
}


def chosen(name: str) -> list[str]:
    """Give the names behind one: itself, or every one for `all`.

    Example:
        >>> chosen("table3")
        ['table3']
    """
    check_choice("name", name, (*ITEMS, "all"))
    return list(ITEMS) if name == "all" else [name]
