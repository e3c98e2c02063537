"""The MGCE loss by plain tensor operations: what every kernel must equal, on any device and under every transform."""

from __future__ import annotations

from torch import Tensor

from mgce.kernels.options import LossOptions
from mgce.losses.arguments import class_dim
from mgce.losses.nll import nll
from mgce.numerics.implicit import solve
from mgce.numerics.root import Beta


def composite_mgce_loss(
    input: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions, beta: Beta
) -> Tensor:
    """Compute `nll_loss(f + phi(f))` for logits (C), (N, C) or (N, C, d1, ..., dK)."""
    dim = class_dim(input)
    x, t, _ = solve(input, beta, dim)
    return nll((x + t.unsqueeze(-1)).movedim(-1, dim), target, weight, options)
