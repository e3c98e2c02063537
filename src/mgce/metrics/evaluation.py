"""Measure a classifier by its logits: its accuracy, and how well its two probabilities are calibrated.

A robust loss gives two probabilities: h, the minimax one that the classifier predicts with, and p, the worst-case one
that is meant to be calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from mgce.link.probs import minimax_to_worst_case, worst_case_to_minimax
from mgce.losses.modules import MinimaxLink
from mgce.metrics.calibration import (
    ReliabilityCurve,
    expected_calibration_error,
    reliability_curve,
    static_calibration_error,
)

N_BINS = 15  # as many as Guo et al. (ICML 2017) have, and most papers since
FloatArray = NDArray[np.float64]


def rank_classes(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Order the classes of every row by falling logit, the lower index first where two are equal.

    The predicted class is that of the largest logit. Probabilities alone may not tell which it is: several classes may
    share the largest one, as they often do in p at beta = 1. The errors of the top label take the first class of
    largest probability, so probabilities are put in this order first, and the predicted class comes first.

    Args:
        logits: f, shape (N, k).
        target: class indices, shape (N,).

    Returns:
        The classes in order, shape (N, k), and the place of the label among them, shape (N,): 0 where the prediction
        is right.
    """
    order = logits.argsort(dim=-1, descending=True, stable=True)
    return order, (order == target[:, None]).long().argmax(-1)


def measure(logits: Tensor, target: Tensor, outputs: Mapping[str, Tensor]) -> dict[str, float]:
    """Return `accuracy`, and for the probabilities (N, k) of each output `ece_NAME` and `sce_NAME`."""
    order, place = rank_classes(logits, target)
    result = {"accuracy": float((place == 0).double().mean())}
    for name, probs in outputs.items():
        result[f"ece_{name}"] = float(expected_calibration_error(probs.gather(-1, order), place, N_BINS))
        result[f"sce_{name}"] = float(static_calibration_error(probs, target, N_BINS))
    return result


def both_outputs(logits: Tensor, beta: float, link: nn.Module) -> dict[str, Tensor]:
    """Return h and p of logits (N, k) by the link of a loss of this beta: it gives h, or p after forward correction."""
    probs: Tensor = link(logits)
    if any(isinstance(part, MinimaxLink) and part.output == "worst_case" for part in link.modules()):
        return {"h": worst_case_to_minimax(probs, beta=beta), "p": probs}
    return {"h": probs, "p": minimax_to_worst_case(probs, beta=beta)}


def evaluate(
    logits: Tensor,
    target: Tensor,
    beta: float,
    *,
    link: nn.Module | None = None,
) -> dict[str, Any]:
    """Measure both outputs of a classifier, and draw the reliability curve of each.

    Args:
        logits: f, shape (N, k).
        target: class indices, shape (N,).
        beta: that of the loss it was trained by; inf for one without beta, whose p is h.
        link: that of the loss, where h is not the minimax probabilities at beta, as after training by generalized
            cross-entropy.

    Returns:
        What :func:`measure` gives for `h` and `p`, and `reliability_h` and `reliability_p`: lists of the count, mean
        confidence and accuracy of every bin, ready for JSON.
    """
    logits = logits.double()
    outputs = both_outputs(logits, beta, MinimaxLink(beta=beta) if link is None else link)
    order, place = rank_classes(logits, target)
    curves = {
        f"reliability_{name}": _plain(reliability_curve(probs.gather(-1, order), place, N_BINS))
        for name, probs in outputs.items()
    }
    return {**measure(logits, target, outputs), **curves}


def pool(curves: Sequence[Mapping[str, Any]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Join reliability curves with the same bins, as :func:`evaluate` gives them, into one over the rows of all.

    Gives the mean confidence, the accuracy and the share of the rows of every bin; bins without rows are left out.
    """
    counts = np.array([curve["count"] for curve in curves], dtype=float)
    total = counts.sum(0)
    kept = total > 0
    # An empty bin has None for its means; 0 serves in its place, since its count of 0 is the weight.
    values = [np.array([[v or 0.0 for v in curve[name]] for curve in curves]) for name in ("confidence", "accuracy")]
    confidence, accuracy = ((counts * value).sum(0)[kept] / total[kept] for value in values)
    return confidence, accuracy, total[kept] / total.sum()


def _plain(curve: ReliabilityCurve) -> dict[str, list[Any]]:
    """Return a curve as lists, with None for the mean of an empty bin."""
    means = {"confidence": curve.confidence, "accuracy": curve.accuracy}
    return {
        "count": curve.count.tolist(),
        **{name: [None if math.isnan(v) else v for v in mean.tolist()] for name, mean in means.items()},
    }
