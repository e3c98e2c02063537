"""`mgce fit TABLE --target COLUMN`: a robust classifier of a table, with a certificate and a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from mgce._files import write_files
from mgce._validation import expected
from mgce.cli.env import describe
from mgce.cli.noise_options import NOISE, NOISE_RATE, parse_rate
from mgce.cli.outputs import check_output
from mgce.cli.terminal import Terminal
from mgce.datasets.tables import read_frame
from mgce.tables import report as fit_report
from mgce.tables.fit import FitPlan, TableFit, run

SHOWN_SUSPECTS = 10  # in the terminal; the report has more


def fit(
    table: Annotated[Path, typer.Argument(help="A .csv or .parquet file, a row for each example.")],
    target: Annotated[str, typer.Option(help="Column with the labels.")],
    beta: Annotated[str, typer.Option(help="A number in [1, inf], or cv: chosen by accuracy on training rows.")] = "cv",
    model: Annotated[
        str,
        typer.Option(
            help="linear: convex, quick, good where rows are few or columns many. mlp: a neural network, better where "
            "columns act together and there are thousands of rows; takes minutes."
        ),
    ] = "linear",
    noise_rate: Annotated[str, typer.Option(help=NOISE_RATE)] = "0",
    noise: Annotated[str, typer.Option(help=NOISE)] = "symmetric",
    delta: Annotated[float, typer.Option(help="Probability with which the certificate may fail.")] = 0.05,
    holdout: Annotated[float, typer.Option(help="Share of the rows kept for the certificate.")] = 0.25,
    id: Annotated[str | None, typer.Option(help="Column that names the rows; it is not learnt from.")] = None,
    seed: Annotated[int, typer.Option(help="Of the split, the folds and the network.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="File for the model, with the report beside it [TABLE's name with .skops].")
    ] = None,
) -> None:
    """Fit a classifier to a table whose labels may be partly wrong, and say how wrong it can be.

    Columns may be numbers or categories, with values missing. Beta is chosen on the training rows; the rows held
    out serve only to measure the model, for the certificate and the calibration. Writes the model and an HTML report.
    """
    plan = FitPlan(target, id, model, _beta(beta), parse_rate(noise_rate), noise, delta, holdout, seed)
    out = out or Path(f"{table.stem}.skops")
    check_output("out", out, table)
    report = out.with_suffix(".html")
    check_output("out", report, table, out)
    console = Terminal()
    start = time.monotonic()
    try:
        frame = read_frame(table, "table", text=[target, *([id] if id else [])])
        result = _run_with_progress(console, frame, plan)
        page = fit_report.page(result, plan, table.name, out.name, describe())
        files = {out.name: result.model.to_bytes(), report.name: page}
    except KeyboardInterrupt:
        console.print("Interrupted: nothing was written.")
        raise typer.Exit(130) from None
    write_files(out.parent, files)
    _summarize(console, result, plan)
    seconds = time.monotonic() - start
    console.print(f"Took {seconds:.0f} s. The model is in {out}, the report in {report}.", markup=False)


def _run_with_progress(console: Console, frame: pd.DataFrame, plan: FitPlan) -> TableFit:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Fitting", total=None)
        return run(
            frame,
            plan,
            lambda what, done, total: progress.update(task, description=what, completed=done, total=total),
        )


def _summarize(console: Console, result: TableFit, plan: FitPlan) -> None:
    quality, beta = result.quality, result.model.beta
    console.print(fit_report.headline(result, plan), markup=False)
    origin = "as given" if plan.beta is not None else f"chosen by accuracy {result.choice.measured_on}"
    console.print(f"Beta: {beta:g}, {origin}.", markup=False)
    grid = Grid(title="Rows held out, %", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for name in ("accuracy", "ECE(h)", "ECE(p)", "SCE(h)", "SCE(p)"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_row(*(f"{100 * quality[name]:.1f}" for name in ("accuracy", "ece_h", "ece_p", "sce_h", "sce_p")))
    console.print(grid)
    console.print(str(result.certificate), markup=False)
    for note in result.notes:
        console.print(f"Note: {note}", markup=False)
    if result.suspects:
        console.print(_suspects(result, plan))


def _suspects(result: TableFit, plan: FitPlan) -> Grid:
    grid = Grid(title="Most suspect labels", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for number, name in enumerate((plan.id or "row", "given", "suggested", "h(given)", "p(given)", "loss")):
        grid.add_column(Text(name), justify="right" if number > 2 else "left")
    for suspect in result.suspects[:SHOWN_SUSPECTS]:
        grid.add_row(*map(Text, fit_report.suspect_cells(suspect)))
    return grid


def _beta(text: str) -> float | None:
    if text == "cv":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(expected("beta", "a number in [1, inf] or 'cv'", text)) from None
