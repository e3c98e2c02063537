"""Compute losses that need no kernel from scores of classes, with the reductions and weights of cross-entropy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mgce.kernels.options import LossOptions
from mgce.losses.arguments import HALF_TYPES, check_arguments, result_dtype, with_class_dim
from mgce.losses.wanted import Wanted
from mgce.numerics import exponential


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
