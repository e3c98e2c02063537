"""Define the study of `mgce-lab benchmark`: its protocols, and the table that is rendered for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mgce_lab.engine.methods import is_mgce
from mgce_lab.engine.result import Result
from mgce_lab.engine.store import Run
from mgce_lab.engine.study import Item, Study
from mgce_lab.protocols.images import LossRun
from mgce_lab.protocols.noise_tables import noise_table
from mgce_lab.protocols.protocols import PROTOCOLS
from mgce_lab.protocols.rate_table import rate_table
from mgce_lab.protocols.selection_table import selection_table
from mgce_lab.protocols.tables import RateRun
from mgce_lab.protocols.training_table import training_table

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
