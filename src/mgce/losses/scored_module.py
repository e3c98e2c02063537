"""Define the base class of loss modules whose function is made by `scored_loss`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mgce.losses.base import Loss
from mgce.losses.modules import MinimaxLink


class ScoredLoss(Loss):
    """A loss module around a loss function, the class attribute `function`.

    The function takes the arguments of cross-entropy, `dim`, and the hyperparameters named in `own`. A subclass with
    hyperparameters sets them in `__init__`, and then calls :meth:`check`.
    """

    function: ClassVar[Callable[..., Tensor]]
    own: ClassVar[tuple[str, ...]] = ()  # names of the hyperparameters

    def check(self) -> None:
        """Compute the loss of one row, so that a wrong hyperparameter raises when the module is constructed."""
        self.function(torch.zeros(2, device="cpu"), torch.tensor(0, device="cpu"), **self.hyperparameters())

    def hyperparameters(self) -> dict[str, Any]:
        """Return the arguments that this loss has and cross-entropy does not have, by name."""
        return {name: getattr(self, name) for name in self.own}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against class indices or class probabilities."""
        options = (self.weight, self.ignore_index, self.reduction, self.label_smoothing)
        return self.function(input, target, *options, dim=self.dim, **self.hyperparameters())

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: softmax over the `dim` of the loss."""
        return MinimaxLink(beta=float("inf"), dim=self.dim)
