"""Render a table of the accuracy differences between MGCE and each other method, by data set and noise rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mgce_lab.engine.methods import CHOOSING, MINIMAX_MAE
from mgce_lab.engine.result import Result
from mgce_lab.engine.select import best_candidate
from mgce_lab.engine.significance import LEVEL, Difference, holm, paired_difference
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.engine.summary import PLUS_MINUS
from mgce_lab.paper import table1, table3
from mgce_lab.paper.agreement import MARGIN, show_p
from mgce_lab.paper.comparison import ordered, other_methods
from mgce_lab.paper.image_settings import NOISE_RATES
from mgce_lab.paper.plan import Options

OF_PAPER = {"ce": "cross-entropy", "gce": "GCE", MINIMAX_MAE: "MAE (minimax)"}
TITLE = "MGCE against the other methods: differences of test accuracy"
CAPTION = (
    "Points by which MGCE is more accurate than each other method, mean over the seeds, ± half of the 95 % interval, "
    "and the p-value of a paired t-test: the networks of a seed share split, noise, initial weights and order of the "
    "rows. “Ahead” and “behind” are differences at 5 %; the others are “level”, or “unclear” where the interval "
    f"reaches beyond {MARGIN:g} points. An asterisk marks those that remain after Holm's correction for the number of "
    "tests here. A single seed has no test. β is chosen by validation for each seed, as in the tables, unless the last "
    "column says that it was fixed."
)


@dataclass(frozen=True)
class Cell:
    """The difference in accuracy between MGCE and another method, for one data set and noise rate."""

    dataset: str
    noise_rate: float
    method: str
    found: Difference
    seeds: int
    corrected: float = math.nan  # the p-value by Holm's method

    @property
    def verdict(self) -> str:
        """The verdict on MGCE: "ahead", "behind", "level" or "unclear"; "" for a single seed."""
        if self.seeds == 1:
            return ""
        if self.found.p < LEVEL:
            return "ahead" if self.found.value > 0 else "behind"
        return "level" if max(-self.found.low, self.found.high) <= MARGIN else "unclear"

    def show(self) -> str:
        """Return the difference as text, for example `+2.86 ± 0.44, p < 0.001: ahead*`."""
        if self.seeds == 1:
            return f"{self.found.value:+.2f}, one seed"
        half, star = (self.found.high - self.found.low) / 2, "*" * (self.corrected < LEVEL)
        return f"{self.found.value:+.2f} {PLUS_MINUS} {half:.2f}, {show_p(self.found)}: {self.verdict}{star}"

    def numbers(self) -> dict[str, Any]:
        """Return the row of the table for programs, with unrounded numbers."""
        where = {"dataset": self.dataset, "noise_rate": self.noise_rate, "over": self.method, "seeds": self.seeds}
        test = {"low": self.found.low, "high": self.found.high, "p": self.found.p, "p_holm": self.corrected}
        return where | {"points": self.found.value, **(test if self.seeds > 1 else dict.fromkeys(test))}


def plan(options: Options) -> list[Specification]:
    """Plan the runs of Table 3.

    Finished runs of Table 1 also appear in this table, but are not planned here.
    """
    return table3.plan(options)


def render(runs: Sequence[Run]) -> Result | None:
    """Render a row for each data set and noise rate with runs of MGCE and of another method.

    Return None if there are no such runs.
    """
    records = [*table1.records_of(runs), *table3.tabular_records(runs)]
    datasets = ordered({record["dataset"] for record in records}, (*table1.DATASETS, *table3.DATASETS))
    blocks = {
        (dataset, rate): [record for record in records if (record["dataset"], record["noise_rate"]) == (dataset, rate)]
        for dataset in datasets
        for rate in NOISE_RATES
    }
    others = {**OF_PAPER, **{name: name for name in other_methods(records)}}
    cells = _corrected([cell for where, block in blocks.items() for cell in _cells(*where, block, others)])
    if not cells:
        return None
    rows = []
    for (dataset, rate), block in blocks.items():
        own = {cell.method: cell for cell in cells if (cell.dataset, cell.noise_rate) == (dataset, rate)}
        if own:
            row = {"dataset": dataset, "η": f"{rate:g}", "seeds": str(max(cell.seeds for cell in own.values()))}
            row |= {f"over {name}": own[method].show() if method in own else "" for method, name in others.items()}
            rows.append(row | {"β fixed": _fixed(block)})
    return Result(
        "advantage", TITLE, CAPTION, rows, [cell.numbers() for cell in cells], notes=_notes(cells, others), words=2
    )


def _cells(dataset: str, noise_rate: float, block: Sequence[dict[str, Any]], others: Iterable[str]) -> list[Cell]:
    """Compare MGCE with each other method on the seeds for which both were run."""
    accuracy: dict[str, dict[int, float]] = {}
    for record in best_candidate(block):
        accuracy.setdefault(record["method"], {})[record["seed"]] = 100 * record["accuracy"]
    own, cells = accuracy.get("mgce", {}), []
    for method in others:
        other = accuracy.get(method, {})
        seeds = sorted(own.keys() & other.keys())
        if seeds:
            found = paired_difference([own[seed] for seed in seeds], [other[seed] for seed in seeds])
            cells.append(Cell(dataset, noise_rate, method, found, len(seeds)))
    return cells


def _corrected(cells: Sequence[Cell]) -> list[Cell]:
    """Return the comparisons with p-values corrected by Holm's method, because many tests are made."""
    tested = iter(holm([cell.found.p for cell in cells if cell.seeds > 1]))
    return [replace(cell, corrected=next(tested)) if cell.seeds > 1 else cell for cell in cells]


def _fixed(block: Sequence[dict[str, Any]]) -> str:
    """Return the methods that were run at only one beta, so that no beta was selected, such as `gce 1.4`."""
    betas = {method: {record["beta"] for record in block if record["method"] == method} for method in CHOOSING}
    return ", ".join(f"{method} {next(iter(found)):g}" for method, found in betas.items() if len(found) == 1)


def _notes(cells: Sequence[Cell], others: Mapping[str, str]) -> dict[str, str]:
    """Return sentences that list the data sets on which MGCE is ahead of, behind or level with each other method."""

    def places(method: str, verdict: str) -> list[str]:
        return [
            f"{cell.dataset} at {cell.noise_rate:g}"
            for cell in cells
            if (cell.method, cell.verdict) == (method, verdict)
        ]

    notes = {}
    for method, name in others.items():
        if any(cell.method == method and cell.verdict for cell in cells):
            found = {verdict: ", ".join(places(method, verdict)) for verdict in ("ahead", "behind", "level", "unclear")}
            parts = [f"{verdict} {f'on {where}' if where else 'nowhere'}" for verdict, where in found.items()]
            notes[method] = f"Against {name}, MGCE is {'; '.join(parts)}."
    if {"ce", MINIMAX_MAE} <= notes.keys():
        both = [place for place in places("ce", "ahead") if place in places(MINIMAX_MAE, "ahead")]
        notes["both"] = f"Ahead of both cross-entropy and MAE (minimax): {', '.join(both) or 'nowhere'}."
    return notes
