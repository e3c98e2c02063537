r"""The root with its derivatives, which come from its equation and not from the iterations that found it."""

from __future__ import annotations

import torch
from torch import Tensor

from mgce import _validation
from mgce.numerics import exact, root
from mgce.numerics.root import Beta


def solve(
    logits: Tensor, beta: Beta, dim: int, method: str = "newton", tol: float = 1e-4
) -> tuple[Tensor, Tensor, Beta]:
    """Return x = f - max f (classes last), the root t = phi + max f, and beta in x's dtype.

    x, t and beta are differentiable. The maximum is a constant to autograd: t is equivariant, so
    that every derivative is the same for any constant of the row that is subtracted.
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
    """Return p = w / sum w at the root, classes last."""
    w, _ = root.powers(x, t, beta)
    return w / w.sum(-1, keepdim=True)


def minimax(x: Tensor, t: Tensor, beta: Beta) -> Tensor:
    """Return h at the root, classes last, with a sum of one.

    t is rounded, so that the sum is off one by up to its slope times that: up to k for beta = 1. As dh/dt = w, that
    much is taken back in the direction of w; to divide by the sum would spread it over classes that are right.
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
    r"""Attach to the numbers t the derivatives of the root of N(x, t) = 0, from the equation alone.

    One Newton step from a constant t has the root's first derivative; a second step from the first
    has the first three. Subtracting the value of N, which is rounding error, leaves t as it was
    solved and keeps that error from meeting the derivatives of the slope, which are unbounded at
    the edge of the support. All of it is plain arithmetic, so that every transform can trace it.
    """
    for _ in range(2):
        excess, slope = root.norm_excess(x, t, beta)
        t = t - (excess - excess.detach()) / slope
    return t
