"""Print what `mgce fit` found, and what the user can do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table as Grid
from rich.text import Text as Plain

from mgce.desk.cli.terminal import Terminal
from mgce.desk.tables import report
from mgce.desk.tables.annotations import annotator_sentences
from mgce.desk.tables.fit import TableFit
from mgce.desk.tables.suspects_report import (
    checked_sentences,
    line_cells,
    suspect_cells,
    suspect_head,
    terminal_steps,
    widths,
)

SHOWN_SUSPECTS = 10  # suspect rows that are printed: half a screen; the report has more, and the file has all rows


def print_fit(console: Terminal, result: TableFit, steps: Mapping[str, str], notes: Sequence[str]) -> None:
    """Print what was found, the most suspect rows, and the commands to type next.

    Args:
        console: where to print.
        result: the fit.
        steps: sentences on what to do next, each with its command.
        notes: sentences on the changed tables that were written.
    """
    for sentence in _on_the_model(result):
        console.print(sentence)
    console.print_notes([*result.notes, *notes])
    for sentence in _on_the_labels(result):
        console.print(sentence)
    rows = result.judgement.suspects(SHOWN_SUSPECTS)
    if rows.size:
        console.print(_suspects_grid(result, rows))
    if foretold := widths(result):
        console.print(foretold)
    stop, *lines = terminal_steps(result, steps)
    console.print(stop)
    for line in lines:
        console.print(line, soft_wrap=True)  # a command is copied in one piece


def _on_the_model(result: TableFit) -> list[str]:
    """Return sentences on the model, its certificate, and the table that it was fitted to."""
    trial = result.choice.trial
    learnt = "" if result.findings is None else " against the mended labels"
    of_given = report.against_given(result)
    return [
        report.headline(result),
        *([result.certificate.caution] if result.certificate.caution else []),
        f"Model: {trial.name}. Its accuracy{learnt} was {trial.accuracy:.1%} {result.choice.measured_on}.",
        report.which_model(result),
        *([of_given] if of_given else []),
        "The report lists what the bound assumes, and calibration errors of the probabilities.",
        f"Read {report.reading(result)}",
    ]


def _on_the_labels(result: TableFit) -> list[str]:
    """Return sentences on checked labels, on annotators, and on how many labels are wrong."""
    annotators = [] if result.consensus is None else annotator_sentences(result.consensus)
    return [*checked_sentences(result), *annotators, report.wrong_labels(result)]


def _suspects_grid(result: TableFit, rows: NDArray[np.int64]) -> Grid:
    """Return a table to print of the rows with these indices; names and labels are `Plain`, without rich's markup."""
    title = "Most suspect labels" if result.consensus is None else "Most doubtful consensus labels"
    grid = Grid(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for place, name in enumerate(suspect_head(result)):
        grid.add_column(Plain(name), justify="left" if place < 3 else "right")
    for row in rows.tolist():
        grid.add_row(*map(Plain, [*suspect_cells(result, row), *line_cells(result, row)]))
    return grid
