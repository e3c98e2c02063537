"""Define the study of `mgce benchmark`: its protocols, and the table that is rendered for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mgce.experiments.benchmark.images import LossRun
from mgce.experiments.benchmark.noise_tables import noise_table
from mgce.experiments.benchmark.protocols import PROTOCOLS
from mgce.experiments.benchmark.rate_table import rate_table
from mgce.experiments.benchmark.selection_table import selection_table
from mgce.experiments.benchmark.tables import RateRun
from mgce.experiments.benchmark.training_table import training_table
from mgce.experiments.methods import is_mgce
from mgce.runs.result import Result
from mgce.runs.store import Run
from mgce.runs.study import Item, Study

RENDERED: Mapping[str, Callable[[Sequence[Run]], Result | None]] = {
    **{name: partial(noise_table, name) for name in ("p1", "p2", "reduced")},
    "training": training_table,
    "selection": selection_table,
    "rates": rate_table,
}


def headline(results: Sequence[Result]) -> str:
    """Return a sentence for each data set and noise: which loss has the best accuracy, and which rank MGCE has."""
    sentences = []
    for result in results:
        cells: dict[tuple[str, ...], list[str]] = {}
        for row in result.cells:
            key = tuple(row[name] for name in ("dataset", "noise") if name in row)
            cells.setdefault(key, []).append(row["loss"])
        for key, losses in cells.items():
            own = next((place for place, loss in enumerate(losses, 1) if is_mgce(loss)), None)
            place = "without MGCE" if own is None else f"{losses[own - 1]} is number {own}"
            sentences.append(f"{' '.join(key)}: {losses[0]} is first of {len(losses)}, {place}")
    return ". ".join(sentences) + "."


ITEMS = {name: Item(RENDERED[name], planned) for name, planned in PROTOCOLS.items()}
BENCHMARK = Study("Robust losses compared", (LossRun, RateRun), ITEMS, headline)
