r"""Compute the root t of the normalizer's equation, with derivatives from the equation instead of the iterations."""

from __future__ import annotations

import torch
from torch import Tensor

from mgce._messages import expected
from mgce._validation import broadcast_beta
from mgce.numerics import root
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
        beta = broadcast_beta(beta, x.shape[:-1]).to(x.dtype)
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
    t times the slope of the sum. For beta = 1 this slope is up to k, the number of classes. The surplus is subtracted
    in proportion to w = dh/dt. Dividing by the sum instead would change classes whose h is right.
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
        return beta_one(x)
    if not isinstance(beta, Tensor) and beta == 2:
        t = beta_two(x)
        excess, slope = root.norm_excess(x, t, beta)
        return t - excess / slope  # the digits that its square root may lose
    raise ValueError(expected("beta", "1 or 2 for method 'exact'", beta))


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


def beta_one(x: Tensor) -> Tensor:
    r"""Solve `sum_y (x_y + t + 1)_+ = 1` for t, the threshold of the projection onto the simplex.

    Sort x in descending order. In the solution x + t + 1 is positive for its first r entries, with r the largest number
    for which `1 + r x_(r) > x_(1) + ... + x_(r)`; x_(r) is the r-th entry. Then `t = (1 - sum of the first r) / r - 1`.
    Shapes: x (..., k) for k classes, t (...).
    """
    ordered = _descending(x)
    size = _sizes(ordered)
    total = ordered.cumsum(-1)
    inside = (1 + size * ordered > total) & (ordered > -torch.inf)
    return _last(inside, (1 - total) / size) - 1


def beta_two(x: Tensor) -> Tensor:
    r"""Solve `sum_y ((x_y + t)/2 + 1)_+^2 = 1` for t, by the quadratic equations of the r largest entries.

    Sort u = x/2 in descending order. Let `M_r` be the mean of its first r entries, `Q_r` the sum of their squared
    deviations from `M_r`, and `s_r = -M_r + sqrt((1 - Q_r)/r)`. Take the largest r with `Q_r <= 1` and
    `u_(r) + s_r > 0`. Then `t = 2 (s_r - 1)`. If Q_r is near 1, the square root may lose half of the digits. Shapes: x
    (..., k), t (...).
    """
    ordered = _descending(x) / 2
    size = _sizes(ordered)
    mean = ordered.cumsum(-1) / size
    spread = (ordered**2).cumsum(-1) - size * mean**2
    s = torch.sqrt((1 - spread).clamp(min=0) / size) - mean
    inside = (spread <= 1) & (ordered + s > 0)
    return 2 * (_last(inside, s) - 1)


def _descending(x: Tensor) -> Tensor:
    return x.sort(-1, descending=True).values


def _sizes(x: Tensor) -> Tensor:
    return torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)


def _last(inside: Tensor, value: Tensor) -> Tensor:
    support = inside.sum(-1, keepdim=True).clamp(min=1)
    return value.gather(-1, support - 1).squeeze(-1)
