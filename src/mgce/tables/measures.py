"""What a model does on the rows held out: class by class, column by column, and beside the simplest of all models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.inspection import permutation_importance
from sklearn.metrics import confusion_matrix

from mgce.risk import RiskCertificate
from mgce.tables.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

# A column costs as many predictions as there are repeats. Those of 500 rows by a forest take a tenth of a second.
REPEATS, ROWS, COLUMNS = 3, 500, 100


@dataclass(frozen=True)
class Importance:
    """How much accuracy a model loses, in [-1, 1], when the values of one column are shuffled among the rows."""

    column: str
    mean: float
    deviation: float  # over the shuffles


@dataclass(frozen=True)
class Measures:
    """What was found on the rows held out.

    Attributes:
        confusion: rows by given label (first index) and predicted class (second), (k, k).
        majority: accuracy of always predicting the most frequent label of the training rows.
        importance: of each column, the most important first; None where there are more columns than `COLUMNS`.
        clean_accuracy: estimate of the accuracy against right labels, from a rate of symmetric noise; None without one.
        clean_majority: the same of the majority.
    """

    confusion: NDArray[np.int64]
    majority: float
    importance: list[Importance] | None
    clean_accuracy: float | None
    clean_majority: float | None


def measure(
    pipeline: Any, labels: NDArray[Any], rows: Rows, certificate: RiskCertificate, noise: str, seed: int
) -> Measures:
    """Measure a fitted pipeline on the rows held out.

    Args:
        pipeline: of selected columns to a class.
        labels: the classes that it predicts for these rows.
        rows: all rows; those held out count.
        certificate: of the same rows; it holds the noise rate, and knows whether the labels refute it.
        noise: what is assumed of wrong labels.
        seed: of the shuffles.
    """
    selected, target = rows.selected.iloc[rows.held_out], rows.target[rows.held_out]
    predicted = np.searchsorted(rows.classes, labels)
    k = len(rows.classes)
    accuracy = float((predicted == target).mean())
    majority = float((target == np.bincount(rows.target[rows.train], minlength=k).argmax()).mean())
    rate = certificate.noise_rate if noise == "symmetric" and certificate.refuted is None else 0.0
    return Measures(
        confusion=np.asarray(confusion_matrix(target, predicted, labels=range(k)), dtype=np.int64),
        majority=majority,
        importance=_importance(pipeline, selected, rows.classes[target], seed),
        clean_accuracy=clean_accuracy(accuracy, rate, k) if rate else None,
        clean_majority=clean_accuracy(majority, rate, k) if rate else None,
    )


def clean_accuracy(noisy: float, noise_rate: float, k: int) -> float:
    r"""Estimate the accuracy against right labels from the one against labels with symmetric noise.

    .. math:: \hat a = 1 - \frac{1 - a - \eta}{1 - \eta k / (k - 1)}

    cut off to [0, 1]. It takes the errors of the model for independent of those of the labels.

    Args:
        noisy: a, the accuracy against the labels as given.
        noise_rate: eta, the share of labels that are wrong, below 1 - 1/k.
        k: number of classes.

    Example:
        >>> round(clean_accuracy(0.58, 0.4, 2), 6)  # right in .9 of the rows: .9 * .6 + .1 * .4
        0.9
    """
    error = (1 - noisy - noise_rate) / (1 - noise_rate * k / (k - 1))
    return 1 - min(1.0, max(0.0, error))


def _importance(pipeline: Any, selected: pd.DataFrame, labels: NDArray[Any], seed: int) -> list[Importance] | None:
    if selected.shape[1] > COLUMNS:
        return None
    found = permutation_importance(
        pipeline,
        selected,
        labels,
        scoring="accuracy",
        n_repeats=REPEATS,
        random_state=seed,
        max_samples=min(ROWS, len(selected)),
    )
    every = zip(selected.columns, found.importances_mean, found.importances_std, strict=True)
    return sorted((Importance(str(name), float(mean), float(std)) for name, mean, std in every), key=lambda i: -i.mean)
