"""Compute losses that need no kernel from scores of classes, with the reductions and weights of cross-entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mgce._validation import class_dim
from mgce.kernels.options import LossOptions
from mgce.losses.arguments import HALF_TYPES, check_arguments, result_dtype, with_class_dim
from mgce.losses.nll import nll, nll_of_labels, of_labels
from mgce.numerics import exponential


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
    return torch.where(exponent > -1, exponential.expm1(exponent), torch.exp(exponent) - 1)
