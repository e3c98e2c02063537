"""A loss made by `scored_loss` as a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mgce.losses.base import Loss
from mgce.losses.modules import MinimaxLink


class ScoredLoss(Loss):
    """A loss of a `function` that takes the arguments of cross-entropy, `dim`, and its `own` hyperparameters.

    A class that derives from it and has hyperparameters sets each in `__init__`, and then calls :meth:`check`.
    """

    function: ClassVar[Callable[..., Tensor]]
    own: ClassVar[tuple[str, ...]] = ()  # names of the hyperparameters

    def check(self) -> None:
        """Compute a row, so that a bad hyperparameter is refused when it is given."""
        self.function(torch.zeros(2, device="cpu"), torch.tensor(0, device="cpu"), **self.hyperparameters())

    def hyperparameters(self) -> dict[str, Any]:
        """Return what this loss has and cross-entropy has not, by name."""
        return {name: getattr(self, name) for name in self.own}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against class indices or class probabilities."""
        options = (self.weight, self.ignore_index, self.reduction, self.label_smoothing)
        return self.function(input, target, *options, dim=self.dim, **self.hyperparameters())

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: softmax, over the loss's dimension of classes."""
        return MinimaxLink(beta=float("inf"), dim=self.dim)
