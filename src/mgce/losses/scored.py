"""Compute losses from scores of classes, with weights, ignored rows, smoothing and reductions of `cross_entropy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce._validation import HALF_TYPES, class_dim, target_out_of_range
from mgce.kernels.options import LossOptions
from mgce.losses.arguments import check_arguments, result_dtype, with_class_dim
from mgce.numerics import root


def nll(
    scores: Tensor,  # (C), (N, C) or (N, C, d1, ..., dK), where cross-entropy has log_softmax
    target: Tensor,  # class indices, or class probabilities of the shape of `scores`
    weight: Tensor | None,  # (C)
    options: LossOptions,
) -> Tensor:
    """Compute `cross_entropy` with the given scores instead of log-probabilities."""
    if target.shape == scores.shape:
        return _soft_nll(scores, target, weight, options)
    label_smoothing = options.label_smoothing
    target = target.long()
    if weight is not None:
        weight = weight.to(scores.dtype)
    hard = _hard_nll(scores, target, weight, options.ignore_index, options.reduction)
    if label_smoothing == 0:
        return hard
    smooth = _uniform_nll(scores, target, weight, options)
    return (1 - label_smoothing) * hard + label_smoothing * smooth


def of_labels(values: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    """Return the value at the label of each row, and 0 for ignored rows, in the shape of the target."""
    return -_hard_nll(values, target.long(), None, ignore_index, "none")


def row_weights(target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    """Return the weight of each row in the mean: 0 if ignored, else the class weight of its label.

    Without class weights the result is a boolean mask of the rows that are not ignored.
    """
    kept = target != ignore_index
    return kept if weight is None else torch.where(kept, of_class(weight, torch.where(kept, target, 0)), 0)


def of_class(weight: Tensor, labels: Tensor) -> Tensor:
    """Return the class weight of each label, in the shape of the labels.

    `weight[labels]` would fail under `vmap` and on the device `meta`: for a single label it reads the label's value.
    """
    return weight.index_select(0, labels.flatten()).view(labels.shape)


def nll_of_labels(scores: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions) -> Tensor:
    """Compute the loss of :func:`nll` from only the scores of the labels, given in the shape of index targets.

    Label smoothing is not supported, since it needs the scores of all classes.
    """
    target = target.long()  # uint8 takes an ignored index of -100 for 156
    weight = None if weight is None else weight.to(scores.dtype)
    counts = row_weights(target, weight, options.ignore_index)
    costs = -scores if weight is None else -scores * counts
    return _reduced(torch.where(target != options.ignore_index, costs, 0), options.reduction, counts.sum())


def _hard_nll(scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    # Of four dimensions with other strides, as images with their channels last, it has no derivative.
    scores = scores.contiguous()
    try:
        return F.nll_loss(scores, target, weight, None, ignore_index, None, reduction)
    except IndexError:
        k = scores.shape[class_dim(scores)]
        wrong = target[((target < 0) | (target >= k)) & (target != ignore_index)]
        raise IndexError(target_out_of_range(wrong[0].item(), k, ignore_index)) from None


def _uniform_nll(scores: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions) -> Tensor:
    """Return the loss against uniform class probabilities; a mean uses the class weights of the labels."""
    dim = class_dim(scores)
    k = scores.shape[dim]
    kept = target != options.ignore_index
    rows = -(scores if weight is None else scores * _along(weight, scores)).sum(dim) / k
    counts = row_weights(target, weight, options.ignore_index)
    return _reduced(torch.where(kept.reshape(rows.shape), rows, 0), options.reduction, counts.sum())


def _soft_nll(scores: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions) -> Tensor:
    k = scores.shape[class_dim(scores)]
    q = target.to(torch.promote_types(target.dtype, scores.dtype))
    if options.label_smoothing > 0:
        q = q * (1 - options.label_smoothing) + options.label_smoothing / k
    if weight is not None:
        q = q * _along(weight, scores)
    # A masked class that the target gives nothing adds nothing; cross_entropy has 0 * inf = NaN here.
    scores = torch.where((q == 0) & (scores == -torch.inf), 0, scores)
    return _reduced(-(q * scores).sum(class_dim(scores)), options.reduction, scores.numel() / k)


def _reduced(rows: Tensor, reduction: str, divisor: Tensor | float) -> Tensor:
    """Return the losses of rows, their sum, or for a mean the sum divided by `divisor`."""
    if reduction == "none":
        return rows
    return rows.sum() if reduction == "sum" else rows.sum() / divisor


def _along(weight: Tensor, scores: Tensor) -> Tensor:
    return weight.view([-1 if d == class_dim(scores) else 1 for d in range(scores.ndim)])


class Wanted(NamedTuple):
    """Which scores a loss needs of each row: that of the label only, or those of all classes.

    All are needed for class probabilities and for label smoothing. A loss that computes only the score of the label
    costs little more than cross-entropy.

    Attributes:
        dim: dimension of the classes in the logits.
        target: class indices, a scalar for a single row; None if all classes are needed.
        ignore_index: class index of the rows that are ignored.
    """

    dim: int
    target: Tensor | None
    ignore_index: int

    @classmethod
    def by(cls, logits: Tensor, target: Tensor, options: LossOptions) -> Wanted:
        """Return which scores of logits (C), (N, C) or (N, C, d1, ..., dK) a loss needs, given target and options."""
        dim = class_dim(logits)
        if target.is_floating_point() or options.label_smoothing > 0:
            return cls(dim, None, options.ignore_index)
        return cls(dim, target if dim else target.reshape(()), options.ignore_index)  # (1,) is taken for one row too

    @property
    def keepdim(self) -> bool:
        """Whether a sum over the classes must keep their dimension, to broadcast against results of :meth:`of`."""
        return self.target is None

    def of(self, values: Tensor) -> Tensor:
        """Return the values of all classes if all are needed, otherwise only those of the labels.

        Values of the labels have the shape of the target, and are 0 for ignored rows.
        """
        return values if self.target is None else of_labels(values, self.target, self.ignore_index)

    def are(self, index: Tensor, values: Tensor) -> Tensor:
        """Return a mask of the needed classes that is true where a class equals `index`.

        `index` is one class for each row, computed with the argument `keepdim=wanted.keepdim`.
        """
        if self.target is None:
            return torch.zeros_like(values).scatter(self.dim, index, 1.0) > 0
        return index == self.target

    def loss(self, scores: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions) -> Tensor:
        """Compute `cross_entropy` from the scores of the needed classes instead of log-probabilities."""
        if self.target is None:
            return nll(scores, target, weight, options)
        return nll_of_labels(scores, self.target, weight, options)


def scored_loss(
    scores: Callable[[Tensor, Wanted], Tensor],
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    options: LossOptions,
    dim: int | None,
) -> Tensor:
    """Compute a loss with the options of cross-entropy from a function that returns scores of classes.

    The score of a class is minus the loss of a row with that label. `scores(logits, wanted)` returns the scores of the
    labels only, or of all classes, as `wanted` says. Half types are computed in float32.
    """
    input, target = with_class_dim(input, target, dim)
    check_arguments(input, target, weight, options)
    rows = input.float() if input.dtype in HALF_TYPES else input
    wanted = Wanted.by(rows, target, options)
    loss = wanted.loss(scores(rows, wanted), target, weight, options)
    return loss.to(result_dtype(input, target, weight))


def expm1(exponent: Tensor) -> Tensor:
    """Return exp(exponent) - 1 such that both the value and the derivative are accurate.

    PyTorch computes the derivative of `torch.expm1` as its result plus 1, which loses digits if the result is near -1.
    For such results `exp - 1` is used, which is accurate.
    """
    return torch.where(exponent > -1, root.expm1(exponent), torch.exp(exponent) - 1)
