"""`mgce-lab benchmark PROTOCOL`: compare all robust losses under one experimental protocol, and write a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce.desk.cli.outputs import check_folder
from mgce.desk.cli.shared_options import parse_names
from mgce_lab.cli.lists import parse_numbers
from mgce_lab.cli.studies import DataDir, Device, Download, Jobs, Precision, Smoke, data_source, run_with_progress, show
from mgce_lab.engine.place import Place
from mgce_lab.engine.report import write_report
from mgce_lab.engine.store import Runs
from mgce_lab.engine.sweep import Workers
from mgce_lab.protocols.protocols import PROTOCOLS, Request, plan
from mgce_lab.protocols.study import BENCHMARK


def benchmark(
    protocol: Annotated[str, typer.Argument(help=f"{', '.join(PROTOCOLS)}.")],
    dataset: Annotated[str | None, typer.Option(help="Data sets, separated by commas [the protocol's].")] = None,
    methods: Annotated[str, typer.Option(help="all, or losses separated by commas.")] = "all",
    noise_rate: Annotated[str | None, typer.Option(help="Rates of wrong labels, with commas [the protocol's].")] = None,
    seeds: Annotated[int | None, typer.Option(help="Repetitions [the protocol's].")] = None,
    smoke: Smoke = False,
    data_dir: DataDir = None,
    download: Download = False,
    out_dir: Annotated[Path | None, typer.Option(help="Folder for runs and results [mgce-benchmark-PROTOCOL].")] = None,
    device: Device = "cpu",
    precision: Precision = None,
    jobs: Jobs = None,
) -> None:
    """Compare all robust losses under a published experimental protocol, or a smaller one of this package.

    Prints the tables; writes them as text, CSV and LaTeX, pictures, a page report.html and the records of all runs.
    Runs that the output folder already has are not repeated, so an interrupted command continues when it is called
    again. The logits of the test rows are kept in the subfolder `logits`, so that other measures can be computed later
    without training.
    """
    request = Request(
        datasets=None if dataset is None else parse_names(dataset),
        methods=None if methods.strip() == "all" else parse_names(methods),
        noise_rates=None if noise_rate is None else parse_numbers("noise-rate", noise_rate),
        seeds=seeds,
        smoke=smoke,
    )
    runs = plan(protocol, request)
    folder = (out_dir or Path(f"mgce-benchmark-{protocol}{'-smoke' if smoke else ''}")).resolve()
    check_folder("out_dir", folder)
    place = Place(data_source(data_dir, download), device, folder / "scratch", precision, folder / "logits")
    store = Runs(folder)
    run_with_progress(BENCHMARK, runs, store, place, Workers.of(place, jobs))
    results = write_report(BENCHMARK, store, folder)
    show(results, list(results), folder)
