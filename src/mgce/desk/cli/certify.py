"""`mgce certify MODEL TABLE`: bound the errors of a model, or of given predictions, from new labelled rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Table as Grid

from mgce._files import write_files
from mgce._rounding import confidence_text, rounded_up
from mgce._validation import expected
from mgce.desk.cli.embedded import EMBEDDINGS, files_of, files_of_features
from mgce.desk.cli.labelled_rows import column_of, given_predictions, predicted_rows
from mgce.desk.cli.option_groups import grouped
from mgce.desk.cli.outputs import Json, Quiet, check_outputs, terminal, write_json
from mgce.desk.cli.shared_options import NOISE_RATE, NOISE_TYPE, TABLE, Form, parse_names, parse_rate
from mgce.desk.files.table_files import is_table
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.review.decision_file import ON_LOOKS, read_decisions
from mgce.desk.tables.looked_up import looked_up, order_to_check, to_check_csv
from mgce.desk.tables.predictions import LabelledPredictions, class_matrix, read_class_table
from mgce.risk import RiskCertificate, certify_each
from mgce.risk import certify as certify_probs
from mgce.risk.certificate import MendedLabelsWarning
from mgce.risk.checking import check_width
from mgce.risk.parts import LABEL
from mgce.risk.parts import PREDICTION as PREDICTED

if TYPE_CHECKING:
    import pandas as pd

NO_VALUE = "(no value)"  # the part of the rows whose column is empty
PARTS = (LABEL, PREDICTED)  # values of --by that are not columns: a certificate for each label or prediction


@grouped
def certify(
    *,
    model: Annotated[Path, typer.Argument(help="A file that `mgce fit` has written, or a table with predictions.")],
    table: Annotated[Path | None, typer.Argument(help=f"For a model: labelled rows not used before. {TABLE}")] = None,
    target: Annotated[str | None, typer.Option(help="Column with the labels [that of mgce fit].")] = None,
    prediction: Annotated[
        str | None, typer.Option(help="Column with the predicted classes [probabilities in h_CLASS, or prediction].")
    ] = None,
    noise_rate: Annotated[str, typer.Option(help=NOISE_RATE)] = "0",
    noise_type: Annotated[str, typer.Option(help=NOISE_TYPE)] = "symmetric",
    transition: Annotated[
        Path | None,
        typer.Option(help="A table of the probability of each given class (columns) by right class (rows)."),
    ] = None,
    checked: Annotated[
        str | None,
        typer.Option(help="Files of decisions on the rows of --to-check, as `mgce review` saves them: right labels."),
    ] = None,
    checked_again: Annotated[
        str | None,
        typer.Option(help="Files of decisions of a second person, on the first rows of --to-check once more."),
    ] = None,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="With --checked: the bound holds at every look, whenever you stop.")
    ] = False,
    to_check: Annotated[
        Path | None, typer.Option(help="File for the rows to look up next, for `mgce review`: NAME.suspects.csv.")
    ] = None,
    width: Annotated[float, typer.Option(help="Wanted width of the bound by the rows of --to-check.")] = 0.05,
    bounds: Annotated[str | None, typer.Option(help="argmax, randomized, or both separated by a comma [both].")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Also certify each part of the rows by: label, prediction, or the values of a column."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column of group names: rows of one group depend on one another.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability with which the certificate may fail.")] = 0.05,
    embeddings: Annotated[str | None, typer.Option(help=EMBEDDINGS)] = None,
    form: Form,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Bound the errors of a model on future rows, from labelled rows that it has not seen.

    The rows must be independent draws that the model does not depend on in any way: it was neither fitted to these rows
    nor chosen by them. Training rows of the model are refused. `mgce certify PREDICTIONS.csv --target COLUMN` reads the
    predictions of any model instead.
    """
    check_width(width)
    decided, again = ([] if names is None else [*map(Path, parse_names(names))] for names in (checked, checked_again))
    _check_again(again, [] if anytime or by is not None else decided)
    if to_check is not None and (decided or groups is not None):
        raise ValueError(expected("to_check", "left out with `checked` or `groups`", to_check))
    read = [model, *files_of(table or model), *files_of_features(embeddings), transition, *decided, *again]
    check_outputs({"json": json_file, "to_check": to_check}, read)
    if is_table(model):
        rows = given_predictions(model, table, target, prediction, by, groups, form)
    else:
        rows = predicted_rows(model, table, target, by, groups, form, embeddings)
    predictions, notes = rows.predictions, rows.notes
    options: dict[str, Any] = {"delta": delta, "bounds": None if bounds is None else parse_names(bounds)}
    options |= _noise_options(predictions.classes, parse_rate(noise_rate), noise_type, transition, form)
    for option, files in (("checked_again", again), ("checked", decided)):
        if files:
            found = looked_up(rows.frame, rows.predictions, read_decisions(*files)[0], delta, option)
            predictions, notes = found.predictions, [*rows.notes, *found.notes]
            options[option] = found.rows, found.right
    if rows.groups is not None:
        options["groups"] = rows.groups
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MendedLabelsWarning)  # decisions tell the labels of before the looks
        certificate = certify_probs(predictions.target, predictions.probs, anytime=anytime, **options)
        parts = {} if by is None else _certify_parts(rows.frame, predictions, by, options)
    plan = ""
    if certificate.looked_up is None and rows.groups is None:
        plan = _rows_to_check(rows.frame, predictions, width, delta, to_check)
    source = {"model": model.name, "table": (table or model).name}
    write_json(json_file, {**source, **certificate.to_dict(), **_parts_document(parts, by), "notes": notes})
    console = terminal(json_file, quiet)
    console.print(str(certificate))
    if parts:
        console.print(_grid(parts, by or "", delta))
    console.print_notes(notes)
    if plan:
        console.print(plan)


def _check_again(again: Sequence[Path], decided: Sequence[Path]) -> None:
    """Raise an error if decisions of second looks have no first looks, which are those of other files.

    Args:
        again: the files of decisions of second looks.
        decided: the files of decisions of first looks that second looks may be taken at.
    """
    if again and (not decided or {*again} & {*decided}):
        what = "other files than those of `checked`, and left out without `checked`, and with `anytime` or `by`"
        raise ValueError(expected("checked_again", what, ", ".join(map(str, again))))


def _rows_to_check(
    frame: pd.DataFrame, predictions: LabelledPredictions, width: float, delta: float, to_check: Path | None
) -> str:
    """Say how many rows to look up for a bound on errors against right labels; write them if a file is named."""
    rows = order_to_check(frame, predictions, width, delta)
    said = (
        f"If labels may be wrong, look up {rows.size:,} rows drawn at random: the bound on errors against right labels "
        f"is then about {width:g} above the share of errors found, whatever the wrong labels."
    )
    if to_check is None:
        return f"{said} --to-check FILE writes them for mgce review, and --checked takes the decisions."
    write_files(to_check.parent, {to_check.name: to_check_csv(frame, predictions, rows)})
    return f"{said} {ON_LOOKS} The rows are in {to_check}:\n  mgce review {to_check} --suspects 0 --random {rows.size}"


def _noise_options(
    classes: list[str],
    rate: float | str,
    noise_type: str,
    transition: Path | None,
    form: TextFormat,
) -> dict[str, Any]:
    """Return the arguments of :func:`mgce.certify` on wrong labels that differ from their default values."""
    options: dict[str, Any] = {}
    if rate != 0 or noise_type != "symmetric":
        options |= {"noise_rate": rate, "noise_type": noise_type}
    if transition is not None:
        options["transition"] = class_matrix(read_class_table(transition, "transition", form), classes, "transition")
    return options


def _certify_parts(
    frame: pd.DataFrame, predictions: LabelledPredictions, by: str, options: dict[str, Any]
) -> dict[str, RiskCertificate]:
    """Return a certificate for each label, prediction or value of a column; rows without a value form a part."""
    own = by if by in PARTS and by not in frame.columns else None
    if by == predictions.column:  # labels by their own name, which do not tell the part where they may be wrong
        own = LABEL
    if own is not None:
        parts = certify_each(predictions.target, predictions.probs, own, **options)
        return {predictions.classes[place]: part for place, part in parts.items()}
    column = column_of(frame, by, "by")
    names = np.array([str(name) if present else NO_VALUE for name, present in zip(column, column.notna(), strict=True)])
    return certify_each(predictions.target, predictions.probs, names, **options)


def _parts_document(parts: dict[str, RiskCertificate], by: str | None) -> dict[str, Any]:
    return {"by": by, "parts": {name: part.to_dict() for name, part in parts.items()}} if parts else {}


def _grid(parts: dict[str, RiskCertificate], by: str, delta: float) -> Grid:
    """Return a table to print, with the bounds of every part of the rows."""
    against_given = any(part.against_given for part in parts.values())
    what = "Disagrees with the given label" if against_given else "Wrong"
    if any(part.conditional is not None for part in parts.values()):
        what = f"If labels are wrong as stated, whatever the row: {what.lower()}"
    title = (
        f"{what} with probability at most, by {by}; all bounds hold at once with confidence "
        f"{confidence_text(1 - delta)}"
    )
    grid = Grid(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for name in (by, "rows", "most probable class", "class drawn"):
        grid.add_column(name, justify="left" if name == by else "right")
    for name, part in parts.items():
        errors = (
            "" if error is None else rounded_up(error)
            for error in (part.assumed.argmax_error, part.assumed.randomized_error)
        )
        grid.add_row(name, f"{part.n:,}", *errors)
    return grid
