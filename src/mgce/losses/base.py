"""Define the base classes of loss modules, with the arguments of cross-entropy and the hyperparameter beta."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _WeightedLoss

from mgce._messages import expected
from mgce._validation import check_beta, check_class_weight, check_cross_entropy, check_dim
from mgce.kernels.options import SoftmaxTerms
from mgce.numerics.root import Beta


class WithBeta(nn.Module):
    """The base class of modules with a beta: a number, a buffer (one number for each row) or a learnt parameter."""

    raw_beta: Beta

    @property
    def beta(self) -> Beta:
        """The value of beta that the module computes with, always in [1, inf].

        An optimizer may move a beta that is a parameter below 1. Then this property returns 2 - beta, so that the
        gradient points back towards 1. The parameter itself is not changed.
        """
        return _in_range(self.raw_beta)

    @beta.setter
    def beta(self, beta: Beta) -> None:
        store_beta(self, beta)


# What a loss around others has only in those: set on itself, it would be kept and change nothing.
OF_LOSSES_INSIDE = frozenset(("beta", "dim", "ignore_index", "label_smoothing", "reduction", "weight"))


class Criterion(nn.Module, ABC):
    """The base class of all losses of this package: it declares `link`, `parts`, `both_probs` and `set_reduction`."""

    inside: frozenset[str] = frozenset()  # the arguments that only losses inside have

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; raise if it is an argument of the inner losses, not of this loss itself."""
        if name in self.inside:
            raise AttributeError(expected(name, f"set on the losses inside {type(self).__name__}", value))
        nn.Module.__setattr__(self, name, value)

    @property
    @abstractmethod
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities."""

    def parts(self) -> tuple[nn.Module, ...]:
        """Return the inner losses, of a wrapper or a sum, that contribute to the value of this loss."""
        return ()

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return two kinds of probabilities of logits: h for predictions, p for calibrated confidence.

        The two are equal for a loss without beta.
        """
        probs = self.link(logits)
        return probs, probs

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction to "none", "mean" or "sum"."""
        self.reduction = reduction

    def softmax_terms(self) -> SoftmaxTerms | None:
        """Return the `SoftmaxTerms` of a loss that needs only the label's softmax probability of a row; else None."""
        return None


class Loss(_WeightedLoss, Criterion):
    """The base class of losses with the arguments of `nn.CrossEntropyLoss`.

    It does not derive from `nn.CrossEntropyLoss`: skorch and other libraries apply softmax to the logits of every
    instance of that class.
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
        check_class_weight(weight)
        super().__init__(weight, size_average, reduce, reduction)
        check_cross_entropy(self.reduction, ignore_index, label_smoothing)
        if dim is not None:
            check_dim(dim)
        self.ignore_index = python_number(ignore_index)
        self.label_smoothing = python_number(label_smoothing)
        self.dim = python_number(dim)

    @property
    def _options(self) -> tuple[Tensor | None, int, str, float]:
        """The arguments of cross-entropy but `dim`, in the order of loss functions."""
        return self.weight, self.ignore_index, self.reduction, self.label_smoothing

    def hyperparameters(self) -> dict[str, Any]:
        """Return the arguments that this loss has and cross-entropy does not have, by name."""
        return {}

    def extra_repr(self) -> str:
        """Return, for `repr`, the hyperparameters and every other argument that differs from its default."""
        defaults = {"ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0, "dim": None}
        changed = [f"{name}={getattr(self, name)!r}" for name in defaults if getattr(self, name) != defaults[name]]
        return ", ".join([*(f"{name}={show(value)}" for name, value in self.hyperparameters().items()), *changed])


class RobustLoss(Loss, WithBeta):
    """The base class of losses with the arguments of cross-entropy and the hyperparameter beta."""

    def __init__(self, *shared: Any, beta: Beta, **named: Any) -> None:
        super().__init__(*shared, **named)
        store_beta(self, beta)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameter beta, by its name."""
        return {"beta": self.beta}


def python_number(value: Any) -> Any:
    """Convert a NumPy number to a Python number, which `torch.compile` needs; return anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def store_beta(module: WithBeta, beta: Beta) -> None:
    """Store beta in the module: a number or a parameter as an attribute, another tensor as a buffer."""
    number = check_beta(_in_range(beta))
    if hasattr(module, "raw_beta"):
        del module.raw_beta
    if isinstance(beta, Tensor) and not isinstance(beta, nn.Parameter):
        module.register_buffer("raw_beta", beta)
    else:
        module.raw_beta = beta if isinstance(beta, Tensor) else number


def _in_range(beta: Beta) -> Beta:
    """Return 2 - beta if beta is a parameter below 1, otherwise beta unchanged."""
    return torch.where(beta >= 1, beta, 2 - beta) if isinstance(beta, nn.Parameter) else beta


def show(beta: Any) -> str:
    """Return beta for a module's `repr`: a number, or the shape if its values are several or on the device `meta`."""
    if isinstance(beta, Tensor) and (beta.ndim or beta.is_meta):
        return f"tensor{tuple(beta.shape)}"
    number = beta.item() if isinstance(beta, Tensor) else beta
    return f"{math.inf if number > sys.float_info.max else float(number):g}"  # an integer may be larger than any float
