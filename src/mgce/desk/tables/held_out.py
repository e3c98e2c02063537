"""Predict the held-out rows, and take from them the certificate, prediction sets, and calibration errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

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
        """Predict the rows that were held out."""
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
    """Certify one made-up row: an invalid option raises its error now, not after all fits."""
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
