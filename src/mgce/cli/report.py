"""`mgce report RUNS`: write the tables, figures and page of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce._validation import expected
from mgce.cli.outputs import check_folder
from mgce.cli.reproduce import show
from mgce.experiments.benchmark.report import has_losses, write_benchmark
from mgce.experiments.paper.report import write_report
from mgce.experiments.store import Runs


def report(
    runs: Annotated[Path, typer.Argument(help="The output folder of mgce reproduce or mgce benchmark.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results [that of the runs].")] = None,
) -> None:
    """Write every table and figure that the finished runs in a folder suffice for; nothing is trained.

    A file reasons.json in a folder of mgce reproduce maps patterns such as "letter/*/gce/*" to sentences. Where a cell
    of a table matches a pattern and differs from the paper, the page shows the sentence as the reason.
    """
    if not runs.is_dir():
        raise FileNotFoundError(expected("runs", "a folder of mgce reproduce or mgce benchmark that exists", str(runs)))
    folder = out or runs
    check_folder("out", folder)
    finished = list(Runs(runs).read().values())
    if not finished:
        what = "a folder with finished runs of mgce reproduce or mgce benchmark"
        raise ValueError(expected("runs", what, f"{runs}, which has none"))
    write = write_benchmark if has_losses(finished) else write_report
    results = write(runs, folder)
    show(results, list(results), folder)
