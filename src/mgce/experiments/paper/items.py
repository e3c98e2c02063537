"""The tables and figures that can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mgce._validation import check_choice, expected
from mgce.datasets import IMAGE_NAMES, NAMES
from mgce.experiments.methods import KNOWN
from mgce.experiments.paper import (
    advantage,
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    table1,
    table2,
    table3,
)
from mgce.experiments.paper.images import ImageRun
from mgce.experiments.paper.plan import BETAS, Options
from mgce.experiments.paper.tabular import TabularRun
from mgce.runs.result import Result
from mgce.runs.specification import Specification
from mgce.runs.study import Item, Study

ITEMS: Mapping[str, Item[Options]] = {
    "advantage": Item(advantage.plan, advantage.render, NAMES),
    "figure1": Item(figure1.plan, figure1.render, of_runs=False),
    "figure2": Item(figure2.plan, figure2.render, of_runs=False),
    "figure3": Item(figure3.plan, figure3.render, IMAGE_NAMES),
    "figure4": Item(figure4.plan, figure4.render, IMAGE_NAMES),
    "figure5": Item(figure5.plan, figure5.render, IMAGE_NAMES),
    "figure6": Item(figure6.plan, figure6.render, NAMES),
    "table1": Item(table1.plan, table1.render, IMAGE_NAMES),
    "table2": Item(table2.plan, table2.render, IMAGE_NAMES),
    "table3": Item(table3.plan, table3.render, NAMES),
}


def headline(results: Sequence[Result]) -> str:
    """Say how many of our numbers agree with the paper's."""
    sentences = [result.agreement for result in results if result.agreement]
    return " ".join(sentences) or "Nothing here stands in the paper as a number."


TITLE = "Minimax generalized cross-entropy: the paper's tables and figures"
PAPER = Study(TITLE, (TabularRun, ImageRun), ITEMS, headline)


def chosen(name: str) -> list[str]:
    """Give the items that a name stands for: itself, or every item for `all`.

    Example:
        >>> chosen("table3")
        ['table3']
    """
    check_choice("name", name, (*ITEMS, "all"))
    return list(ITEMS) if name == "all" else [name]


def plan(name: str, options: Options) -> list[Specification]:
    """Plan the runs of an item, or of `all`.

    For `all`, each item gets those of the data sets asked for that it can take: Table 3 tables, Table 1 images.

    Raises:
        ValueError: if no item can take one of the data sets, or the item trains by none of the methods.
    """
    items = [ITEMS[item] for item in chosen(name)]
    if options.datasets is not None and not any(item.of_runs for item in items):
        raise ValueError(expected("dataset", f"left out for {name}, which shows no data", ", ".join(options.datasets)))
    if name != "all" or options.datasets is None:
        planned = [specification for item in items for specification in item.plan(options)]
        if not planned and any(item.of_runs for item in items):
            shown = [method for method in KNOWN if ITEMS[name].plan(replace(options, methods=(method,), betas=BETAS))]
            what = f"one or more of the methods of {name} ({', '.join(shown)})"
            raise ValueError(expected("methods", what, ", ".join(options.methods)))
        return planned
    for dataset in options.datasets:
        check_choice("dataset", dataset, tuple(dict.fromkeys((*NAMES, *IMAGE_NAMES))))
    specifications: list[Specification] = []
    for item in items:
        taken = tuple(dataset for dataset in options.datasets if dataset in item.datasets)
        specifications += item.plan(replace(options, datasets=taken)) if taken else []
    return specifications
