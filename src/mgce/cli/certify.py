"""`mgce certify MODEL TABLE`: bound the errors of a model, or of given predictions, from new labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.table import Table as Grid

from mgce._files import write_files
from mgce._rounding import confidence_text, rounded_up
from mgce._validation import expected
from mgce.cli.embedded import EMBEDDINGS, read_new
from mgce.cli.list_options import parse_names
from mgce.cli.noise_options import NOISE_RATE, NOISE_TYPE, parse_rate
from mgce.cli.outputs import STDOUT, Json, Quiet, check_json, check_output, write_json
from mgce.cli.table_options import TABLE, Decimal, Encoding, Sep, Sheet
from mgce.cli.terminal import Terminal
from mgce.datasets.reading import cells_with_line_breaks
from mgce.datasets.table_files import TextFormat, is_table, read_accounted, require_column
from mgce.review.decision_file import read_decisions
from mgce.risk import RiskCertificate, certify_each
from mgce.risk import certify as certify_probs
from mgce.risk.breakdown import LABEL
from mgce.risk.breakdown import PREDICTION as PREDICTED
from mgce.risk.check_plan import check_width
from mgce.tables.columns import unlike_their_column
from mgce.tables.copies import numbered, things_and_copies
from mgce.tables.looked_up import looked_up, order_to_check, to_check_csv
from mgce.tables.model import TableModel
from mgce.tables.notes import left_out_copies, without_label
from mgce.tables.predictions import (
    PREDICTION,
    LabelledPredictions,
    class_matrix,
    read_class_table,
    read_predictions,
)
from mgce.tables.rows import group_names, joined_groups, order_of

if TYPE_CHECKING:
    import pandas as pd

NO_VALUE = "(no value)"  # the part of the rows whose column is empty
PARTS = (LABEL, PREDICTED)  # values of --by that are not columns: a certificate for each label or prediction


def certify(
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
    audit: Annotated[
        Path | None,
        typer.Option(hidden=True, help="Gone: --checked takes the rows that were looked up."),
    ] = None,
    checked: Annotated[
        str | None,
        typer.Option(help="Files of decisions on the rows of --to-check, as `mgce review` saves them: right labels."),
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
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    sheet: Sheet = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Bound the errors of a model on future rows, from labelled rows that it has not seen.

    The rows must be independent draws that the model does not depend on in any way: it was neither fitted to these rows
    nor chosen by them. Training rows of the model are refused. `mgce certify PREDICTIONS.csv --target COLUMN` reads the
    predictions of any model instead.
    """
    if audit is not None:
        what = "left out: --checked takes the file of rows that were looked up, and assumes nothing of the noise"
        raise ValueError(expected("audit", what, audit.name))
    check_width(width)
    decided = [] if checked is None else [Path(path) for path in parse_names(checked)]
    if to_check is not None and (decided or groups is not None):
        raise ValueError(expected("to_check", "left out with `checked` or `groups`", to_check))
    _check_outputs(json_file, to_check, [path for path in (table, model, transition, *decided) if path is not None])
    form = TextFormat(sep, decimal, encoding, sheet)
    named = [name for name in (by, groups) if name is not None]
    if is_table(model):
        frame, predictions, notes = _read_predictions(model, table, target, prediction, named, form)
        clusters = None if groups is None else group_names(_column(frame, groups, "groups"))
    else:
        frame, clusters, predictions, notes = _predict(model, table, target, named, groups, form, embeddings)
    options: dict[str, Any] = {"bounds": None if bounds is None else parse_names(bounds)}
    options |= _noise_options(predictions.classes, parse_rate(noise_rate), noise_type, transition, form)
    if checked is not None:
        decisions, _ = read_decisions(*decided)
        options["checked"] = looked_up(frame, predictions, decisions, delta)
    if clusters is not None:
        options["groups"] = clusters
    certificate = certify_probs(predictions.target, predictions.probs, delta=delta, anytime=anytime, **options)
    parts = {} if by is None else _certify_parts(frame, predictions, by, delta, options)
    plan = ""
    if certificate.looked_up is None and clusters is None:
        plan = _rows_to_check(frame, predictions, width, delta, to_check)
    source = {"model": model.name, "table": (table or model).name}
    write_json(json_file, {**source, **certificate.to_dict(), **_parts_document(parts, by), "notes": notes})
    console = Terminal(quiet=quiet or json_file == STDOUT)
    console.print(str(certificate), markup=False)
    if parts:
        console.print(_grid(parts, by or "", delta))
    for sentence in notes:
        console.print(f"Note: {sentence}", markup=False)
    if plan:
        console.print(plan, markup=False)


def _check_outputs(json_file: Path | None, to_check: Path | None, read: list[Path]) -> None:
    """Raise an error if an output cannot be written, or is the other one or a file that is read."""
    check_json(json_file, *read)
    if to_check is not None:
        check_output("to_check", to_check, *read, *([] if json_file is None else [json_file]))


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
    return f"{said} They are in {to_check}:\n  mgce review {to_check} --suspects 0 --random {rows.size}"


def _predict(
    model: Path,
    table: Path | None,
    target: str | None,
    named: list[str],
    groups: str | None,
    form: TextFormat,
    embeddings: str | None,
) -> tuple[pd.DataFrame, NDArray[Any] | None, LabelledPredictions, list[str]]:
    """Read a model and a table; return the labelled rows, their groups, the model's predictions for them, and notes.

    The columns in `named` contain names of parts or groups, so they are read as text.
    """
    if table is None:
        raise ValueError(expected("table", "a table of labelled rows", "none"))
    fitted = TableModel.load(model).with_target(target)
    # A column of parts or groups that is a feature too is read as the model has it.
    named = [name for name in named if name not in fitted.columns.kinds]
    classes = [fitted.columns.target, *named]
    text = [*fitted.columns.text, *named]
    source = read_new(Terminal(quiet=True), fitted, table, text, classes, form, embeddings, None)
    frame = source.frame
    fitted.require_room(len(frame))
    notes = [*source.reading.notes, *source.notes, *cells_with_line_breaks(frame)]
    n, labels = len(frame), fitted.columns.labels(frame)
    frame, labels = frame[labels.notna()], labels[labels.notna()]
    if frame.empty:
        raise ValueError(expected(fitted.columns.target, "a column with labels", "none"))
    n_labelled = len(frame)
    first, clusters = _distinct(frame, fitted.columns.select(frame), labels, named, groups)
    frame, labels = frame.iloc[first], labels.iloc[first]
    selected = fitted.columns.select(frame)
    notes += [
        *without_label(n - n_labelled),
        *left_out_copies(n_labelled - len(frame), n_labelled),
        *unlike_their_column(frame, selected, fitted.columns.kinds),
        *fitted.unseen(selected),
        *fitted.unseen_labels(labels),
        *fitted.require_unseen(selected, labels),
    ]
    return frame, clusters, fitted.labelled_predictions(selected, labels), notes


def _distinct(
    frame: pd.DataFrame, selected: pd.DataFrame, labels: pd.Series[Any], named: list[str], groups: str | None
) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Return the indices of the rows to keep, one for each set of copies, and the groups of these rows or None.

    Two groups become one group if a row of one equals a row of the other, even with another label. Which copy is kept
    does not depend on the order of the file.
    """
    others = frame[[name for name in dict.fromkeys(named) if name in frame.columns]]
    order = order_of(selected, labels, others)
    things, same = things_and_copies(selected.iloc[order], labels.iloc[order])
    first = np.unique(same, return_index=True)[1]
    first = first[np.argsort(order[first])]  # in the order of the file, in which notes speak of rows
    if groups is None:
        return order[first], None
    names = group_names(_column(frame, groups, "groups").iloc[order])
    return order[first], joined_groups(numbered(names), things)[first]


def _read_predictions(
    path: Path, table: Path | None, target: str | None, prediction: str | None, named: list[str], form: TextFormat
) -> tuple[pd.DataFrame, LabelledPredictions, list[str]]:
    """Read predictions and labels from one table; return the table's rows, the predictions, and notes."""
    if table is not None:
        raise ValueError(expected("table", "left out where the first file is a table of predictions", str(table)))
    if target is None:
        raise ValueError(expected("target", "the column with the labels of the predictions", "none"))
    classes = [target, prediction or PREDICTION]
    text = [*classes, *named]
    frame, reading = read_accounted(path, "predictions", text=text, classes=text, form=form)
    notes = [*reading.notes, *cells_with_line_breaks(frame)]
    return frame, read_predictions(frame, target, prediction), notes


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


def _column(frame: pd.DataFrame, name: str, option: str) -> pd.Series[Any]:
    """Return the column of this name; if there is none, raise an error that names the option."""
    require_column(frame, name, option)
    return frame[name]


def _certify_parts(
    frame: pd.DataFrame, predictions: LabelledPredictions, by: str, delta: float, options: dict[str, Any]
) -> dict[str, RiskCertificate]:
    """Return a certificate for each label, prediction or value of a column; rows without a value form a part."""
    own = by if by in PARTS and by not in frame.columns else None
    if by == predictions.column:  # labels by their own name, which do not tell the part where they may be wrong
        own = LABEL
    if own is not None:
        parts = certify_each(predictions.target, predictions.probs, own, delta=delta, **options)
        return {predictions.classes[place]: part for place, part in parts.items()}
    column = _column(frame, by, "by")
    names = np.array([str(name) if present else NO_VALUE for name, present in zip(column, column.notna(), strict=True)])
    return certify_each(predictions.target, predictions.probs, names, delta=delta, **options)


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
