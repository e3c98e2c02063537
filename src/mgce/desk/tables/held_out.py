"""Measure a model on the held-out rows: certificate, sets, calibration, confusion matrix, importance of columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.inspection import permutation_importance
from sklearn.metrics import confusion_matrix

from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.model import Predictions, TableModel
from mgce.desk.tables.rows import Rows
from mgce.functional import minimax_probs
from mgce.metrics.evaluation import evaluate
from mgce.risk import RiskCertificate, certify
from mgce.risk.parts import label_indices
from mgce.sets import ConformalSets, calibrate

IntArray = NDArray[np.int64]
OF_ALL_ROWS = "the model, which learnt from all rows, is as sure of its classes as that of the training rows"
DISTINCT = (
    "a row and its copies (equal in all features and the label, more often than by chance) count as one draw, and this "
    "holds for distinct rows"
)


@dataclass(frozen=True)
class HeldOut:
    """Predictions of the held-out rows; rows whose label is a class come first."""

    known: Predictions  # of the rows whose label is a class
    target: IntArray  # of all rows held out: positions in the classes; -1, an error of any model, for other labels
    h: NDArray[np.float64]
    softmax: NDArray[np.float64]
    groups: NDArray[Any] | None  # that certificates have to keep together

    @classmethod
    def of(cls, model: TableModel, rows: Rows) -> HeldOut:
        """Return the rows that were held out, with the probabilities that the model gives them."""
        given = rows.labels.iloc[rows.held_out].to_numpy(dtype=str)
        known = model.predict(rows.selected.iloc[rows.held_out])
        target = label_indices(given, model.classes, len(given), rows.columns.target)
        groups = None
        if rows.groups is not None:
            groups = np.concatenate([rows.groups[rows.held_out], rows.unknown_groups])
        if not len(rows.unknown):
            return cls(known, target, known.h, known.softmax, groups)
        unknown = model.predict(rows.unknown)
        return cls(
            known,
            np.concatenate([target, np.full(len(rows.unknown), -1)]),
            np.concatenate([known.h, unknown.h]),
            np.concatenate([known.softmax, unknown.softmax]),
            groups,
        )


def check_certifiable(plan: FitPlan, n_classes: int) -> None:
    """Certify one made-up row, so that an invalid option raises its error now, and not after all fits."""
    _certify(np.zeros(1, np.int64), np.full((1, n_classes), 1 / n_classes), plan, None)


def certified(held_out: HeldOut, rows: Rows, plan: FitPlan) -> RiskCertificate:
    """Bound how often predictions are wrong, under the plan's assumption on wrong labels."""
    certificate = _certify(held_out.target, held_out.h, plan, held_out.groups)
    if rows.n_copies:
        return replace(certificate, assumptions=(*certificate.assumptions, DISTINCT))
    return certificate


def _certify(target: IntArray, h: NDArray[np.float64], plan: FitPlan, groups: NDArray[Any] | None) -> RiskCertificate:
    return certify(target, h, delta=plan.delta, noise_rate=plan.noise_rate, noise_type=plan.noise_type, groups=groups)


def prediction_sets(held_out: HeldOut, rows: Rows, plan: FitPlan) -> ConformalSets:
    """Return conformal prediction sets that are calibrated on the held-out rows."""
    sets = calibrate(held_out.target, held_out.softmax, alpha=1 - plan.coverage, **_noise_options_of_sets(plan))
    return replace(sets, assumptions=(*sets.assumptions, *([DISTINCT] if rows.n_copies else []), OF_ALL_ROWS))


def _noise_options_of_sets(plan: FitPlan) -> dict[str, Any]:
    """Return the options on wrong labels for the calibration of prediction sets.

    The plan's share of wrong labels is used only if it is an upper bound (noise "any") and smaller than the share of
    rows whose set may miss the label. Otherwise labels are taken as given.
    """
    if plan.noise_type == "any" and plan.noise_rate < 1 - plan.coverage:
        return {"noise_type": plan.noise_type, "noise_rate": plan.noise_rate}
    return {}


def quality(f: NDArray[np.float64], target: IntArray, beta: float) -> dict[str, Any]:
    """Return accuracy and calibration errors of predictions on labelled rows.

    Args:
        f: margins (logits), shape (n, k): n rows, k classes.
        target: labels, shape (n,).
        beta: loss parameter by which the probabilities h and p follow from f.

    Returns:
        Accuracy, calibration errors ECE and SCE of the probabilities h and p, and `randomized_error`, the expected
        error of a class that is drawn from h.
    """
    logits, labels = torch.from_numpy(f), torch.from_numpy(target)
    h_of_label = minimax_probs(logits, beta=beta).gather(1, labels[:, None])
    return evaluate(logits, labels, beta) | {"randomized_error": float(1 - h_of_label.mean())}


class Shuffles(NamedTuple):
    """The limits of permutation importance, which takes a prediction for each shuffle of each column.

    A forest predicts 500 rows in a tenth of a second, so 3 shuffles of 100 columns take half a minute at most.

    Attributes:
        each: number of shuffles of each column.
        rows: most held-out rows that are predicted.
        columns: tables of more columns have no importances.
    """

    each: int = 3
    rows: int = 500
    columns: int = 100


SHUFFLES = Shuffles()


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
        importance: importance of each column, the most important first; None for a table of too many columns.
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
        labels: the classes that the pipeline predicts for the rows held out.
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
    if selected.shape[1] > SHUFFLES.columns:
        return None
    importances = permutation_importance(
        pipeline,
        selected,
        labels,
        scoring="accuracy",
        n_repeats=SHUFFLES.each,
        random_state=seed,
        max_samples=min(SHUFFLES.rows, len(selected)),
    )
    columns = zip(selected.columns, importances.importances_mean, importances.importances_std, strict=True)
    return sorted(
        (Importance(str(name), float(mean), float(std)) for name, mean, std in columns), key=lambda i: -i.mean
    )
