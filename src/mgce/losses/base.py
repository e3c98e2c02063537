"""What the modules of losses have in common: the arguments of cross-entropy, and beta."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _WeightedLoss

from mgce import _validation
from mgce._validation import expected
from mgce.numerics.root import Beta


class WithBeta(nn.Module):
    """A module with a beta: a number, one for each row (a buffer), or one that is learnt (a parameter)."""

    raw_beta: Beta

    @property
    def beta(self) -> Beta:
        """What the module computes with, always in [1, inf].

        A parameter below 1, to which a step of an optimizer may take it, is reflected at 1: the gradient then points
        back, and the parameter itself is left alone.
        """
        return _in_range(self.raw_beta)

    @beta.setter
    def beta(self, beta: Beta) -> None:
        store_beta(self, beta)


# What a loss around others has only in those: set on itself, it would be kept and change nothing.
OF_LOSSES_INSIDE = frozenset(("beta", "dim", "ignore_index", "label_smoothing", "reduction", "weight"))


class Criterion(nn.Module):
    """The interface of every loss of this package; `losses/protocol.py` reads it, and that of other modules."""

    inside: frozenset[str] = frozenset()  # the arguments that only losses inside have

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse an argument that only losses inside have."""
        if name in self.inside:
            raise AttributeError(expected(name, f"set on the losses inside {type(self).__name__}", value))
        nn.Module.__setattr__(self, name, value)

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities."""
        raise NotImplementedError

    def parts(self) -> tuple[nn.Module, ...]:
        """Return the losses inside this one that are computed."""
        return ()

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and p of logits: h is what the classifier predicts with, p is what should be calibrated.

        They are the same for a loss without beta.
        """
        probs = self.link(logits)
        return probs, probs

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction of this loss and of the losses inside it."""
        raise NotImplementedError


class Loss(_WeightedLoss, Criterion):
    """The arguments that `nn.CrossEntropyLoss` has.

    Not derived from it: skorch and others take every instance of that class for softmax.
    """

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
    ) -> None:
        _validation.check_class_weight(weight)
        super().__init__(weight, size_average, reduce, reduction)
        _validation.check_choice("reduction", self.reduction, _validation.REDUCTIONS)
        _validation.check_ignore_index(ignore_index)
        _validation.check_label_smoothing(label_smoothing)
        if dim is not None:
            _validation.check_dim(dim)
        self.ignore_index = python_number(ignore_index)
        self.label_smoothing = python_number(label_smoothing)
        self.dim = python_number(dim)

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction."""
        self.reduction = reduction

    def hyperparameters(self) -> dict[str, Any]:
        """Return what this loss has and cross-entropy has not, by name."""
        return {}

    def extra_repr(self) -> str:
        """Show the hyperparameters, and the other arguments where they are not the default."""
        defaults = {"ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0, "dim": None}
        changed = [f"{name}={getattr(self, name)!r}" for name in defaults if getattr(self, name) != defaults[name]]
        return ", ".join([*(f"{name}={show(value)}" for name, value in self.hyperparameters().items()), *changed])


class RobustLoss(Loss, WithBeta):
    """A loss with beta."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        beta: Beta,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        store_beta(self, beta)

    def hyperparameters(self) -> dict[str, Any]:
        """Return beta."""
        return {"beta": self.beta}


def python_number(value: Any) -> Any:
    """Return a number of NumPy's as one of Python's, since the others do not compile; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def store_beta(module: WithBeta, beta: Beta) -> None:
    """Keep a float as it is, a parameter as a parameter, and another tensor as a buffer, in place of what was there."""
    number = _validation.check_beta(_in_range(beta))
    if hasattr(module, "raw_beta"):
        del module.raw_beta
    if isinstance(beta, Tensor) and not isinstance(beta, nn.Parameter):
        module.register_buffer("raw_beta", beta)
    else:
        module.raw_beta = beta if isinstance(beta, Tensor) else number


def _in_range(beta: Beta) -> Beta:
    """Reflect a parameter at 1; what is not learnt is as it is."""
    return torch.where(beta >= 1, beta, 2 - beta) if isinstance(beta, nn.Parameter) else beta


def show(beta: Any) -> str:
    """Return beta for a module's `repr`: a number, or the shape of a tensor with several values or on `meta`."""
    if isinstance(beta, Tensor) and (beta.ndim or beta.is_meta):
        return f"tensor{tuple(beta.shape)}"
    number = beta.item() if isinstance(beta, Tensor) else beta
    return f"{math.inf if number > sys.float_info.max else float(number):g}"  # an integer may be larger than any float
