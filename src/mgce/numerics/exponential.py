"""exp(x) - 1, with its digits near zero under a compiler too."""

from __future__ import annotations

import torch
from torch import Tensor


def expm1(exponent: Tensor) -> Tensor:
    """Return exp(x) - 1 to a few eps of its size.

    For `torch.expm1` PyTorch's compiler writes `exp(x) - 1` where it writes vector code for a CPU, up to version 2.13
    at least (pytorch#189803): every digit is lost at x = 1e-8 in float32. In graphs it is `2 sinh(x/2) exp(x/2)`, whose
    factors the compiler takes from a library.
    """
    if not torch.compiler.is_compiling():
        return torch.expm1(exponent)
    near = exponent.abs() < 1  # beyond it nothing cancels, and a product of 0 and infinity would be NaN
    half = torch.where(near, exponent, 0) / 2
    return torch.where(near, 2 * torch.sinh(half) * torch.exp(half), torch.exp(exponent) - 1)
