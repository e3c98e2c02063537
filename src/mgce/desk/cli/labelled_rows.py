"""What `mgce certify` reads: labelled rows for a model to predict, or rows with their labels and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mgce._validation import expected
from mgce.desk.cli.embedded import Source, read_new
from mgce.desk.cli.terminal import Terminal
from mgce.desk.columns.copies import numbered, things_and_copies
from mgce.desk.columns.kinds import unlike_their_column
from mgce.desk.columns.notes import left_out_copies, without_label
from mgce.desk.files.table_files import read_accounted, require_column
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.predictions import PREDICTION, LabelledPredictions, read_predictions
from mgce.desk.tables.rows import group_names, joined_groups, order_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows of a table, with predictions for them."""

    frame: pd.DataFrame
    predictions: LabelledPredictions
    groups: NDArray[Any] | None  # of rows that depend on one another
    notes: list[str]


def predicted_rows(
    model: Path,
    table: Path | None,
    target: str | None,
    by: str | None,
    groups: str | None,
    form: TextFormat,
    embeddings: str | None,
) -> LabelledRows:
    """Read a model and a table; return the labelled rows with the model's predictions, each set of copies once.

    The columns of parts and groups contain names, so they are read as text.

    Args:
        model: the file of the model.
        table: the file of the table.
        target: the column of the labels; None for that of the model.
        by: the column of the parts, if there is one.
        groups: the column of the groups, if there is one.
        form: of a text file.
        embeddings: paths of files of features, with commas between; None for no such file.
    """
    if table is None:
        raise ValueError(expected("table", "a table of labelled rows", "none"))
    fitted = TableModel.load(model).with_target(target)
    # A column of parts or groups that is a feature too is read as the model has it.
    named = [name for name in _given(by, groups) if name not in fitted.columns.kinds]
    classes = [fitted.columns.target, *named]
    text = [*fitted.columns.text, *named]
    source = read_new(Terminal(quiet=True), fitted, table, text, classes, form, embeddings, None)
    frame = source.frame
    fitted.require_room(len(frame))
    notes = source.all_notes
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
    return LabelledRows(frame, fitted.labelled_predictions(selected, labels), clusters, notes)


def given_predictions(
    path: Path,
    table: Path | None,
    target: str | None,
    prediction: str | None,
    by: str | None,
    groups: str | None,
    form: TextFormat,
) -> LabelledRows:
    """Read predictions and labels from one table.

    Args:
        path: the file.
        table: a second table, which must be left out.
        target: the column of the labels.
        prediction: the column of the predicted classes; None for that of `mgce predict`.
        by: the column of the parts, if there is one.
        groups: the column of the groups, if there is one.
        form: of a text file.
    """
    if table is not None:
        raise ValueError(expected("table", "left out where the first file is a table of predictions", str(table)))
    if target is None:
        raise ValueError(expected("target", "the column with the labels of the predictions", "none"))
    text = [target, prediction or PREDICTION, *_given(by, groups)]
    source = Source(*read_accounted(path, "predictions", text=text, classes=text, form=form))
    predictions = read_predictions(source.frame, target, prediction)
    clusters = None if groups is None else group_names(column_of(source.frame, groups, "groups"))
    return LabelledRows(source.frame, predictions, clusters, source.all_notes)


def column_of(frame: pd.DataFrame, name: str, option: str) -> pd.Series[Any]:
    """Return the column of this name; if there is none, raise an error that names the option."""
    require_column(frame, name, option)
    return frame[name]


def _given(*names: str | None) -> list[str]:
    return [name for name in names if name is not None]


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
    names = group_names(column_of(frame, groups, "groups").iloc[order])
    return order[first], joined_groups(numbered(names), things)[first]
