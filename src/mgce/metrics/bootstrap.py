"""An interval around a calibration error, or any other number of a sample, from resampled rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mgce import _validation
from mgce._row_order import content_order
from mgce._validation import expected


class Interval(NamedTuple):
    """A number of a sample, and where that of the distribution may be; 0-dimensional float64 tensors."""

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
    r"""Return a bootstrap interval of a calibration error, corrected for the error's own bias.

    .. math:: \big[\,2 \hat\theta - \hat\theta^*_{1 - a/2},\; 2 \hat\theta - \hat\theta^*_{a/2}\,\big] \cap [0, 1]

    with :math:`\hat\theta` the metric of the sample, :math:`\hat\theta^*_q` the quantiles of the metric over resamples
    of N rows with replacement, and a = `delta`. A calibration error of few rows is too large, since noise in a
    bin counts as error, and that of a resample is too large once more: this "basic" interval mirrors the resamples at
    the value, so that the bias is taken back, and the value may lie above it. It is approximate, as every bootstrap:
    a bound that is valid for any number of rows is :func:`mgce.certify`'s.

    Args:
        metric: of `probs` and `target`, such as :func:`expected_calibration_error`; a number in [0, 1].
        probs: probabilities, shape (N, k).
        target: labels, shape (N,).
        generator: source of the resamples; the global random state is neither read nor changed.
        delta: in (0, 1), the share of samples whose interval may miss the distribution's value.
        n_resamples: at least 1.

    Returns:
        The value of the sample and the two ends, an :class:`Interval`.

    Raises:
        TypeError: if `generator` is not a torch.Generator, or `n_resamples` no integer.
        ValueError: if the two tensors are not as long as each other or empty, or `delta` is out of range.

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
