"""Read labels and a model's predicted classes or probabilities from a table, to certify the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mgce._arrays import one_hot
from mgce._column_types import texts
from mgce._messages import expected
from mgce._text import printable, spreadsheet_text
from mgce.desk.columns.spellings import respelt
from mgce.desk.files.table_files import read_frame, require_column
from mgce.desk.files.text_tables import TextFormat
from mgce.risk.parts import label_indices

PREDICTION = "prediction"  # name of the column of predicted classes, as `mgce predict` writes it
# Prefixes of the names of columns of probabilities, as `mgce predict --probabilities` writes them. The first counts.
PROBABILITIES = "q_", "h_"


@dataclass(frozen=True, eq=False)
class LabelledPredictions:
    """Labels of n rows, and predicted probabilities of k classes for each row."""

    target: NDArray[np.int64]  # (n,), indices into `classes`; -1 for a label that is none of the classes
    probs: NDArray[np.float64]  # (n, k)
    classes: list[str]
    column: str  # of the labels in their table


def read_predictions(frame: pd.DataFrame, target: str, prediction: str | None = None) -> LabelledPredictions:
    """Read labels and predictions from a table.

    Predictions are the probabilities in columns `q_CLASS` or `h_CLASS`. If there are no such columns, or `prediction`
    is given, predicted classes are read; each has probability 1.

    Args:
        frame: the table, its labels and predicted classes as text.
        target: the column of the labels.
        prediction: the column of the predicted classes; None for the probabilities or, without them, for the column
            "prediction".

    Raises:
        ValueError: if a column is missing, or has a row without a value.
    """
    labels = _filled(frame, target, "target")
    prefix = next((each for each in PROBABILITIES if any(name.startswith(each) for name in frame.columns)), None)
    if prediction is None and prefix is not None:
        kept = set(labels.tolist())
        written = [name.removeprefix(prefix) for name in frame.columns if name.startswith(prefix)]
        column = {name if name in kept else spreadsheet_text(name): prefix + name for name in written}
        classes = sorted(column)
        labels = _respelt(labels, classes)
        probs = frame[[column[label] for label in classes]].to_numpy(dtype=float)
    else:
        predicted = _without_apostrophes(_filled(frame, prediction or PREDICTION, "prediction"), labels)
        labels = _respelt(labels, predicted.tolist())
        if not {*labels.tolist()} & {*predicted.tolist()}:
            what = f"a column of classes that labels of {target!r} have, as {labels[0]!r}"
            raise ValueError(expected("prediction", what, f"none of these; the first is {predicted[0]!r}"))
        classes = sorted({*labels.tolist(), *predicted.tolist()})
        classes += [""] * (len(classes) == 1)  # a certificate needs two classes: add one that no row has
        probs = one_hot(label_indices(predicted, np.array(classes), len(frame)), len(classes))
    return LabelledPredictions(label_indices(labels, np.array(classes), len(frame), target), probs, classes, target)


def _respelt(labels: NDArray[Any], classes: list[str]) -> NDArray[Any]:
    """Return labels in the spelling of the classes that were predicted."""
    return respelt(pd.Series(labels, dtype=object), classes).to_numpy(dtype=object)


def _without_apostrophes(predicted: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Remove the apostrophes that `mgce predict` puts before formulas, unless a label has such an apostrophe too."""
    kept = set(labels.tolist())
    plain = [text if text in kept else spreadsheet_text(text) for text in predicted.tolist()]
    return np.array(plain, dtype=object)


def _filled(frame: pd.DataFrame, name: str, option: str) -> NDArray[Any]:
    """Return a column as text.

    Raises:
        ValueError: if there is no such column, or a row has no value in it.
    """
    require_column(frame, name, option)
    if frame[name].isna().any():
        row = np.flatnonzero(frame[name].isna())[0] + 1
        raise ValueError(printable(f"Expected `{name}` to have a value in every row, but row {row} has none."))
    return texts(frame[name]).to_numpy(dtype=object)


def read_class_table(path: Path, option: str, form: TextFormat) -> pd.DataFrame:
    """Read a table for :func:`class_matrix`, with its first column as text; the separator of `form` is ignored."""
    form = TextFormat(None, form.decimal, form.encoding)
    first = str(read_frame(path, option, form=form).columns[0])
    return read_frame(path, option, text=[first], classes=[first], form=form)


def class_matrix(frame: pd.DataFrame, classes: list[str], option: str) -> NDArray[np.float64]:
    """Return a table's numbers as a matrix by right class (rows) and given class (columns), in the order of `classes`.

    Args:
        frame: a table whose first column names the right class of each row, and whose other columns are named by the
            given classes; both in any order.
        classes: the k classes.
        option: the name of the option, for errors.

    Returns:
        The matrix, shape (k, k).

    Raises:
        ValueError: if the rows or columns do not name the classes, or a value is no number.
    """
    right = frame.iloc[:, 0].astype(str).tolist()
    given = [str(name) for name in frame.columns[1:]]
    if sorted(right) != sorted(classes) or sorted(given) != sorted(classes):
        complete = f"a table with a row and a column for each of the classes ({', '.join(classes)})"
        raise ValueError(expected(option, complete, f"rows {', '.join(right)}; columns {', '.join(given)}"))
    try:
        values = frame.iloc[:, 1:].to_numpy(dtype=float)
    except ValueError as error:
        raise ValueError(expected(option, "a table of numbers", str(error))) from None
    return np.asarray(values[np.ix_([right.index(c) for c in classes], [given.index(c) for c in classes])])
