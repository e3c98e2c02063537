"""Compute bootstrap intervals for calibration errors and similar metrics of a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mgce import _validation
from mgce._row_order import content_order
from mgce._validation import expected


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
    _validation.check_count("n_resamples", n_resamples)
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
