"""`mgce predict MODEL TABLE`: classify new rows; write predicted classes with their probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce._files import write_files
from mgce.cli.embedded import EMBEDDINGS, read_new
from mgce.cli.outputs import STDOUT, Json, Quiet, check_json, check_output, check_table, write_json
from mgce.cli.table_options import TABLE, Decimal, Encoding, Sep, Sheet
from mgce.cli.terminal import Terminal
from mgce.datasets.reading import cells_with_line_breaks
from mgce.datasets.table_files import TextFormat, table_name, to_csv, to_parquet
from mgce.encoders.libraries import BUILT_IN
from mgce.tables.columns import unlike_their_column
from mgce.tables.model import TableModel, predictions_frame


def predict(
    model: Annotated[Path, typer.Argument(help="A file that `mgce fit` has written.")],
    table: Annotated[
        Path,
        typer.Argument(
            help=f"{TABLE} It needs the columns that the model was fitted to. Or a file of features, or a folder of "
            "pictures."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File for the result, .csv or .parquet [TABLE's name-predictions.csv].")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add h and p of every class.")] = False,
    clean_probs: Annotated[
        bool, typer.Option("--clean-probs", help="Add q, an estimate of the probability that the class is right.")
    ] = False,
    sets: Annotated[
        bool, typer.Option("--sets", help="Add a set of classes that contains the label with the coverage of mgce fit.")
    ] = False,
    formulas: Annotated[
        bool,
        typer.Option("--formulas", help="Write names and labels as they are, even if a spreadsheet would run them."),
    ] = False,
    embeddings: Annotated[str | None, typer.Option(help=EMBEDDINGS)] = None,
    encoder: Annotated[
        str | None, typer.Option(help=f"Encoder of a folder of pictures, if it is not {BUILT_IN}.")
    ] = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    sheet: Sheet = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Predict the classes of the rows of a table.

    Writes a table: the id of each row, or its number from 1; the predicted class; and two probabilities of this class,
    h (minimax) and p (worst-case, meant to be calibrated to labels like those of the training rows). In a CSV file, an
    id or class that begins like a spreadsheet formula (=, +, -, @) and is not a number gets an apostrophe in front.
    """
    form = TextFormat(sep, decimal, encoding, sheet)
    out = out or Path(f"{table_name(table)}-predictions.csv")
    check_output("out", out, table, model)
    check_table("out", out)
    check_json(json_file, table, model, out)
    fitted = TableModel.load(model)
    console = Terminal(quiet=quiet or json_file == STDOUT)
    source = read_new(console, fitted, table, fitted.columns.text, (), form, embeddings, encoder)
    frame = source.frame
    fitted.require_room(len(frame))
    selected = fitted.columns.select(frame)
    predictions = fitted.predict(selected)
    names = fitted.columns.row_names(frame)
    parquet = out.suffix.lower() == ".parquet"
    result = predictions_frame(fitted, predictions, names, every_class=probabilities, sets=sets, clean=clean_probs)
    write_files(out.parent, {out.name: to_parquet(result) if parquet else to_csv(result, formulas=formulas)})
    notes = [
        *source.reading.notes,
        *source.notes,
        *cells_with_line_breaks(frame),
        *unlike_their_column(frame, selected, fitted.columns.kinds),
        *fitted.unseen(selected),
    ]
    counts = {str(label): int((predictions.label == label).sum()) for label in fitted.classes}
    write_json(json_file, {"file": out.name, "rows": len(frame), "predictions": counts, "notes": notes})
    if clean_probs:
        console.print(str(fitted.right_labels), markup=False)
    if sets:
        console.print(str(fitted.sets), markup=False)
    for sentence in notes:
        console.print(f"Note: {sentence}", markup=False)
    by_class = ", ".join(f"{label} {count:,}" for label, count in counts.items())
    console.print(f"{len(frame):,} rows: {by_class}. They are in {out}.", markup=False)
