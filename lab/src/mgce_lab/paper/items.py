"""List the tables and figures that `mgce-lab reproduce` can reproduce, and plan their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mgce._messages import check_choice, expected
from mgce_lab.data import IMAGE_NAMES, NAMES
from mgce_lab.engine.methods import KNOWN
from mgce_lab.engine.result import Result
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.study import Item, Study
from mgce_lab.paper import (
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
from mgce_lab.paper.images import ImageRun
from mgce_lab.paper.plan import BETAS, Options
from mgce_lab.paper.tabular import TabularRun

ITEMS: Mapping[str, Item[Options]] = {
    "advantage": Item(advantage.render, advantage.plan, NAMES),
    "figure1": Item(figure1.render),
    "figure2": Item(figure2.render),
    "figure3": Item(figure3.render, figure3.plan, IMAGE_NAMES),
    "figure4": Item(figure4.render, figure4.plan, IMAGE_NAMES),
    "figure5": Item(figure5.render, figure5.plan, IMAGE_NAMES),
    "figure6": Item(figure6.render, figure6.plan, NAMES),
    "table1": Item(table1.render, table1.plan, IMAGE_NAMES),
    "table2": Item(table2.render, table2.plan, IMAGE_NAMES),
    "table3": Item(table3.render, table3.plan, NAMES),
}


def headline(results: Sequence[Result]) -> str:
    """Return sentences that say how many of our numbers agree with the paper's."""
    sentences = [result.agreement for result in results if result.agreement]
    return " ".join(sentences) or "Nothing here stands in the paper as a number."


TITLE = "Minimax generalized cross-entropy: the paper's tables and figures"
PAPER = Study(TITLE, (TabularRun, ImageRun), ITEMS, headline)


def chosen(name: str) -> list[str]:
    """Return the items that a name selects: every item for `all`, otherwise only the item of this name.

    Example:
        >>> chosen("table3")
        ['table3']
    """
    check_choice("name", name, (*ITEMS, "all"))
    return list(ITEMS) if name == "all" else [name]


def plan(name: str, options: Options) -> list[Specification]:
    """Plan the runs of a table or figure, or of `all`.

    For `all`, each item uses only the requested data sets that it supports: Table 3 tables, Table 1 images.

    Raises:
        ValueError: if no item supports a requested data set, or the item uses none of the requested methods.
    """
    plans = {item.plan: item.datasets for item in map(ITEMS.__getitem__, chosen(name)) if item.plan}
    if options.datasets is not None and not plans:
        raise ValueError(expected("dataset", f"left out for {name}, which shows no data", ", ".join(options.datasets)))
    if name != "all" or options.datasets is None:
        planned = [specification for of_item in plans for specification in of_item(options)]
        if not planned and plans:
            alone = [replace(options, methods=(method,), betas=BETAS) for method in KNOWN]
            shown = [one.methods[0] for one in alone if any(of_item(one) for of_item in plans)]
            what = f"one or more of the methods of {name} ({', '.join(shown)})"
            raise ValueError(expected("methods", what, ", ".join(options.methods)))
        return planned
    for dataset in options.datasets:
        check_choice("dataset", dataset, tuple(dict.fromkeys((*NAMES, *IMAGE_NAMES))))
    specifications: list[Specification] = []
    for of_item, datasets in plans.items():
        taken = tuple(dataset for dataset in options.datasets if dataset in datasets)
        specifications += of_item(replace(options, datasets=taken)) if taken else []
    return specifications
