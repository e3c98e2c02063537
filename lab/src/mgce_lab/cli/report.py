"""`mgce-lab report RUNS`: write the tables, figures and report page of a folder of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce._messages import expected
from mgce.desk.cli.outputs import check_folder
from mgce_lab.cli.studies import show
from mgce_lab.engine.report import write_report
from mgce_lab.engine.store import Runs
from mgce_lab.paper.items import PAPER
from mgce_lab.protocols.study import BENCHMARK


def report(
    runs: Annotated[Path, typer.Argument(help="The output folder of mgce-lab reproduce or mgce-lab benchmark.")],
    out_dir: Annotated[Path | None, typer.Option(help="Folder for the results [that of the runs].")] = None,
) -> None:
    """Write every table and figure for which the folder has all finished runs; nothing is trained.

    A file reasons.json in a folder of mgce-lab reproduce maps patterns such as "letter/*/gce/*" to sentences. If a cell
    of a table matches a pattern and differs from the paper, the page shows the sentence as the reason.
    """
    if not runs.is_dir():
        raise FileNotFoundError(
            expected("runs", "a folder of mgce-lab reproduce or mgce-lab benchmark that exists", str(runs))
        )
    folder = out_dir or runs
    check_folder("out_dir", folder)
    store = Runs(runs)
    if not store.runs:
        what = "a folder with finished runs of mgce-lab reproduce or mgce-lab benchmark"
        raise ValueError(expected("runs", what, f"{runs}, which has none"))
    kinds = {run.specification.get("kind") for run in store.runs.values()}
    results = write_report(BENCHMARK if kinds & BENCHMARK.by_dataset.keys() else PAPER, store, folder)
    show(results, list(results), folder)
