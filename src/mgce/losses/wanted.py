"""Select the classes whose scores a loss needs: for class indices the label of each row, otherwise all classes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgce._validation import class_dim
from mgce.kernels.options import LossOptions
from mgce.losses.nll import nll, nll_of_labels, of_labels


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
