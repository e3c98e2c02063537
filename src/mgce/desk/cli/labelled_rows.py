"""Read the rows of `mgce certify`: labelled rows for a model to predict, or rows with labels and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from mgce._messages import expected
from mgce.desk.cli.embedded import NewForm, Source, read_new
from mgce.desk.cli.shared_options import TABLE, refuse
from mgce.desk.cli.terminal import Terminal
from mgce.desk.columns.copies import numbered
from mgce.desk.columns.kinds import unlike_their_column
from mgce.desk.columns.notes import left_out_copies, without_label
from mgce.desk.files.table_files import is_table, read_accounted, require_column
from mgce.desk.files.text_tables import TextFormat
from mgce.desk.tables.model import TableModel
from mgce.desk.tables.predictions import PREDICTION, LabelledPredictions, read_predictions
from mgce.desk.tables.rows import copies_in_order, group_names, joined_groups

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows of a table, with predictions for them."""

    frame: pd.DataFrame
    predictions: LabelledPredictions
    groups: NDArray[Any] | None  # of rows that depend on one another
    notes: list[str]


@dataclass(frozen=True)
class Given:
    """The arguments of `mgce certify`, and the options that name columns."""

    model: Annotated[Path, typer.Argument(help="A file that `mgce fit` has written, or a table with predictions.")]
    table: Annotated[Path | None, typer.Argument(help=f"For a model: labelled rows not used before. {TABLE}")] = None
    target: Annotated[str | None, "Column with the labels [that of mgce fit]."] = None
    prediction: Annotated[
        str | None, "Column with the predicted classes [probabilities in h_CLASS, or prediction]."
    ] = None
    by: Annotated[
        str | None, "Also certify each part of the rows by: label, prediction, or the values of a column."
    ] = None
    groups: Annotated[str | None, "Column of group names: rows of one group depend on one another."] = None

    @property
    def rows_file(self) -> Path:
        """The file with the rows."""
        return self.table or self.model

    @property
    def named(self) -> list[str]:
        """The columns that `--by` and `--groups` name; their values are names, and are read as text."""
        return [name for name in (self.by, self.groups) if name is not None]

    def rows(self, form: NewForm) -> LabelledRows:
        """Return the labelled rows with the predictions of the model, or with those in their table."""
        return given_predictions(self, form) if is_table(self.model) else predicted_rows(self, form)


def predicted_rows(given: Given, form: NewForm) -> LabelledRows:
    """Read a model and a table; return the labelled rows with the model's predictions, one row for a set of copies.

    Args:
        given: the files and columns; if `target` is None, the labels are in the column that the model learnt.
        form: format of a text file, and the files of features.
    """
    if given.table is None:
        raise ValueError(expected("table", "a table of labelled rows", "none"))
    fitted = TableModel.load(given.model).with_target(given.target)
    # A column of parts or groups that is a feature too is read as the model has it.
    named = [name for name in given.named if name not in fitted.columns.kinds]
    classes = [fitted.columns.target, *named]
    text = [*fitted.columns.text, *named]
    source = read_new(Terminal(quiet=True), fitted, given.table, text, classes, form)
    frame = source.frame
    fitted.require_room(len(frame))
    notes = source.all_notes
    n, labels = len(frame), fitted.columns.labels(frame)
    frame, labels = frame[labels.notna()], labels[labels.notna()]
    if frame.empty:
        raise ValueError(expected(fitted.columns.target, "a column with labels", "none"))
    n_labelled = len(frame)
    first, clusters = _distinct(frame, fitted.columns.select(frame), labels, named, given.groups)
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


def given_predictions(given: Given, form: TextFormat) -> LabelledRows:
    """Read predictions and labels from one table.

    Args:
        given: the file and its columns; if `prediction` is None, the columns that `mgce predict` writes are read.
        form: the format of a text file.
    """
    refuse("left out where the first file is a table of predictions", table=given.table)
    if given.target is None:
        raise ValueError(expected("target", "the column with the labels of the predictions", "none"))
    text = [given.target, given.prediction or PREDICTION, *given.named]
    source = Source(*read_accounted(given.model, "predictions", text=text, classes=text, form=form))
    predictions = read_predictions(source.frame, given.target, given.prediction)
    clusters = None if given.groups is None else group_names(require_column(source.frame, given.groups, "groups"))
    return LabelledRows(source.frame, predictions, clusters, source.all_notes)


def _distinct(
    frame: pd.DataFrame, selected: pd.DataFrame, labels: pd.Series[Any], named: list[str], groups: str | None
) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Return the indices of the rows to keep, one for each set of copies, and the groups of these rows or None.

    Two groups become one group if a row of one has the features of a row of the other, more often than by chance. Which
    copy is kept does not depend on the order of the file.
    """
    order, things, first = copies_in_order(frame, selected, labels, named)
    first = np.unique(first)
    first = first[np.argsort(order[first])]  # in the order of the file, in which notes speak of rows
    if groups is None:
        return order[first], None
    names = group_names(require_column(frame, groups, "groups").iloc[order])
    return order[first], joined_groups(numbered(names), things)[first]
