"""Predictions of any model in a table: labels, and classes or probabilities, as a certificate takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mgce._validation import expected
from mgce.linear.arrays import one_hot
from mgce.risk.any_model import label_indices

if TYPE_CHECKING:
    import pandas as pd

PREDICTION = "prediction"  # the column that `mgce predict` writes
PROBABILITY = "h_"  # what the names of its columns of probabilities begin with


@dataclass(frozen=True, eq=False)
class LabelledPredictions:
    """Labels of rows as places among the classes, and probabilities of these classes."""

    target: NDArray[np.int64]  # (n,), -1 for a label that is none of the classes
    probs: NDArray[np.float64]  # (n, k)
    classes: list[str]


def read_predictions(frame: pd.DataFrame, target: str, prediction: str | None = None) -> LabelledPredictions:
    """Take the labels, and the probabilities (columns `h_CLASS`) or else the predicted classes, from a table.

    Args:
        frame: the table, its labels and predicted classes as text.
        target: the column of the right labels.
        prediction: the column of the predicted classes; probabilities are then not looked at.

    Raises:
        ValueError: if a column is missing, or has a row without a value.
    """
    labels = _filled(frame, target, "target")
    own = [name for name in frame.columns if name.startswith(PROBABILITY)]
    if prediction is None and own:
        classes = sorted(name.removeprefix(PROBABILITY) for name in own)
        probs = frame[[PROBABILITY + label for label in classes]].to_numpy(dtype=float)
    else:
        predicted = _filled(frame, prediction or PREDICTION, "prediction")
        classes = sorted({*labels.tolist(), *predicted.tolist()})
        classes += [""] * (len(classes) == 1)  # one class alone is no choice
        probs = one_hot(label_indices(predicted, np.array(classes), len(frame)), len(classes))
    return LabelledPredictions(label_indices(labels, np.array(classes), len(frame), target), probs, classes)


def _filled(frame: pd.DataFrame, name: str, option: str) -> NDArray[Any]:
    if name not in frame.columns:
        raise ValueError(expected(option, f"a column of the table ({', '.join(map(str, frame.columns[:20]))})", name))
    if frame[name].isna().any():
        row = np.flatnonzero(frame[name].isna())[0] + 1
        raise ValueError(f"Expected `{name}` to have a value in every row, but row {row} has none.")
    return frame[name].astype(str).to_numpy(dtype=object)


def class_matrix(frame: pd.DataFrame, classes: list[str], option: str) -> NDArray[np.float64]:
    """Give a matrix of numbers by right class (first column: its name) and given class, in the order of the classes.

    Raises:
        ValueError: if its rows or columns are not those of the classes, or a value is no number.
    """
    rows = frame.iloc[:, 0].astype(str).tolist()
    columns = [str(name) for name in frame.columns[1:]]
    if sorted(rows) != sorted(classes) or sorted(columns) != sorted(classes):
        what = f"a table with a row and a column for each of the classes ({', '.join(classes)})"
        raise ValueError(expected(option, what, f"rows {', '.join(rows)}; columns {', '.join(columns)}"))
    try:
        values = frame.iloc[:, 1:].to_numpy(dtype=float)
    except ValueError as error:
        raise ValueError(expected(option, "a table of numbers", str(error))) from None
    return np.asarray(values[np.ix_([rows.index(c) for c in classes], [columns.index(c) for c in classes])])
