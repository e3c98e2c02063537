"""Measure a classifier by its logits: accuracy, calibration of its two kinds of probabilities, bootstrap intervals.

A robust loss defines two kinds of probabilities. The classifier predicts with h, the minimax probabilities. The
worst-case probabilities p are meant to be calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mgce._messages import check_count, expected
from mgce._row_order import content_order
from mgce.link.probs import minimax_to_worst_case, worst_case_to_minimax
from mgce.losses.modules import MinimaxLink
from mgce.metrics.calibration import (
    ReliabilityCurve,
    expected_calibration_error,
    reliability_curve,
    static_calibration_error,
)

FloatArray = NDArray[np.float64]


def rank_classes(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Sort the classes of every row by decreasing logit; of equal logits the lower index comes first.

    The predicted class has the largest logit. Probabilities do not always determine this class: several classes may
    have the largest probability, as often for p at beta = 1. Calibration errors take the first of these classes. So
    probabilities are put into this order first, in which the predicted class comes first.

    Args:
        logits: f, shape (N, k) for N rows and k classes.
        target: class indices, shape (N,).

    Returns:
        The sorted classes, shape (N, k), and the position of the label among them, shape (N,), which is 0 if the
        prediction is right.
    """
    order = logits.argsort(dim=-1, descending=True, stable=True)
    return order, (order == target[:, None]).long().argmax(-1)


def measure(logits: Tensor, target: Tensor, outputs: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the accuracy, and the expected and static calibration errors of each kind of probabilities.

    `outputs` maps names to probabilities of N rows and k classes, (N, k). The keys of the result are `accuracy`,
    `ece_NAME` and `sce_NAME`.
    """
    order, place = rank_classes(logits, target)
    result = {"accuracy": float((place == 0).double().mean())}
    for name, probs in outputs.items():
        result[f"ece_{name}"] = float(expected_calibration_error(probs.gather(-1, order), place))
        result[f"sce_{name}"] = float(static_calibration_error(probs, target))
    return result


def both_outputs(logits: Tensor, beta: float, link: nn.Module) -> dict[str, Tensor]:
    """Return the minimax probabilities h and the worst-case probabilities p of N rows of k logits.

    Both are computed from the beta and the link of a loss. The link maps logits to probabilities: to p for a loss with
    forward correction, otherwise to h.
    """
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
    """Measure the accuracy of a classifier, and the calibration of its two kinds of probabilities, h and p.

    Args:
        logits: f, shape (N, k) for N rows and k classes.
        target: class indices, shape (N,).
        beta: the beta of the loss that the classifier was trained with; inf for a loss without beta, for which p is h.
        link: the link of the loss, needed if h are not the minimax probabilities at beta, as for generalized
            cross-entropy.

    Returns:
        The results of :func:`measure` for `h` and `p`, and `reliability_h` and `reliability_p`: for every bin the
        number of rows, the mean confidence and the accuracy, as lists for JSON.
    """
    logits = logits.double()
    outputs = both_outputs(logits, beta, MinimaxLink(beta=beta) if link is None else link)
    order, place = rank_classes(logits, target)
    curves = {
        f"reliability_{name}": _plain(reliability_curve(probs.gather(-1, order), place))
        for name, probs in outputs.items()
    }
    return {**measure(logits, target, outputs), **curves}


def pool(curves: Sequence[Mapping[str, Any]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Combine reliability curves with the same bins, as returned by :func:`evaluate`, into one curve over all rows.

    Returns the mean confidence, the accuracy and the fraction of all rows of every bin; empty bins are left out.
    """
    counts = np.array([curve["count"] for curve in curves], dtype=float)
    total = counts.sum(0)
    kept = total > 0
    # An empty bin has None for its means; 0 serves in its place, since its count of 0 is the weight.
    values = [np.array([[v or 0.0 for v in curve[name]] for curve in curves]) for name in ("confidence", "accuracy")]
    confidence, accuracy = ((counts * value).sum(0)[kept] / total[kept] for value in values)
    return confidence, accuracy, total[kept] / total.sum()


def _plain(curve: ReliabilityCurve) -> dict[str, list[Any]]:
    """Return a reliability curve as lists, with None for the means of an empty bin."""
    means = {"confidence": curve.confidence, "accuracy": curve.accuracy}
    return {
        "count": curve.count.tolist(),
        **{name: [None if math.isnan(v) else v for v in mean.tolist()] for name, mean in means.items()},
    }


class Interval(NamedTuple):
    """The value of a metric on a sample, and the lower and upper end of an interval for its true value, in float64."""

    value: Tensor
    lower: Tensor
    upper: Tensor


def bootstrap_interval(
    metric: Callable[[Tensor, Tensor], Tensor],
    probs: Tensor,  # (N, k)
    target: Tensor,  # (N,)
    generator: torch.Generator,
    *,
    delta: float = 0.05,
    n_resamples: int = 1000,
) -> Interval:
    r"""Return a bootstrap interval for a calibration error, corrected for the bias of the estimate.

    .. math:: \big[\,2 \hat\theta - \hat\theta^*_{1 - a/2},\; 2 \hat\theta - \hat\theta^*_{a/2}\,\big] \cap [0, 1]

    with :math:`\hat\theta` the metric of the sample, :math:`\hat\theta^*_q` the quantiles of the metric over resamples
    of N rows with replacement, and a = `delta`. On few rows a calibration error is overestimated, since random
    deviations in a bin add to it. On a resample it is overestimated once more. This "basic" interval mirrors the
    quantiles of the resamples at the value, which removes the bias. So the value itself may lie above the interval.
    The interval is approximate, like every bootstrap interval. For a bound that is valid for any number of rows use
    :func:`mgce.certify`.

    Args:
        metric: function of `probs` and `target` that returns a number in [0, 1], such as
            :func:`expected_calibration_error`.
        probs: probabilities of k classes for N rows, shape (N, k).
        target: labels, shape (N,).
        generator: random generator for the resamples; the global random state is neither read nor changed.
        delta: probability, in (0, 1), that the interval may miss the true value.
        n_resamples: number of resamples, at least 1.

    Returns:
        An :class:`Interval`: the value on the sample, and the lower and upper end.

    Raises:
        TypeError: if `generator` is not a torch.Generator, or `n_resamples` is not an integer.
        ValueError: if `probs` and `target` are empty or differ in length, or `delta` is out of range.

    Example:
        >>> from mgce.metrics import expected_calibration_error
        >>> probs = torch.tensor([[0.9, 0.1]]).repeat(200, 1)
        >>> target = (torch.arange(200) % 4 == 0).long()  # right in 3 of 4 rows
        >>> interval = bootstrap_interval(expected_calibration_error, probs, target, torch.Generator().manual_seed(0))
        >>> [round(float(number), 2) for number in interval]
        [0.15, 0.08, 0.21]

    Reference: Davison and Hinkley, "Bootstrap methods and their application", 1997, section 5.2.
    """
    if not isinstance(generator, torch.Generator):
        raise TypeError(expected("generator", "a torch.Generator", generator))
    check_count("n_resamples", n_resamples)
    if not 0 < delta < 1:
        raise ValueError(expected("delta", "in (0, 1)", delta))
    n = len(probs)
    if n == 0 or len(target) != n:
        raise ValueError(expected("target", f"as long as `probs`, {n}, and not empty", len(target)))
    value = metric(probs, target).double()
    # Sorted, so that the rows drawn do not depend on the order given.
    order = content_order(target.cpu().numpy(), probs.detach().cpu().double().numpy())
    probs, target = probs[order], target[order]
    resampled = []
    for _ in range(n_resamples):
        rows = torch.randint(n, (n,), generator=generator, device=generator.device).to(probs.device)
        resampled.append(metric(probs[rows], target[rows]).double())
    tail = delta / 2
    low, high = torch.stack(resampled).quantile(value.new_tensor([tail, 1 - tail]))
    return Interval(value, (2 * value - high).clamp(0, 1), (2 * value - low).clamp(0, 1))
