"""The way of a loss that needs no kernel: it gives a score for a class, the rest is that of cross-entropy."""

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
    """Compute the loss whose `scores(logits, wanted)` are minus the loss of each class that is `Wanted`.

    Half types are computed in float32.
    """
    input, target = with_class_dim(input, target, dim)
    check_arguments(input, target, weight, options)
    rows = input.float() if input.dtype in HALF_TYPES else input
    wanted = Wanted.by(rows, target, options)
    loss = wanted.loss(scores(rows, wanted), target, weight, options)
    return loss.to(result_dtype(input, target, weight))


def expm1(exponent: Tensor) -> Tensor:
    """Return exp - 1 with the digits of both the value and the derivative.

    The derivative of `torch.expm1` is its result plus 1, which cancels where the result is near -1; nothing cancels in
    `exp - 1` there.
    """
    return torch.where(exponent > -1, exponential.expm1(exponent), torch.exp(exponent) - 1)
