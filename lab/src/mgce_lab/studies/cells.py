"""Results of methods sorted into cells of table, noise and seed, and the ranks, counts and tests of methods in them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from scipy.stats import rankdata, wilcoxon

from mgce_lab.engine.significance import holm

OURS = "mgce fit"
SIGNS = {"accuracy": 1, "balanced": 1, "log_loss": -1}  # of the measures, such that more is better
TABLE, PAIR, CELL = slice(1), slice(3), slice(4)  # parts of a cell by which results are put together
Cell = tuple[str, str, float, int]  # table, kind of noise, rate, seed
Cells = dict[Cell, dict[str, dict[str, Any]]]  # of each cell, the result of each method


def whole_cells(results: Iterable[dict[str, Any]]) -> tuple[Cells, list[str]]:
    """Sort results into cells, and keep those in which no method is missing; give the methods too."""
    found: defaultdict[Cell, dict[str, dict[str, Any]]] = defaultdict(dict)
    for result in results:
        found[result["table"], result["noise"], result["rate"], result["seed"]][result["method"]] = result
    methods = list(dict.fromkeys(name for cell in found.values() for name in cell))
    return {cell: by_method for cell, by_method in found.items() if len(by_method) == len(methods)}, methods


def with_noise(cells: Cells, noise: tuple[str, float]) -> Cells:
    """Return the cells of a kind and rate of noise."""
    return {cell: by_method for cell, by_method in cells.items() if cell[1:3] == noise}


def with_wrong_labels(cells: Cells) -> Cells:
    """Return the cells with wrong labels."""
    return {cell: by_method for cell, by_method in cells.items() if cell[2] > 0}


def kinds_of(cells: Cells) -> list[tuple[str, float]]:
    """Return the kinds and rates of noise, each once."""
    return list(dict.fromkeys((kind, rate) for _, kind, rate, _ in cells))


def mean_rank(cells: Cells, among: Sequence[str], method: str, key: str = "accuracy") -> float:
    """Return the mean rank of a method among several, 1 for the best; equals share their ranks."""
    ranks = [
        rankdata([-SIGNS[key] * cell[name][key] for name in among])[among.index(method)] for cell in cells.values()
    ]
    return statistics.fmean(ranks)


def gaps(cells: Cells, other: str, key: str = "accuracy") -> list[float]:
    """Return by how much ours is better than another method in each cell."""
    return [SIGNS[key] * (cell[OURS][key] - cell[other][key]) for cell in cells.values()]


def won(cells: Cells, other: str, key: str = "accuracy", unit: slice = CELL) -> str:
    """Return the numbers of cells, or of tables, in which ours is better, equal and worse."""
    found = means_of_gaps(cells, other, key, unit)
    return " / ".join(str(sum(which)) for which in zip(*((d > 0, d == 0, d < 0) for d in found), strict=True))


def p_values(cells: Cells, others: Sequence[str], key: str = "accuracy", unit: slice = PAIR) -> dict[str, float]:
    """Test ours against each other method by Wilcoxon's signed-rank test, corrected by Holm's method.

    A pair is the mean over seeds of a table and noise, or, by the unit `TABLE`, the mean over all cells of a table.
    Cells of a table are alike, which makes p of the former smaller than as many tables would.
    """
    found = [means_of_gaps(cells, other, key, unit) for other in others]
    corrected = holm([float(wilcoxon(each).pvalue) if any(each) else 1.0 for each in found])
    return dict(zip(others, corrected, strict=True))


def means_of_gaps(cells: Cells, other: str, key: str, unit: slice) -> list[float]:
    """Return by how much ours is better than another method in the mean over the cells of each unit."""
    by_unit: defaultdict[tuple[Any, ...], list[float]] = defaultdict(list)
    for cell, value in zip(cells, gaps(cells, other, key), strict=True):
        by_unit[cell[unit]].append(value)
    return [statistics.fmean(values) for values in by_unit.values()]


def shown_p(p: float) -> str:
    """Return a p-value as text."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def mean_of(cells: Cells, method: str, key: str, scale: float = 100, digits: int = 1) -> str:
    """Return a mean as text; nothing where no cell has it."""
    values = [scale * by_method[method][key] for by_method in cells.values() if key in by_method[method]]
    return f"{statistics.fmean(values):.{digits}f}" if values else ""


def named(noise: tuple[str, float]) -> str:
    """Name a kind and rate of noise."""
    kind, rate = noise
    return f"{rate:.0%} {kind} noise" if rate else "right labels"


def code(name: str) -> str:
    """Mark a command as code; a page would show its two hyphens as a dash."""
    return f"`{name}`" if name == OURS else name
