r"""The steps that every calibration metric is made of: check, format, sum over bins, compute.

The functions of `calibration` and the classes of `streaming` both run these steps, so that they
cannot drift apart. A *confidence* is the probability given to a class, and its *hit* is 1 where that class is the
label, else 0. Both have the samples in the last dimension: shape (N,) for the top label, the most probable class of
each sample, and (k, N) for all classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mgce import _validation

WITHOUT_FLOAT64 = ("mps",)  # device types; Metal, on Apple's GPUs, has no float64


class BinSums(NamedTuple):
    """Sums over the samples in each of B bins, float64: those of two batches or processes are added."""

    samples: Tensor  # (..., B), their number
    confidence: Tensor  # (..., B)
    hits: Tensor  # (..., B)


def has_float64(device: torch.device) -> bool:
    """Return whether a device can compute in float64; Apple's GPUs cannot."""
    return device.type not in WITHOUT_FLOAT64


def prepared(probs: Tensor, target: Tensor, validate_args: bool) -> tuple[Tensor, Tensor]:
    """Return `probs` and `target`; `probs` in float64, detached, and clamped to [0, 1] against rounding.

    Both are moved to the CPU if their device has no float64.
    """
    given: tuple[Any, Any] = (probs, target)
    probs, target = (x.cpu() if isinstance(x, Tensor) and not has_float64(x.device) else x for x in given)
    if validate_args:
        check_inputs(probs, target)
    return probs.detach().double().clamp(0, 1), target


def check_inputs(probs: Tensor, target: Tensor) -> None:
    """Require `probs` (N, k) with rows that sum to one, and `target` (N,) with labels in [0, k)."""
    _validation.check_probs(probs)
    _validation.check_labels(target, probs.shape[1])
    if len(target) != len(probs):
        raise ValueError(_validation.expected("target", f"as long as `probs`, {len(probs)}", len(target)))


def top_label(probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest probability of each row, and whether its class, the first at ties, is right."""
    confidence, predicted = probs.max(1)
    return confidence, (predicted == target).double()


def class_wise(probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probability of each class in each row, and whether it is the label; shapes (k, N)."""
    classes = torch.arange(probs.shape[1], device=probs.device)
    return probs.T, (target == classes[:, None]).double()


def bin_edges(n_bins: int, device: torch.device) -> Tensor:
    """Return the B + 1 edges b/B, each the float64 number nearest to it."""
    return torch.arange(n_bins + 1, dtype=torch.float64, device=device) / n_bins


def equal_width_sums(confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    """Sum over bins [b/B, (b+1)/B), the last of which includes 1."""
    inner = bin_edges(n_bins, confidence.device)[1:-1]
    # Not floor(c * B): that product may be rounded across an edge, as 0.29 * 100 is.
    return _sums(torch.bucketize(confidence.contiguous(), inner, right=True), confidence, hits, n_bins)


def equal_mass_sums(confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    """Sum over bins floor(r B / N) of the rank r = 0..N-1 of the confidences, each of shape (N,)."""
    _, group, size = torch.unique(confidence, return_inverse=True, return_counts=True)
    # Samples of equal confidence each take the mean of their hits, since their order decides which bin each falls into.
    shared = (torch.zeros_like(size, dtype=torch.float64).index_add_(0, group, hits) / size)[group]
    ordered, order = confidence.sort()
    rank = torch.arange(len(confidence), device=confidence.device)
    return _sums(rank * n_bins // len(confidence), ordered, shared[order], n_bins)


def calibration_error(sums: BinSums) -> Tensor:
    """Return sum_b n_b/N |acc(b) - conf(b)|, averaged over the leading dimensions if there are any."""
    gap = (sums.hits - sums.confidence).abs().sum(-1)
    return (gap / sums.samples.sum(-1)).mean()


def maximum_error(sums: BinSums) -> Tensor:
    """Return max_b |acc(b) - conf(b)| over the bins that have samples, averaged over the leading dimensions."""
    gap = (sums.hits - sums.confidence).abs() / sums.samples.clamp(min=1)  # 0 in an empty bin
    return gap.amax(-1).mean()


def _sums(index: Tensor, confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    zeros = confidence.new_zeros((*confidence.shape[:-1], n_bins))
    one = torch.ones_like(confidence)
    return BinSums(*(zeros.scatter_add(-1, index, values) for values in (one, confidence, hits)))
