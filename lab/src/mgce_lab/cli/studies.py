"""Share parts of `mgce-lab reproduce` and `mgce-lab benchmark`: options, the progress bar, and the printed results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mgce._text import printable
from mgce.desk.cli.main import exit_code
from mgce.desk.cli.terminal import Terminal
from mgce_lab.data.sources import DataSource
from mgce_lab.engine.place import PRECISIONS, Place
from mgce_lab.engine.result import Result, page_name, to_text
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Runs
from mgce_lab.engine.study import Study
from mgce_lab.engine.sweep import Workers, carry_out

Smoke = Annotated[bool, typer.Option("--smoke", help="Run a miniature, to test the set-up in little time.")]
DataDir = Annotated[Path | None, typer.Option(help="Local copies of the data [$MGCE_DATA_DIR, or ./data].")]
Download = Annotated[bool, typer.Option("--download", help="Download missing data into --data-dir.")]
Device = Annotated[str, typer.Option(help="Where to train: cpu, cuda, ...")]
Precision = Annotated[
    str | None,
    typer.Option(help=f"For images: {', '.join(PRECISIONS)} [bf16-mixed on a GPU or a processor with AMX]."),
]
Jobs = Annotated[int | None, typer.Option(help="Runs at a time [one on each core; 1 unless on cpu].")]


def data_source(data_dir: Path | None, download: bool) -> DataSource:
    """Return the source of data sets, with an absolute path that is valid whatever the working folder of a process."""
    return DataSource(None if data_dir is None else data_dir.resolve(), download)


def run_with_progress(
    study: Study[Any], specifications: Sequence[Specification], store: Runs, place: Place, workers: Workers
) -> None:
    """Run all specifications that have no stored results, with a progress bar; Ctrl-C exits and keeps finished runs."""
    console = Terminal(stderr=True)
    before, after = (TextColumn(text, markup=False) for text in ("Runs", "left"))
    columns = (before, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), after, TimeRemainingColumn())
    progress = Progress(*columns, console=console)
    task = progress.add_task("")
    try:
        with ExitStack() as stack:

            def advance(done: int, total: int) -> None:
                if done == 0:
                    stack.enter_context(progress)
                progress.update(task, completed=done, total=total)

            carry_out(study, specifications, store, place, workers, advance)
    except KeyboardInterrupt as error:
        folder = store.directory
        console.print(f"Interrupted: the finished runs are in {folder}/, and the same command continues from there.")
        raise typer.Exit(exit_code(error)) from None


def show(results: Mapping[str, Result], names: Sequence[str], folder: Path) -> None:
    """Print the results with these names, and the folder that holds the files of all results."""
    for name in names:
        if name in results:
            typer.echo(printable(to_text(results[name]), keep="\n"))
        elif len(names) == 1:
            typer.echo(f"The runs in {folder}/ do not suffice for {name}.", err=True)
    files = ", ".join(result.name for result in results.values())
    typer.echo(f"{files} are in {folder}/, as text, CSV, LaTeX and in {page_name(list(results.values()))}")
