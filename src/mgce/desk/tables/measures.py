"""Measure a model on held-out rows: confusion matrix, importance of columns, comparison with the majority class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.inspection import permutation_importance
from sklearn.metrics import confusion_matrix

from mgce.desk.tables.rows import Rows
from mgce.risk import RiskCertificate

# Limits of permutation importance, which predicts for every column REPEATS times. A forest predicts 500 rows in a tenth
# of a second, so 3 repeats for 100 columns take half a minute at most.
REPEATS = 3  # shuffles of each column
ROWS = 500  # rows held out that are predicted, at most
COLUMNS = 100  # tables of more columns have no importances


@dataclass(frozen=True)
class Importance:
    """The permutation importance of a column: how much accuracy is lost when its values are shuffled among the rows."""

    column: str
    mean: float  # over the shuffles, in [-1, 1]
    deviation: float  # the standard deviation over the shuffles


@dataclass(frozen=True)
class Measures:
    """Measurements of a model on the held-out rows.

    Attributes:
        confusion: number of rows by given label (first index) and predicted class (second index).
        majority: accuracy of always predicting the most frequent label of the training rows.
        importance: importance of each column, the most important first; None for tables of more than `COLUMNS` columns.
        clean_accuracy: estimate of the model's accuracy against right labels, computed from the rate of symmetric
            noise; None if there is no such rate.
        clean_majority: the same estimate for the accuracy `majority`.
    """

    confusion: NDArray[np.int64]
    majority: float
    importance: list[Importance] | None
    clean_accuracy: float | None
    clean_majority: float | None

    @property
    def balanced_accuracy(self) -> float:
        """The mean, over the labels that occur, of the share of a label's rows for which the label is predicted."""
        counts = self.confusion.sum(1)
        return float((self.confusion.diagonal()[counts > 0] / counts[counts > 0]).mean())


def measure(
    pipeline: Any, labels: NDArray[Any], rows: Rows, certificate: RiskCertificate, noise_type: str, seed: int
) -> Measures:
    """Compute the confusion matrix, accuracies and importances of columns of a fitted pipeline on the held-out rows.

    Args:
        pipeline: a classifier of the columns that were selected as features.
        labels: the classes that it predicts for the rows held out.
        rows: all rows and their split.
        certificate: certificate of the pipeline on the held-out rows; its noise rate is used, unless the labels refute
            the rate.
        noise_type: what is assumed about wrong labels, "symmetric" or "any". Estimates of clean accuracies need
            "symmetric".
        seed: seed of the shuffles of a column's values, from which importances are computed.
    """
    selected, target = rows.selected.iloc[rows.held_out], rows.target[rows.held_out]
    predicted = np.searchsorted(rows.classes, labels)
    k = len(rows.classes)
    accuracy = float((predicted == target).mean())
    majority = float((target == np.bincount(rows.target[rows.train], minlength=k).argmax()).mean())
    rate = certificate.noise_rate if noise_type == "symmetric" and certificate.refuted is None else 0.0
    return Measures(
        confusion=np.asarray(confusion_matrix(target, predicted, labels=range(k)), dtype=np.int64),
        majority=majority,
        importance=_importance(pipeline, selected, rows.classes[target], seed),
        clean_accuracy=clean_accuracy(accuracy, rate, k) if rate else None,
        clean_majority=clean_accuracy(majority, rate, k) if rate else None,
    )


def clean_accuracy(noisy: float, noise_rate: float, k: int) -> float:
    r"""Estimate the accuracy against right labels from the accuracy against labels with symmetric noise.

    .. math:: \hat a = 1 - \frac{1 - a - \eta}{1 - \eta k / (k - 1)}

    clipped to [0, 1]. The model's errors are assumed to be independent of the errors of the labels.

    Args:
        noisy: a, the accuracy against the labels as given.
        noise_rate: eta, the share of labels that are wrong, below 1 - 1/k.
        k: number of classes.

    Example:
        A model that is right on 0.9 of the rows agrees with 0.9 * 0.6 + 0.1 * 0.4 = 0.58 of labels of which 0.4 are
        wrong:

        >>> round(clean_accuracy(0.58, 0.4, 2), 6)
        0.9
    """
    error = (1 - noisy - noise_rate) / (1 - noise_rate * k / (k - 1))
    return 1 - min(1.0, max(0.0, error))


def _importance(pipeline: Any, selected: pd.DataFrame, labels: NDArray[Any], seed: int) -> list[Importance] | None:
    if selected.shape[1] > COLUMNS:
        return None
    importances = permutation_importance(
        pipeline,
        selected,
        labels,
        scoring="accuracy",
        n_repeats=REPEATS,
        random_state=seed,
        max_samples=min(ROWS, len(selected)),
    )
    columns = zip(selected.columns, importances.importances_mean, importances.importances_std, strict=True)
    return sorted(
        (Importance(str(name), float(mean), float(std)) for name, mean, std in columns), key=lambda i: -i.mean
    )
