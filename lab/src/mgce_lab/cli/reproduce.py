"""`mgce-lab reproduce NAME`: reproduce a table or figure of the paper, and write a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce._text import printable
from mgce.desk.cli.outputs import check_folder
from mgce.desk.cli.shared_options import parse_names
from mgce_lab.cli.lists import parse_methods, parse_numbers
from mgce_lab.cli.studies import DataDir, Device, Download, Jobs, Precision, Smoke, data_source, run_with_progress, show
from mgce_lab.engine.methods import KNOWN
from mgce_lab.engine.place import Place
from mgce_lab.engine.report import read_reasons, write_report
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Runs
from mgce_lab.engine.sweep import Workers, absent, pending
from mgce_lab.images.resnet import STEMS
from mgce_lab.paper.items import ITEMS, PAPER, chosen, plan
from mgce_lab.paper.plan import BETAS, Options

METHODS_HELP = f"all, or some, separated by commas: {', '.join(KNOWN)}; NAME@BETA is a loss at a fixed beta."
STEM_HELP = f"First layers of residual networks, {' or '.join(STEMS)} [cifar for images of 32 x 32]."


def reproduce(
    name: Annotated[str, typer.Argument(help=f"{', '.join(ITEMS)}, or all.")],
    dataset: Annotated[str | None, typer.Option(help="Data sets, separated by commas [those of the paper].")] = None,
    methods: Annotated[str, typer.Option(help=METHODS_HELP)] = ",".join(Options().methods),
    betas: Annotated[str, typer.Option(help="Candidates for beta of mgce and gce.")] = ",".join(map(str, BETAS)),
    seeds: Annotated[int, typer.Option(help="Repetitions.")] = 5,
    noise_rate: Annotated[str | None, typer.Option(help="For Tables 1 and 3: some of 0, 0.2 and 0.4 [all].")] = None,
    stem: Annotated[str | None, typer.Option(help=STEM_HELP)] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs for images [those of the paper].")] = None,
    smoke: Smoke = False,
    data_dir: DataDir = None,
    download: Download = False,
    out_dir: Annotated[Path | None, typer.Option(help="Folder for runs and results [mgce-reproduce].")] = None,
    device: Device = "cpu",
    precision: Precision = None,
    jobs: Jobs = None,
    backend: Annotated[str, typer.Option(help="loky, or dask.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
) -> None:
    """Reproduce a table or figure of the paper, and show the paper's numbers beside the reproduced ones.

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
        noise_rates=None if noise_rate is None else parse_numbers("noise-rate", noise_rate),
        settings={name: value for name, value in (("stem", stem), ("epochs", epochs)) if value is not None},
    )
    names = chosen(name)
    folder = out_dir or Path("mgce-reproduce-smoke" if smoke else "mgce-reproduce")
    check_folder("out_dir", folder)
    read_reasons(folder)  # refuses a damaged file before the work
    place = Place(data_source(data_dir, download), device, (folder / "scratch").resolve(), precision)
    workers = Workers.of(place, jobs, backend, scheduler)
    specifications, store = plan(name, options), Runs(folder)
    if name == "all":
        specifications = _with_data(specifications, store, place)
    run_with_progress(PAPER, specifications, store, place, workers)
    show(write_report(PAPER, store, folder), names, folder)


def _with_data(specifications: list[Specification], store: Runs, place: Place) -> list[Specification]:
    """Return the runs whose data sets are present; print which data sets are missing for the other runs."""
    missing = absent(pending(specifications, store), place)
    if missing:
        left_out = ", ".join(dict.fromkeys(dataset for _, dataset in missing))
        typer.echo(f"Left out because their data are missing: {left_out}.", err=True)
        for sentence in dict.fromkeys(missing.values()):
            typer.echo(f"- {printable(sentence)}", err=True)
    return [run for run in specifications if (run.kind, run.dataset) not in missing]
