"""Compute exp(x) - 1 accurately near x = 0, also in code compiled by `torch.compile`."""

from __future__ import annotations

import torch
from torch import Tensor


def expm1(exponent: Tensor) -> Tensor:
    """Return exp(x) - 1 with a relative error of a few machine epsilons.

    `torch.compile` turns `torch.expm1` into `exp(x) - 1` in vector code for CPUs, at least up to version 2.13
    (pytorch#189803). That loses every digit at x = 1e-8 in float32. So in compiled graphs `2 sinh(x/2) exp(x/2)` is
    computed instead, whose factors are accurate.
    """
    if not torch.compiler.is_compiling():
        return torch.expm1(exponent)
    near = exponent.abs() < 1  # beyond it nothing cancels, and a product of 0 and infinity would be NaN
    half = torch.where(near, exponent, 0) / 2
    return torch.where(near, 2 * torch.sinh(half) * torch.exp(half), torch.exp(exponent) - 1)
