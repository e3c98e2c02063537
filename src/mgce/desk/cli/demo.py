"""`mgce demo`: run `mgce fit` on a table with labels made wrong, and compare its results with the right labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich import box
from rich.table import Table as Grid

from mgce._files import write_files
from mgce._rounding import percent_up
from mgce.desk.cli.fit import fit
from mgce.desk.cli.fit_files import FitFiles
from mgce.desk.cli.outputs import Quiet, check_folder, check_outputs
from mgce.desk.cli.terminal import Terminal
from mgce.desk.files.written_tables import to_csv
from mgce.desk.tables.known_table import DATASETS, FIRST, LABEL, Found, KnownTable, found, known_table

# With 40 % of the labels of two classes wrong, the bound from a hundred rows is above 50 % and says nothing; with 20 %
# all methods are near one another.
NOISE_RATE = 0.3


def demo(
    dataset: Annotated[str, typer.Option(help=f"{', '.join(DATASETS)}.")] = DATASETS[0],
    noise_rate: Annotated[float, typer.Option(help="Share of the labels to make wrong, at random.")] = NOISE_RATE,
    seed: Annotated[int, typer.Option(help="Seed of the wrong labels, and of the rows kept aside.")] = 0,
    out_dir: Annotated[Path, typer.Option(help="Folder for the tables and the files of mgce fit.")] = Path("mgce-demo"),
    quiet: Quiet = False,
) -> None:
    """Run mgce fit on a table with some labels made wrong, and compare the results with the right labels.

    Writes a table of scikit-learn with wrong labels, the right labels beside it, and rows kept aside. Then mgce fit
    runs as it would on a file of yours: it knows nothing of the noise, and never sees which labels are right. The last
    table shows the results: the accuracy on the rows kept aside, beside a random forest and gradient boosting of
    scikit-learn on the same wrong labels; the wrong labels among the first suspects; and whether the bound held.
    """
    known = known_table(dataset, noise_rate, seed)
    check_folder("out_dir", out_dir)
    table, right, new, model = (out_dir / f"{dataset}{end}" for end in (".csv", ".right.csv", ".new.csv", ".mgce"))
    check_outputs({"out_dir": [table, right, new, model, *FitFiles(model, None, None).beside]}, [])
    labels = pd.DataFrame({"row": range(1, len(known.right) + 1), "given": known.table[LABEL], "right": known.right})
    contents = {table.name: known.table, right.name: labels, new.name: known.new}
    write_files(out_dir, {name: to_csv(frame, None) for name, frame in contents.items()})
    console = Terminal(quiet=quiet)
    command = ["mgce", "fit", str(table), "--target", LABEL, "--out", str(model)]
    console.print(f"{known.is_wrong.sum()} of the {len(known.right)} labels in {table} were made wrong. Now runs:")
    console.print(f"{shlex.join(command)}\n", soft_wrap=True)
    result = fit(table=table, target=LABEL, quiet=quiet, out=model)
    what = found(known, result)
    console.print(_grid(known, what))
    held = "The bound held." if what.held else "The bound did not hold, which happens to one table in twenty at most."
    console.print(f"{held} The right labels are in {right}, the new rows in {new}.\nNow your own table:")
    console.print("mgce fit FILE.csv --target COLUMN")


def _grid(known: KnownTable, what: Found) -> Grid:
    """Return a table to print, with one line for each measured result."""
    grid = Grid(title="Against the right labels", box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_header=False)
    grid.add_column()
    grid.add_column(justify="right")
    for method, accuracy in what.accuracy.items():
        grid.add_row(f"accuracy on {len(known.new)} new rows, {method}", f"{accuracy:.1%}")
    for first, (wrong, among) in zip(FIRST, what.wrong_among, strict=True):
        grid.add_row(f"wrong labels among the first {first} suspects", f"{wrong} of {among}")
    grid.add_row("wrong labels in the whole table", f"{known.is_wrong.sum()} of {len(known.right)}")
    grid.add_row("bound on disagreement with such labels", "none" if what.bound is None else percent_up(what.bound))
    grid.add_row("disagreement with such labels on the new rows", f"{what.disagreement:.1%}")
    return grid
