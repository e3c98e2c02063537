"""From the finished runs of a protocol to its tables, pictures and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mgce._files import write_files
from mgce.experiments.benchmark.noise_tables import KIND as LOSSES
from mgce.experiments.benchmark.noise_tables import noise_tables
from mgce.experiments.benchmark.rate_table import KIND as RATES
from mgce.experiments.benchmark.rate_table import rate_table
from mgce.experiments.benchmark.selection_table import selection_table
from mgce.experiments.benchmark.training_table import training_table
from mgce.experiments.methods import is_mgce
from mgce.experiments.paper.page import section
from mgce.experiments.paper.report import facts
from mgce.experiments.paper.result import Result, files, page_name, smoke
from mgce.experiments.paper.specification import check_no_network_twice, check_one_setting
from mgce.experiments.store import Run, Runs
from mgce.pages import web_page

TITLE = "Robust losses compared"


def has_losses(runs: Sequence[Run]) -> bool:
    """Say whether there are runs of a protocol that compares losses, and not of the paper's tables."""
    return any(run.specification["kind"] in (LOSSES, RATES) for run in runs)


def write_benchmark(directory: Path, out: Path) -> Mapping[str, Result]:
    """Render what the finished runs of a folder suffice for, and write it to `out`.

    Returns:
        The tables by name.

    Raises:
        ValueError: if a file is damaged, or the runs are not of one setting.
    """
    runs = list(Runs(directory).read().values())
    check_one_setting([run.specification for run in runs])
    check_no_network_twice([run.specification for run in runs])
    found = [*noise_tables(runs), training_table(runs), selection_table(runs), rate_table(runs)]
    results = {result.name: result for result in found if result is not None}
    if any(run.specification.get("smoke") for run in runs):
        results = {name: smoke(result) for name, result in results.items()}
    contents = {name: content for result in results.values() for name, content in files(result).items()}
    sections = {result.title: section(result) for result in results.values()}
    shown = list(results.values())
    lead = headline(shown)
    page = web_page.document(TITLE, lead, {**sections, "Runs": web_page.facts(facts(runs))}, broad=True)
    write_files(out, {**contents, page_name(shown): page})
    return results


def headline(results: Sequence[Result]) -> str:
    """Say which losses come first, and where MGCE comes."""
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
