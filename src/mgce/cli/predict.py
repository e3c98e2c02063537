"""`mgce predict MODEL TABLE`: the classes of new rows, with both probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce._files import write_files
from mgce.cli.outputs import STDOUT, Json, Quiet, check_json, check_output, write_json
from mgce.cli.table_options import TABLE, Decimal, Encoding, Sep
from mgce.cli.terminal import Terminal
from mgce.datasets.table_files import TextFormat, read_frame, table_name, to_csv, to_parquet
from mgce.tables.columns import unlike_their_column
from mgce.tables.model import TableModel, predictions_frame


def predict(
    model: Annotated[Path, typer.Argument(help="A file that `mgce fit` has written.")],
    table: Annotated[Path, typer.Argument(help=f"{TABLE} With the columns of the one fitted to.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the result, .csv or .parquet [TABLE's name-predictions.csv].")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add h and p of every class.")] = False,
    sets: Annotated[
        bool, typer.Option("--sets", help="Add a set of classes that holds the label as often as mgce fit was asked.")
    ] = False,
    formulas: Annotated[
        bool,
        typer.Option("--formulas", help="Leave names and labels that a spreadsheet takes for formulas as they are."),
    ] = False,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Classify the rows of a table.

    Writes a table: the row, counted from 1, or its id; the predicted class; and the probability of that class,
    h (minimax) and p (worst-case, calibrated to labels like those trained on). Where in a CSV file an
    id or a class begins like a formula of a spreadsheet (=, +, -, @) and is no number, an apostrophe stands before it.
    """
    form = TextFormat(sep, decimal, encoding)
    out = out or Path(f"{table_name(table)}-predictions.csv")
    check_output("out", out, table, model)
    check_json(json_file, table, model, out)
    fitted = TableModel.load(model)
    frame = read_frame(table, "table", text=fitted.columns.text, form=form)
    selected = fitted.columns.select(frame)
    predictions = fitted.predict(selected)
    names = fitted.columns.row_names(frame)
    parquet = out.suffix.lower() == ".parquet"
    result = predictions_frame(
        fitted, predictions, names, every_class=probabilities, sets=sets, formulas=formulas or parquet
    )
    write_files(out.parent, {out.name: to_parquet(result) if parquet else to_csv(result)})
    notes = [*unlike_their_column(frame, selected, fitted.columns.kinds), *fitted.unseen(selected)]
    counts = {str(label): int((predictions.label == label).sum()) for label in fitted.classes}
    write_json(json_file, {"file": out.name, "rows": len(frame), "predictions": counts, "notes": notes})
    console = Terminal(quiet=quiet or json_file == STDOUT)
    if sets:
        console.print(str(fitted.sets), markup=False)
    for sentence in notes:
        console.print(f"Note: {sentence}", markup=False)
    each = ", ".join(f"{label} {count:,}" for label, count in counts.items())
    console.print(f"{len(frame):,} rows: {each}. They are in {out}.", markup=False)
