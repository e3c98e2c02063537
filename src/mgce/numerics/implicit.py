r"""Compute the root t of the normalizer's equation, with derivatives from the equation instead of the iterations."""

from __future__ import annotations

import torch
from torch import Tensor

from mgce import _validation
from mgce.numerics import exact, root
from mgce.numerics.root import Beta


def solve(
    logits: Tensor, beta: Beta, dim: int, method: str = "newton", tol: float = 1e-4
) -> tuple[Tensor, Tensor, Beta]:
    """Return x = f - max f (classes last), t = phi + max f, and beta in x's dtype, for logits f with normalizer phi.

    x, t and beta are differentiable. The maximum is a constant to autograd: the derivatives do not depend on which
    constant is subtracted from a row.
    """
    x = logits.movedim(dim, -1)
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    x = x - x.detach().amax(-1, keepdim=True)
    if isinstance(beta, Tensor):
        beta = _validation.broadcast_beta(beta, x.shape[:-1]).to(x.dtype)
        beta = torch.where(beta >= 1, beta, torch.nan)
    t = _root(x.detach(), beta.detach() if isinstance(beta, Tensor) else beta, method, tol)
    return x, _differentiable(x, t, beta), beta


def worst_case(x: Tensor, t: Tensor, beta: Beta) -> Tensor:
    """Return the worst-case probabilities p = w / sum w, with w = (1 + (x + t)/beta)_+^(beta - 1), classes last."""
    w, _ = root.powers(x, t, beta)
    return w / w.sum(-1, keepdim=True)


def minimax(x: Tensor, t: Tensor, beta: Beta) -> Tensor:
    """Return the minimax probabilities h for the root t of the normalizer's equation, corrected to sum to one.

    The classes are in the last dimension. Since t is rounded, the sum of h can differ from one by the rounding error of
    t times the slope of the sum, which is up to k, the number of classes, for beta = 1. The surplus is subtracted in
    proportion to w = dh/dt. Dividing by the sum instead would change classes whose h is right.
    """
    w, h = root.powers(x, t, beta)
    surplus = (h.sum(-1, keepdim=True) - 1) / w.sum(-1, keepdim=True)
    return (h - w * surplus).clamp(min=0)


def _root(x: Tensor, beta: Beta, method: str, tol: float) -> Tensor:
    if method == "bisection":
        return root.bisection(x, beta, tol)
    if method == "exact":
        return _exact(x, beta)
    return root.newton(x, beta)


def _exact(x: Tensor, beta: Beta) -> Tensor:
    if not isinstance(beta, Tensor) and beta == 1:
        return exact.beta_one(x)
    if not isinstance(beta, Tensor) and beta == 2:
        t = exact.beta_two(x)
        excess, slope = root.norm_excess(x, t, beta)
        return t - excess / slope  # the digits that its square root may lose
    raise ValueError(_validation.expected("beta", "1 or 2 for method 'exact'", beta))


def _differentiable(x: Tensor, t: Tensor, beta: Beta) -> Tensor:
    r"""Return the root t of N(x, t) = 0 with unchanged value, such that autograd finds the derivatives of the root.

    N is the beta-norm of `(1 + (x + t)/beta)_+` minus 1.

    One Newton step from a constant t has the first derivative of the root. A second step from there has the first
    three derivatives. The value of N, which is only rounding error, is subtracted. So t keeps its value, and the error
    is not multiplied by derivatives of the slope, which are unbounded where a probability becomes zero. All this is
    plain arithmetic, which every transform of PyTorch can trace.
    """
    for _ in range(2):
        excess, slope = root.norm_excess(x, t, beta)
        t = t - (excess - excess.detach()) / slope
    return t
