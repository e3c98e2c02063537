"""The classes whose scores a loss needs: against class indices only those of the labels, a number a row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgce._validation import class_dim
from mgce.kernels.options import LossOptions
from mgce.losses.nll import nll, nll_of_labels, of_labels


class Wanted(NamedTuple):
    """Of each row the class of its label, or all classes where others count as well.

    A loss that takes its label first, and computes with that alone, costs little more than cross-entropy.

    Attributes:
        dim: dimension of the classes in the logits.
        target: class indices, of one row a scalar; None is all classes.
        ignore_index: index of rows that do not count.
    """

    dim: int
    target: Tensor | None
    ignore_index: int

    @classmethod
    def by(cls, logits: Tensor, target: Tensor, options: LossOptions) -> Wanted:
        """Return what a loss needs of logits (C), (N, C) or (N, C, d1, ..., dK) against a target."""
        dim = class_dim(logits)
        if target.is_floating_point() or options.label_smoothing > 0:
            return cls(dim, None, options.ignore_index)
        return cls(dim, target if dim else target.reshape(()), options.ignore_index)  # (1,) is taken for one row too

    @property
    def keepdim(self) -> bool:
        """Whether what there is of each row needs the dimension of classes, to go with what :meth:`of` gives."""
        return self.target is None

    def of(self, values: Tensor) -> Tensor:
        """Return the values of all classes, or those of the labels, in the target's shape and 0 for ignored rows."""
        return values if self.target is None else of_labels(values, self.target, self.ignore_index)

    def are(self, index: Tensor, values: Tensor) -> Tensor:
        """Say of each class wanted whether it is the one of `index`, a class for each row, made with `keepdim`."""
        if self.target is None:
            return torch.zeros_like(values).scatter(self.dim, index, 1.0) > 0
        return index == self.target

    def loss(self, scores: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions) -> Tensor:
        """Reduce minus the scores of the classes wanted as `cross_entropy` reduces minus the log-probabilities."""
        if self.target is None:
            return nll(scores, target, weight, options)
        return nll_of_labels(scores, self.target, weight, options)
