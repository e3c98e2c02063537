"""`mgce fit TABLE --target COLUMN`: fit a robust classifier to a table, with a certificate and a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from mgce._files import write_files
from mgce._validation import check_count, expected
from mgce.cli.noise_options import NOISE_RATE, NOISE_TYPE, parse_rate
from mgce.cli.outputs import STDOUT, Json, Quiet, check_json, check_output, check_table, write_json
from mgce.cli.table_options import TABLE, Decimal, Drop, Encoding, Sep, columns_of
from mgce.cli.terminal import Terminal, nothing_written_if_interrupted
from mgce.datasets.reading import Reading
from mgce.datasets.table_files import (
    STDIN,
    TextFormat,
    read_accounted,
    table_name,
    text_without_rows,
    to_csv,
    to_parquet,
)
from mgce.runs.machine import describe
from mgce.tables import report as fit_report
from mgce.tables.fit import FitPlan, TableFit, run
from mgce.tables.summary import summary
from mgce.tables.suspects import suspects_csv

SHOWN_SUSPECTS = 10  # suspect rows that are printed: half a screen; the report has more, and the file has all rows


def fit(
    table: Annotated[Path, typer.Argument(help=TABLE)],
    target: Annotated[str, typer.Option(help="Column with the labels.")],
    beta: Annotated[str, typer.Option(help="A number in [1, inf], or cv: chosen by accuracy on training rows.")] = "cv",
    model: Annotated[
        str,
        typer.Option(
            help="auto: the average of those of the following that do well on training rows. forest: decision trees. "
            "boosting: of trees, on corrected labels. linear: convex, quick. fourier: convex, for classes that no "
            "plane separates. mlp: a neural network."
        ),
    ] = "auto",
    metric: Annotated[
        str,
        typer.Option(help="accuracy; or balanced: the mean accuracy of all labels, so that rare ones count as much."),
    ] = "accuracy",
    budget: Annotated[float, typer.Option(help="Seconds of processor time to choose and fit the model, about.")] = 60.0,
    noise_rate: Annotated[str, typer.Option(help=NOISE_RATE)] = "0",
    noise_type: Annotated[str, typer.Option(help=NOISE_TYPE)] = "symmetric",
    coverage: Annotated[float, typer.Option(help="Share of rows whose prediction set contains the label.")] = 0.9,
    delta: Annotated[float, typer.Option(help="Probability with which the certificate may fail.")] = 0.05,
    holdout: Annotated[float, typer.Option(help="Share of the rows kept for the certificate.")] = 0.25,
    id: Annotated[str | None, typer.Option(help="Column that names the rows; it is not learnt from.")] = None,
    drop: Drop = None,
    groups: Annotated[
        str | None, typer.Option(help="Column whose equal values mark rows to be held out together, or not at all.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders the rows: the last ones are held out.")] = None,
    suspects: Annotated[int, typer.Option(help="Rows with suspect labels in the report, at most.")] = 50,
    cleaned: Annotated[
        Path | None, typer.Option(help="File for the table without the rows whose label looks wrong, .csv or .parquet.")
    ] = None,
    formulas: Annotated[
        bool,
        typer.Option("--formulas", help="Write cells of --cleaned as they are, even if a spreadsheet would run them."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random draws: rows held out, folds, models.")] = 0,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    jobs: Annotated[int, typer.Option(help="Trees of a forest grown at once; -1: one on each core.")] = -1,
    json_file: Json = None,
    quiet: Quiet = False,
    out: Annotated[
        Path | None, typer.Option(help="File for the model, with the report beside it [TABLE's name with .skops].")
    ] = None,
) -> None:
    """Fit a classifier to a table whose labels may be partly wrong, and say how wrong it can be.

    Columns may be numbers, dates or categories, with values missing. Models are chosen and averaged on the training
    rows; the rows held out measure the average, for the certificate and the calibration. Then the average is fitted
    once more, to all rows: that is the model in the file. Writes the model, an HTML report, and NAME.suspects.csv:
    every row, those with the most suspect label first. In CSV files, a cell that a spreadsheet would run as a formula
    gets an apostrophe in front.
    """
    plan = FitPlan(
        target,
        id,
        drop=columns_of(drop),
        groups=groups,
        time=time,
        holdout=holdout,
        seed=seed,
        model=model,
        beta=_beta(beta),
        noise_rate=parse_rate(noise_rate),
        noise_type=noise_type,
        coverage=coverage,
        delta=delta,
        budget=budget,
        metric=metric,
    )
    form = TextFormat(sep, decimal, encoding)
    outputs = _Outputs(out or Path(f"{table_name(table)}.skops"), cleaned)
    outputs.check(table, json_file)
    if jobs == 0 or jobs < -1:
        raise ValueError(expected("jobs", "a positive number, or -1", jobs))
    check_count("suspects", suspects, minimum=0)
    console = Terminal(quiet=quiet or json_file == STDOUT)
    start = monotonic()
    with nothing_written_if_interrupted(console):
        named = [name for name in (id, groups) if name is not None]
        frame, reading = read_accounted(table, "table", text=[target, *named], classes=[target], form=form)
        result = _run_with_progress(console, frame, plan, jobs, reading)
        files = outputs.contents(result, plan, table.name, suspects)
    write_files(outputs.model.parent, files)
    if cleaned is not None:
        wrong = result.row_names.index[result.judgement.is_issue]
        content, marked = _without_rows(table, frame, wrong, cleaned, form, formulas=formulas)
        write_files(cleaned.parent, {cleaned.name: content})
        result = replace(result, notes=[*result.notes, *marked])
    write_json(json_file, {"table": table.name, "files": [*files], **summary(result, plan)})
    _print_summary(console, result, plan)
    console.print(f"Took {monotonic() - start:.0f} s. {outputs}", markup=False)


@dataclass(frozen=True)
class _Outputs:
    """The files that the command writes: three in one folder, named after the model's file, and the cleaned table."""

    model: Path
    cleaned: Path | None

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.model.with_suffix(".html")

    @property
    def suspects(self) -> Path:
        """The rows by how suspect their labels are."""
        return self.model.with_suffix(".suspects.csv")

    def check(self, table: Path, json_file: Path | None) -> None:
        """Require, before the work begins, that all files can be written and none replaces another or the table."""
        check_output("out", self.model, table)
        for path in (self.report, self.suspects):
            check_output("out", path, table, self.model)
        written = [self.model, self.report, self.suspects]
        if self.cleaned is not None:
            check_output("cleaned", self.cleaned, table, *written)
            check_table("cleaned", self.cleaned)
            written.append(self.cleaned)
        check_json(json_file, table, *written)

    def contents(self, result: TableFit, plan: FitPlan, table: str, n_suspects: int) -> dict[str, bytes]:
        """Return the content of the three files by their names, for the table's file of this name."""
        return {
            self.model.name: result.model.to_bytes(),
            self.report.name: fit_report.page(result, plan, table, self.model.name, describe(), n_suspects),
            self.suspects.name: suspects_csv(result.judgement, result.model.classes, result.row_names),
        }

    def __str__(self) -> str:
        return (
            f"The model is in {self.model}, the report in {self.report}, and all rows, those with the most suspect "
            f"label first, in {self.suspects}."
            + (f" The rows whose label does not look wrong are in {self.cleaned}." if self.cleaned else "")
        )


def _without_rows(
    table: Path, frame: pd.DataFrame, rows: pd.Index, cleaned: Path, form: TextFormat, *, formulas: bool
) -> tuple[bytes, list[str]]:
    """Return the table without some rows, and a note if formulas in its cells got an apostrophe.

    Of a text file that can be read again, the cells stay as they are written.
    """
    if cleaned.suffix.lower() == ".parquet":
        return to_parquet(frame.drop(index=rows)), []
    if table == STDIN or table.suffix.lower() == ".parquet":
        as_they_are, safe = (to_csv(frame.drop(index=rows), None, formulas=raw) for raw in (True, False))
    else:
        as_they_are, safe = (text_without_rows(table, rows.tolist(), form, formulas=raw) for raw in (True, False))
    if formulas or safe == as_they_are:
        return as_they_are, []
    what = (
        "cells that a spreadsheet would run as formulas have an apostrophe in front; --formulas leaves them as they are"
    )
    return safe, [f"In {cleaned}, {what}."]


def _run_with_progress(console: Console, frame: pd.DataFrame, plan: FitPlan, jobs: int, reading: Reading) -> TableFit:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Fitting", total=None)
        return run(
            frame,
            plan,
            lambda step, number, total: progress.update(task, description=step, completed=number, total=total),
            jobs,
            reading,
        )


def _print_summary(console: Console, result: TableFit, plan: FitPlan) -> None:
    quality, trial = result.quality, result.choice.trial
    console.print(fit_report.headline(result, plan), markup=False)
    console.print(
        f"Model: {trial.name}. Its accuracy was {trial.accuracy:.1%} {result.choice.measured_on}.", markup=False
    )
    console.print(fit_report.which_model(result), markup=False)
    grid = Grid(title="Rows held out, %", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for name in ("accuracy", "ECE(h)", "ECE(p)", "SCE(h)", "SCE(p)"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_row(*(f"{100 * quality[name]:.1f}" for name in ("accuracy", "ece_h", "ece_p", "sce_h", "sce_p")))
    console.print(grid)
    console.print(str(result.certificate), markup=False)
    console.print(f"Read {fit_report.reading(result, plan)}", markup=False)
    for note in result.notes:
        console.print(f"Note: {note}", markup=False)
    console.print(fit_report.wrong_labels(result), markup=False)
    rows = result.judgement.suspects(SHOWN_SUSPECTS)
    if rows.size:
        console.print(_suspects_grid(result, plan, rows))


def _suspects_grid(result: TableFit, plan: FitPlan, rows: NDArray[np.int64]) -> Grid:
    """Show the rows of these indices. Names and labels are passed as `Text`, in which rich looks for no markup."""
    grid = Grid(title="Most suspect labels", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for name in (plan.id or "row", "given", "suggested"):
        grid.add_column(Text(name))
    grid.add_column("wrong", justify="right")
    for row in rows:
        grid.add_row(*map(Text, fit_report.suspect_cells(result, int(row))))
    return grid


def _beta(text: str) -> float | None:
    """Read a beta: a number, or "cv", which becomes None."""
    if text == "cv":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(expected("beta", "a number in [1, inf] or 'cv'", text)) from None
