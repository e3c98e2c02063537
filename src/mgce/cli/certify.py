"""`mgce certify MODEL TABLE`: bounds on the errors of a model, from fresh labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mgce._files import to_json, write_files
from mgce.cli.outputs import check_output
from mgce.cli.terminal import Terminal
from mgce.datasets.tables import read_frame
from mgce.tables.model import TableModel


def certify(
    model: Annotated[Path, typer.Argument(help="A file that `mgce fit` has written.")],
    table: Annotated[Path, typer.Argument(help="A .csv or .parquet file of labelled rows not used before.")],
    target: Annotated[str | None, typer.Option(help="Column with the labels [the one fitted to].")] = None,
    noise_rate: Annotated[float, typer.Option(help="Share of labels that are wrong, or a lower bound of it.")] = 0.0,
    delta: Annotated[float, typer.Option(help="Probability with which the certificate may fail.")] = 0.05,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the certificate as JSON.")] = None,
) -> None:
    """Bound the errors of a model on the distribution that labelled rows come from.

    The rows must be independent draws that nothing about the model depends on: not those it was fitted to, nor
    any by which it was chosen among others.
    """
    fitted = TableModel.load(model).with_target(target)
    frame = read_frame(table, "table", text=fitted.columns.text)
    if json_file is not None:
        check_output("json", json_file, table, model)
    selected, labels = fitted.columns.select(frame), fitted.columns.labels(frame)
    certificate = fitted.certify(selected, labels, delta=delta, noise_rate=noise_rate)
    if json_file is not None:
        document = {"model": model.name, "table": table.name, **certificate.to_dict()}
        write_files(json_file.parent, {json_file.name: to_json(document)})
    console = Terminal()
    console.print(str(certificate), markup=False)
    for sentence in fitted.unseen(selected):
        console.print(f"Note: {sentence}", markup=False)
    trained = fitted.count_trained(selected, labels)
    if trained:
        console.print(
            f"Note: {trained:,} of the {len(frame):,} rows equal a row that the model was trained on. If they are the "
            "same examples, the certificate does not hold.",
            markup=False,
        )
