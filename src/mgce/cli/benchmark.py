"""`mgce benchmark PROTOCOL`: compare every robust loss by one protocol, from the data to the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce.cli.list_options import parse_names, parse_numbers
from mgce.cli.outputs import check_folder
from mgce.cli.reproduce import PRECISION_HELP, default_jobs, run_all, show
from mgce.experiments.benchmark.protocols import PROTOCOLS, Request, plan
from mgce.experiments.benchmark.report import write_benchmark
from mgce.experiments.paper.specification import Place
from mgce.experiments.paper.sweep import Workers
from mgce.experiments.store import Runs


def benchmark(
    protocol: Annotated[str, typer.Argument(help=f"{', '.join(PROTOCOLS)}.")],
    dataset: Annotated[str | None, typer.Option(help="Data sets, with commas between [the protocol's].")] = None,
    methods: Annotated[str, typer.Option(help="all, or losses with commas between.")] = "all",
    noise: Annotated[str | None, typer.Option(help="Rates of wrong labels, with commas [the protocol's].")] = None,
    seeds: Annotated[int | None, typer.Option(help="Repetitions [the protocol's].")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A miniature, to test the set-up in little time.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of the data [$MGCE_DATA_DIR, or ./data].")] = None,
    download: Annotated[bool, typer.Option("--download", help="Download missing data into --data-dir.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for runs and results [mgce-benchmark-PROTOCOL].")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, ...")] = "cpu",
    precision: Annotated[str | None, typer.Option(help=PRECISION_HELP)] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time [one on each core; 1 unless on cpu].")] = None,
) -> None:
    """Compare every robust loss by a protocol that published such comparisons, or by a smaller one of ours.

    Prints the tables; writes them as text, CSV and LaTeX, pictures, a page report.html and the records of all runs.
    Runs that the output folder already has are not repeated, so an interrupted command continues when it is called
    again. The logits of the test rows are kept in its folder `logits`, so that other measures can be computed later
    without training.
    """
    request = Request(
        datasets=None if dataset is None else parse_names(dataset),
        methods=None if methods.strip() == "all" else parse_names(methods),
        noise=None if noise is None else parse_numbers("noise", noise),
        seeds=seeds,
        smoke=smoke,
    )
    runs = plan(protocol, request)
    folder = (out or Path(f"mgce-benchmark-{protocol}{'-smoke' if smoke else ''}")).resolve()
    check_folder("out", folder)
    data_dir = None if data_dir is None else data_dir.resolve()
    place = Place(data_dir, device, scratch=folder / "scratch", precision=precision, logits=folder / "logits")
    workers = Workers(default_jobs(place, "loky") if jobs is None else jobs)
    run_all(runs, Runs(folder), place, workers, download=download)
    results = write_benchmark(folder, folder)
    show(results, list(results), folder)
