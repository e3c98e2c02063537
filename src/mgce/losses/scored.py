"""The way of a loss that needs no kernel: it gives a score for a class, the rest is that of cross-entropy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce.kernels.options import LossOptions
from mgce.losses.arguments import HALF_TYPES, check_arguments, result_dtype
from mgce.losses.wanted import Wanted
from mgce.numerics import exponential

ARGUMENTS = """    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: an index target that adds nothing.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
"""
RESULTS = """    Returns:
        A scalar, or the shape of index targets for `reduction="none"`.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`, hyperparameters as beta.

"""


class LossFunction(Protocol):
    """A function with the arguments of `cross_entropy`, and hyperparameters by keyword."""

    def __call__(
        self,
        input: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        **hyperparameters: float,
    ) -> Tensor:
        """Compute the loss of logits against class indices or class probabilities."""


def loss_of_logits(scores: Callable[..., Tensor]) -> LossFunction:
    """Make a loss of `scores(logits, wanted, **hyperparameters)`, minus the loss of each class that is `Wanted`.

    The loss has the arguments of `cross_entropy`, in its signature and its docstring too. Half types are computed in
    float32. The docstring of scores becomes that of the loss, its `Hyperparameters` arguments among the others.
    """

    @functools.wraps(scores)
    def loss(
        input: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        **hyperparameters: float,
    ) -> Tensor:
        options = LossOptions(ignore_index, reduction, label_smoothing)
        check_arguments(input, target, weight, options)
        rows = input.float() if input.dtype in HALF_TYPES else input
        wanted = Wanted.by(rows, target, options)
        loss = wanted.loss(scores(rows, wanted, **hyperparameters), target, weight, options)
        return loss.to(result_dtype(input, target, weight))

    own = hyperparameters_of(scores)
    shared = [
        p for p in inspect.signature(loss, follow_wrapped=False).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    made: Any = loss
    made.__signature__ = inspect.Signature([*shared, *own.values()], return_annotation="Tensor")
    summary, _, example = (scores.__doc__ or "").partition("    Example:\n")
    summary, _, described = summary.partition("    Hyperparameters:\n")
    made.__doc__ = f"{summary}{ARGUMENTS}{described or chr(10)}{RESULTS}    Example:\n{example}"
    return loss


def loss_of_log_probs(scores: Callable[..., Tensor]) -> LossFunction:
    """Make a loss of `scores(log_p, wanted, **hyperparameters)`, with log_p the log-softmax of the logits."""

    @functools.wraps(scores)
    def of_logits(logits: Tensor, wanted: Wanted, **hyperparameters: float) -> Tensor:
        return scores(F.log_softmax(logits, wanted.dim), wanted, **hyperparameters)

    return loss_of_logits(of_logits)


def loss_of_log_prob(score: Callable[..., Tensor]) -> LossFunction:
    """Make a loss of `score(log_p, **hyperparameters)`, where the score of a class depends on its own log_p alone."""

    @functools.wraps(score)
    def of_logits(logits: Tensor, wanted: Wanted, **hyperparameters: float) -> Tensor:
        return score(wanted.of(F.log_softmax(logits, wanted.dim)), **hyperparameters)

    return loss_of_logits(of_logits)


def hyperparameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Give the keyword-only parameters of a function by name."""
    return {n: p for n, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}


def expm1(exponent: Tensor) -> Tensor:
    """Give exp - 1 with the digits of both the value and the derivative.

    The derivative of `torch.expm1` is its result plus 1, which cancels where the result is near -1; nothing cancels in
    `exp - 1` there.
    """
    return torch.where(exponent > -1, exponential.expm1(exponent), torch.exp(exponent) - 1)
