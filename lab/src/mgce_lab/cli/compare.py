"""`mgce-lab compare DATASET`: train by each loss on one table under label noise, and show the results side by side."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid

from mgce._files import write_files
from mgce.desk.cli.outputs import Json, Quiet, check_folder, check_outputs, terminal, write_json
from mgce.desk.cli.shared_options import Drop, Form, columns_of, grouped
from mgce.desk.cli.terminal import nothing_written_if_interrupted, steps_shown
from mgce.desk.columns.notes import left_out_copies, without_label
from mgce.desk.files import Table
from mgce.desk.files.table_files import table_name
from mgce_lab.cli.lists import parse_methods, parse_numbers
from mgce_lab.compare.compare import Comparison, in_order, run
from mgce_lab.compare.compared import FILES, Compared
from mgce_lab.data import NAMES, load
from mgce_lab.data.registry import FOLDERS
from mgce_lab.data.sources import DataSource
from mgce_lab.engine import render
from mgce_lab.engine.methods import KNOWN

DEFAULT = Comparison()
BETAS, TRIMS = (",".join(map(str, values)) for values in (DEFAULT.betas, DEFAULT.trims))
METHODS_HELP = f"all, or some, separated by commas: {', '.join(KNOWN)}; NAME@BETA is a loss at a fixed beta."


@grouped
def compare(
    *,
    dataset: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or the path of a table, such as a .csv file.")],
    target: Annotated[str | None, typer.Option(help="Column with the classes, for a file.")] = None,
    drop: Drop = None,
    form: Form,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of data sets [$MGCE_DATA_DIR or ./data].")] = None,
    download: Annotated[bool, typer.Option("--download", help="Download what is missing in --data-dir.")] = False,
    noise_rate: Annotated[
        float, typer.Option(help="Share of training and validation labels made wrong.")
    ] = DEFAULT.noise_rate,
    noise_type: Annotated[str, typer.Option(help="symmetric or pair.")] = DEFAULT.noise_type,
    methods: Annotated[str, typer.Option(help=METHODS_HELP)] = ",".join(DEFAULT.methods),
    betas: Annotated[str, typer.Option(help="Candidates for beta of mgce and gce.")] = BETAS,
    trims: Annotated[
        str, typer.Option(help="Candidates for the share of rows of each label that mgce+trim and ce+trim leave out.")
    ] = TRIMS,
    seeds: Annotated[
        int, typer.Option(help="Seeds; each has its own split, noise and initial weights.")
    ] = DEFAULT.seeds,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training rows [50, and at least 700 steps].")
    ] = DEFAULT.epochs,
    hidden: Annotated[int, typer.Option(help="Hidden units of each network.")] = DEFAULT.hidden,
    batch_size: Annotated[int, typer.Option(help="Rows in a step.")] = DEFAULT.batch_size,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = DEFAULT.lr,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, ...")] = "cpu",
    out_dir: Annotated[Path | None, typer.Option(help="Folder for the results [mgce-compare-DATASET].")] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train a network with each loss on rows with wrong labels, and compare the networks on right test labels.

    The command takes the labels of a file as right, and makes some of them wrong itself. If labels of your file are
    wrong already, use mgce fit instead.

    For each seed, beta, the share to trim and the epoch are chosen by accuracy on validation rows, whose labels are
    noisy too. Prints test accuracy and calibration errors as mean ± standard deviation over the seeds; writes
    table.csv, runs.json, accuracy.png and reliability.png.

    mgce@1 is MGCE at beta = 1, the convex minimax MAE; mae is the MAE of softmax. Other losses use the hyperparameters
    published for CIFAR-10.
    """
    is_known = dataset in NAMES
    folder = out_dir or Path(f"mgce-compare-{dataset if is_known else table_name(Path(dataset))}")
    check_folder("out_dir", folder)
    written = {"out_dir": [folder / name for name in FILES], "json": json_file}
    check_outputs(written, _files_of_data(data_dir) if is_known else [Path(dataset)])
    table = load(dataset, target, data_dir=data_dir, download=download, drop=columns_of(drop), form=form)
    n_copies = 0
    if not is_known:  # data sets known by name keep their published rows and order
        table, n_copies = in_order(table)
    plan = Comparison(
        noise_rate=noise_rate,
        noise_type=noise_type,
        methods=parse_methods(methods, KNOWN),
        betas=parse_numbers("betas", betas),
        trims=parse_numbers("trims", trims),
        seeds=seeds,
        epochs=epochs,
        hidden=hidden,
        batch_size=batch_size,
        lr=lr,
    )
    console = terminal(json_file, quiet)
    taken_as_right = [] if is_known else [_taken_as_right(table.name, plan)]
    console.print_notes(taken_as_right)
    start = time.monotonic()
    with nothing_written_if_interrupted(console):
        compared = Compared(table, plan, _run_with_progress(console, table, plan, device))
        files = compared.files()
    write_files(folder, files)
    notes = [*table.notes, *without_label(table.unlabelled), *left_out_copies(n_copies, n_copies + len(table.target))]
    all_notes = [*taken_as_right, *notes]
    write_json(json_file, {"dataset": table.name, "folder": str(folder), "methods": compared.rows, "notes": all_notes})
    console.print_notes(notes)
    console.print_whole(_grid(compared))
    networks = "1 network" if len(compared.records) == 1 else f"{len(compared.records)} networks"
    console.print(f"{networks} in {time.monotonic() - start:.0f} s. {', '.join(FILES)} are in {folder}/")


def _taken_as_right(name: str, plan: Comparison) -> str:
    """Return a notice, printed before training: the labels are taken as right, and some are made wrong."""
    return (
        f"The labels in {name} are taken as right. This command makes a share {plan.noise_rate} of those for training "
        "and validation wrong itself. If some are wrong already, accuracy against them is no measure of a loss: use "
        "mgce fit."
    )


def _run_with_progress(console: Console, table: Table, plan: Comparison, device: str) -> list[dict[str, Any]]:
    label = f"Training {plan.seeds * len(plan.runs())} networks on {table.name}, epoch"
    with steps_shown(console, label) as told:
        return run(table, plan, device=device, on_epoch=partial(told, label))


def _files_of_data(data_dir: Path | None) -> list[Path]:
    """Return the local copies of published tables."""
    data = DataSource(data_dir).folder
    return [path for name in FOLDERS for path in (data / name).rglob("*") if path.is_file()]


def _grid(compared: Compared) -> Grid:
    """Return a table to print: means and standard deviations over the seeds, with a row for each method."""
    n_seeds = compared.plan.seeds
    seeds = "one seed" if n_seeds == 1 else f"mean ± standard deviation of {n_seeds} seeds"
    title = f"{compared.title}; %, {seeds}"
    caption = (
        "ECE, SCE of h: minimax probabilities; of p: worst-case probabilities,\n"
        "calibrated to labels as noisy as those trained on."
    )
    grid = Grid(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    cells = render.cells(compared.rows)
    for name in cells[0]:
        grid.add_column(name, justify="right" if name in render.COLUMNS else "left", no_wrap=True)
    for row in cells:
        grid.add_row(*row.values())
    return grid
