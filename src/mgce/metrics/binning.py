r"""Compute calibration metrics in steps: check the inputs, select probabilities, sum over bins, compute the error.

The functions in `calibration` and the classes in `streaming` both use these steps, so their results agree. A
*confidence* is the predicted probability of a class. Its *hit* is 1 if the class is the label, else 0. Both have shape
(N,) for the top label, the most probable class of each sample, and shape (k, N) for all classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mgce import _validation


class BinSums(NamedTuple):
    """The number of samples and the sums of confidences and hits in each of B bins, in float64.

    The sums of several batches or processes can be added.
    """

    samples: Tensor  # (..., B), their number
    confidence: Tensor  # (..., B)
    hits: Tensor  # (..., B)


def prepared(probs: Tensor, target: Tensor, validate_args: bool) -> tuple[Tensor, Tensor]:
    """Return `probs` in float64, detached and clamped to [0, 1] to remove rounding errors, and `target`.

    Both are moved to the CPU if their device has no float64. The inputs are checked first if `validate_args` is true.
    """
    given: tuple[Any, Any] = (probs, target)
    probs, target = (x.cpu() if isinstance(x, Tensor) and not _validation.has_float64(x.device) else x for x in given)
    if validate_args:
        check_inputs(probs, target)
    return probs.detach().double().clamp(0, 1), target


def check_inputs(probs: Tensor, target: Tensor) -> None:
    """Require `probs` to be N rows of k probabilities that sum to one, and `target` to be N labels in [0, k)."""
    _validation.check_probs(probs)
    _validation.check_labels(target, probs.shape[1])
    if len(target) != len(probs):
        raise ValueError(_validation.expected("target", f"as long as `probs`, {len(probs)}", len(target)))


def top_label(probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest probability of each row, and 1 if its class (at ties the first) is the label, else 0."""
    confidence, predicted = probs.max(1)
    return confidence, (predicted == target).double()


def class_wise(probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probability of each class in each row, and 1 if the class is the label, else 0; shapes (k, N)."""
    classes = torch.arange(probs.shape[1], device=probs.device)
    return probs.T, (target == classes[:, None]).double()


def bin_edges(n_bins: int, device: torch.device) -> Tensor:
    """Return the B + 1 edges b/B of B = `n_bins` bins of equal width between 0 and 1, rounded to float64."""
    return torch.arange(n_bins + 1, dtype=torch.float64, device=device) / n_bins


def equal_width_sums(confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    """Sum confidences and hits (1 if right, else 0) over B bins [b/B, (b+1)/B) of confidence; the last includes 1."""
    inner = bin_edges(n_bins, confidence.device)[1:-1]
    # Not floor(c * B): that product may be rounded across an edge, as 0.29 * 100 is.
    return _sums(torch.bucketize(confidence.contiguous(), inner, right=True), confidence, hits, n_bins)


def equal_mass_sums(confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    """Sum confidences and hits (1 if right, else 0) over B bins with equal numbers of samples.

    The sample with the r-th smallest confidence is in bin floor(r B / N), where r counts from 0 and N is the number of
    samples. `confidence` and `hits` have shape (N,).
    """
    _, group, size = torch.unique(confidence, return_inverse=True, return_counts=True)
    # Samples of equal confidence each take the mean of their hits, since their order decides which bin each falls into.
    shared = (torch.zeros_like(size, dtype=torch.float64).index_add_(0, group, hits) / size)[group]
    ordered, order = confidence.sort()
    rank = torch.arange(len(confidence), device=confidence.device)
    return _sums(rank * n_bins // len(confidence), ordered, shared[order], n_bins)


def calibration_error(sums: BinSums) -> Tensor:
    """Return sum_b n_b/N |acc(b) - conf(b)|; of N samples bin b has n_b, with accuracy acc and mean confidence conf.

    The result is averaged over the leading dimensions if there are any.
    """
    gap = (sums.hits - sums.confidence).abs().sum(-1)
    return (gap / sums.samples.sum(-1)).mean()


def maximum_error(sums: BinSums) -> Tensor:
    """Return max_b |acc(b) - conf(b)| over all bins with samples, averaged over the leading dimensions.

    acc(b) is the accuracy and conf(b) the mean confidence in bin b.
    """
    gap = (sums.hits - sums.confidence).abs() / sums.samples.clamp(min=1)  # 0 in an empty bin
    return gap.amax(-1).mean()


def _sums(index: Tensor, confidence: Tensor, hits: Tensor, n_bins: int) -> BinSums:
    zeros = confidence.new_zeros((*confidence.shape[:-1], n_bins))
    one = torch.ones_like(confidence)
    return BinSums(*(zeros.scatter_add(-1, index, values) for values in (one, confidence, hits)))
