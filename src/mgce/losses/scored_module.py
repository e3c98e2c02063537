"""A loss made by `loss_of_logits` as a module."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mgce._validation import expected
from mgce.losses.arguments import with_class_dim
from mgce.losses.base import Loss, python_number
from mgce.losses.modules import MinimaxLink
from mgce.losses.scored import LossFunction, hyperparameters_of


class ScoredLoss(Loss):
    """A loss whose hyperparameters are those of its function. A class that derives from it names the `function`."""

    function: ClassVar[LossFunction]
    defaults: ClassVar[dict[str, Any]]  # of the hyperparameters

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        shared = [p for p in inspect.signature(Loss.__init__).parameters.values() if p.name != "self"]
        own = hyperparameters_of(cls.function)
        cls.defaults = {name: parameter.default for name, parameter in own.items()}
        cls.__signature__ = inspect.Signature([*shared, *own.values()])  # type: ignore[attr-defined] # for help()

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        dim: int | None = None,
        **hyperparameters: Any,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        for name, value in hyperparameters.items():
            if name not in self.defaults:
                what = f"a hyperparameter of {type(self).__name__}, which has {', '.join(self.defaults) or 'none'}"
                raise TypeError(expected(name, what, value))
        # The function checks its hyperparameters; a row is computed here, so that a bad one is refused when given.
        self.function(torch.zeros(2, device="cpu"), torch.tensor(0, device="cpu"), **hyperparameters)
        for name, default in self.defaults.items():
            setattr(self, name, python_number(hyperparameters.get(name, default)))

    def hyperparameters(self) -> dict[str, Any]:
        """Give what this loss has and cross-entropy has not, by name."""
        return {name: getattr(self, name) for name in self.defaults}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against class indices or class probabilities."""
        options = (self.weight, self.ignore_index, self.reduction, self.label_smoothing)
        input, target = with_class_dim(input, target, self.dim)
        return self.function(input, target, *options, **self.hyperparameters())

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: softmax, over the loss's dimension of classes."""
        return MinimaxLink(beta=float("inf"), dim=self.dim)
