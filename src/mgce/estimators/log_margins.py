"""Compute margins (logits) from probabilities: their logarithms, times the scale with the least MGCE loss."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from mgce._arrays import FloatArray
from mgce.functional import mgce_loss

LARGEST_SCALE = 100.0  # upper limit of the scale s: for a model that is always right, the loss falls with s for ever


def best_scale(logs: FloatArray, index: NDArray[np.int64], weight: FloatArray, beta: float) -> float:
    """Return the scale s in [0, 100] for which the margins (logits) s * `logs` have the least mean MGCE loss.

    The loss is convex in s. Rows of NaN, for which no model made a prediction, are ignored. If all rows are ignored, s
    is 1.

    Args:
        logs: logarithms of probabilities, each row predicted by models that were not trained on the row, shape
            (n, k) for n rows and k classes.
        index: class indices of the rows, shape (n,).
        weight: weight of each row, shape (n,).
        beta: the beta of the MGCE loss, in [1, inf].
    """
    judged = ~np.isnan(logs[:, 0])
    f, target = torch.from_numpy(logs[judged]), torch.from_numpy(index[judged])
    weights = torch.from_numpy(weight[judged])
    if not len(f) or not weights.sum() > 0:
        return 1.0

    def mean_loss(scale: float) -> float:
        return float(mgce_loss(scale * f, target, reduction="none", beta=beta) @ weights / weights.sum())

    return float(minimize_scalar(mean_loss, bounds=(0, LARGEST_SCALE), method="bounded").x)
