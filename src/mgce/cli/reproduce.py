"""`mgce reproduce NAME`: reproduce a table or figure of the paper, from the data to the page."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mgce._text import printable
from mgce.cli.env import describe
from mgce.cli.list_options import parse_methods, parse_names, parse_numbers
from mgce.cli.outputs import check_folder
from mgce.cli.terminal import Terminal
from mgce.experiments.paper.items import ITEMS, chosen, plan
from mgce.experiments.paper.plan import BETAS, KNOWN, Options
from mgce.experiments.paper.report import read_reasons, write_report
from mgce.experiments.paper.result import Result, page_name, to_text
from mgce.experiments.paper.specification import PRECISIONS, Place, Specification, check_one_setting, document
from mgce.experiments.paper.sweep import Workers, absent, check, clean, pending, sweep
from mgce.experiments.store import Run, Runs
from mgce.training.resnet import STEMS

METHODS_HELP = f"all, or some of these, with commas between: {', '.join(KNOWN)}."
STEM_HELP = f"First layers of residual networks, {' or '.join(STEMS)} [cifar for images of 32 x 32]."
PRECISION_HELP = f"Of images: {', '.join(PRECISIONS)} [bf16-mixed on a GPU or a processor with AMX]."


def reproduce(
    name: Annotated[str, typer.Argument(help=f"{', '.join(ITEMS)}, or all.")],
    dataset: Annotated[str | None, typer.Option(help="Data sets, with commas between [those of the paper].")] = None,
    methods: Annotated[str, typer.Option(help=METHODS_HELP)] = ",".join(Options().methods),
    betas: Annotated[str, typer.Option(help="Candidates for beta of mgce and gce.")] = ",".join(map(str, BETAS)),
    seeds: Annotated[int, typer.Option(help="Repetitions.")] = 5,
    noise: Annotated[str | None, typer.Option(help="Of Tables 1 and 3: some of 0, 0.2 and 0.4 [all].")] = None,
    stem: Annotated[str | None, typer.Option(help=STEM_HELP)] = None,
    epochs: Annotated[int | None, typer.Option(help="Of images [those of the paper].")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A miniature, to test the set-up in little time.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of the data [$MGCE_DATA_DIR, or ./data].")] = None,
    download: Annotated[bool, typer.Option("--download", help="Download missing data into --data-dir.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for runs and results [mgce-reproduce].")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, ...")] = "cpu",
    precision: Annotated[str | None, typer.Option(help=PRECISION_HELP)] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time [one on each core; 1 unless on cpu].")] = None,
    backend: Annotated[str, typer.Option(help="loky, or dask.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
) -> None:
    """Reproduce a table or figure of the paper, with the paper's numbers beside ours.

    A run trains and measures once. Runs that the output folder already has are not repeated, so an interrupted command
    continues when it is called again. Prints the table; writes it as text, CSV and LaTeX, the figures, a page
    report.html, and the records of all runs.
    """
    options = Options(
        datasets=None if dataset is None else parse_names(dataset),
        methods=parse_methods(methods, KNOWN),
        betas=parse_numbers("betas", betas),
        seeds=seeds,
        smoke=smoke,
        together=device != "cpu",
        noises=None if noise is None else parse_numbers("noise", noise),
        settings={name: value for name, value in (("stem", stem), ("epochs", epochs)) if value is not None},
    )
    names = chosen(name)
    folder = out or Path("mgce-reproduce-smoke" if smoke else "mgce-reproduce")
    check_folder("out", folder)
    read_reasons(folder)  # refuses a damaged file before the work
    data_dir = None if data_dir is None else data_dir.resolve()
    place = Place(data_dir, device, scratch=(folder / "scratch").resolve(), precision=precision)
    workers = Workers(default_jobs(place, backend) if jobs is None else jobs, backend, scheduler)
    store = Runs(folder)
    specifications = plan(name, options)
    if name == "all":
        specifications = _with_data(specifications, store, replace(place, download=download))
    run_all(specifications, store, place, workers, download=download)
    show(write_report(folder, folder), names, folder)


def _with_data(specifications: list[Specification], store: Runs, place: Place) -> list[Specification]:
    """Return the runs whose data are present, and print which data the other runs lack."""
    missing = absent(pending(specifications, store), place)
    if missing:
        left_out = ", ".join(dict.fromkeys(dataset for _, dataset in missing))
        typer.echo(f"Left out because their data are missing: {left_out}.", err=True)
        for sentence in dict.fromkeys(missing.values()):
            typer.echo(f"- {printable(sentence)}", err=True)
    return [run for run in specifications if (run.kind, run.dataset) not in missing]


def run_all(
    specifications: list[Specification], store: Runs, place: Place, workers: Workers, *, download: bool
) -> None:
    """Run the specifications that the store has no results of, with a progress bar, and pack the store."""
    check_one_setting([*(run.specification for run in store.read().values()), *map(document, specifications)])
    clean(store, place)
    todo = pending(specifications, store)
    check(todo, replace(place, download=download))
    console = Terminal(stderr=True)
    # Schedulers and containers stop a command by SIGTERM. It is handled like Ctrl-C, since that stops the workers too;
    # by default, SIGTERM would end this process only, and its workers would keep running.
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if todo:
            _sweep_with_progress(console, todo, store, place, workers)
        store.pack()  # even if nothing was left to run: an earlier command may have been stopped before it packed
    except KeyboardInterrupt:
        folder = store.directory
        console.print(f"Interrupted: the finished runs are in {folder}/, and the same command continues from there.")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def show(results: Mapping[str, Result], names: list[str], folder: Path) -> None:
    """Print the results of these names, and the folder in which all results are."""
    for name in names:
        if name in results:
            typer.echo(printable(to_text(results[name]), keep="\n"))
        elif len(names) == 1:
            typer.echo(f"The runs in {folder}/ do not suffice for {name}.", err=True)
    files = ", ".join(result.name for result in results.values())
    typer.echo(f"{files} are in {folder}/, as text, CSV, LaTeX and in {page_name(list(results.values()))}")


def _sweep_with_progress(
    console: Console,
    todo: list[Specification],
    store: Runs,
    place: Place,
    workers: Workers,
) -> None:
    before, after = (TextColumn(text, markup=False) for text in ("Runs", "left"))
    columns = (before, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), after)
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("", total=len(todo))

        def advance(run: Run) -> None:
            progress.advance(task)

        sweep(todo, store, place, workers=workers, describe=describe, on_finished=advance)


def default_jobs(place: Place, backend: str) -> int:
    """Return the default number of runs at a time: one on each core, or a single one where runs would share a GPU.

    Args:
        place: the device of the runs.
        backend: "loky", or "dask", for which -1 means all of its workers.
    """
    if backend == "dask":
        return -1
    return (os.cpu_count() or 1) if place.device == "cpu" else 1
