r"""Solvers for the root t = phi + max f of sum_y ((x_y + t)/beta + 1)_+^beta = 1.

`x = f - c` are logits shifted by any constant of their row (`c = max f` for accuracy), classes in
the last dimension, and `t = phi_beta(x)` is one number for each row. Nothing here knows about
gradients: `normalizer` differentiates the root from its equation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Beta = float | Tensor  # a tensor has the shape of t, or broadcasts against it


def newton(x: Tensor, beta: Beta) -> Tensor:
    r"""Solve by Newton's method on the beta-norm, with a fixed number of steps.

    With `N(t) = ||(1 + (x + t)/beta)_+||_beta - 1`, which is convex and increasing with slope in
    `[1, k^(1/beta)] / beta`, the iteration decreases monotonically from any point on the right of
    the root and needs at most `log2(k)/beta + log2(1/eps)/2` steps, whatever the margins.

    Args:
        x: logits less their row maximum, shape (..., k), float32 or float64; -inf masks a class.
        beta: a float in [1, inf], or a tensor that broadcasts against shape (...).

    Returns:
        t, shape (...). A row that holds NaN or +inf, or only -inf, gives NaN.
    """
    if not isinstance(beta, Tensor):
        return -torch.logsumexp(x, -1) if math.isinf(beta) else _newton_finite(x, beta)
    finite = torch.isfinite(beta)
    t = _newton_finite(x, torch.where(finite, beta, 1))
    return torch.where(finite, t, -torch.logsumexp(x, -1))


def _newton_finite(x: Tensor, beta: Beta) -> Tensor:
    kept = x != -torch.inf  # NaN is kept, so that it reaches t
    count = kept.sum(-1)
    lowest = _lower_end(count.to(x.dtype).log(), beta)
    mean = torch.where(kept, x, 0).sum(-1) / count
    t = torch.clamp(lowest - mean, max=0)  # Jensen: on the right of the root
    for step in range(newton_steps(x.shape[-1], beta, x.dtype)):
        excess, slope = norm_excess(x, t, beta)
        moved = torch.clamp(t - excess / slope, max=0)
        # The mean may be rounded to the left of the root, so the first step is free; after it,
        # only the guard keeps float32 from cycling where the support collapses.
        t = moved if step == 0 else torch.minimum(t, moved)
    return t


def norm_excess(x: Tensor, t: Tensor, beta: Beta) -> tuple[Tensor, Tensor]:
    r"""Give `N = beta (||v||_beta - 1)`, zero at the root, and its slope in t, at least 1.

    At infinity `N = log S` and the slope is 1, with `S = sum v^beta`. Shapes: x (..., k), t (...).
    """
    w, h = powers(x, t, beta)
    log_total = torch.log(h.sum(-1))
    support = w.sum(-1)
    if not isinstance(beta, Tensor):
        if math.isinf(beta):
            return log_total, torch.ones_like(log_total)
        # expm1 keeps its digits where the norm is near 1.
        return beta * torch.expm1(log_total / beta), support * torch.exp((1 / beta - 1) * log_total)
    finite = torch.isfinite(beta)
    b = torch.where(finite, beta, 1)
    excess = torch.where(finite, b * torch.expm1(log_total / b), log_total)
    return excess, torch.where(finite, support * torch.exp((1 / b - 1) * log_total), 1)


def newton_steps(k: int, beta: Beta, dtype: torch.dtype) -> int:
    """Give the step budget that reaches the rounding floor in every case known, built ones included."""
    smallest = 1.0 if isinstance(beta, Tensor) else beta
    if smallest < 1.5:
        steps = 8
    elif smallest < 4:
        steps = 6
    elif smallest < 50:
        steps = 4
    else:
        steps = 2
    if k > 1024 and smallest < 4:
        steps += 4
    return steps + 2 if dtype == torch.float64 else steps


def bisection(x: Tensor, beta: Beta, tol: float = 1e-4) -> Tensor:
    r"""Solve by the paper's Algorithm 1: halve a bracket of the root until it is narrower than `tol`.

    The bracket is `[C - max x, min(C - min x, -max x)]` with `C = beta (k^(-1/beta) - 1)`: the
    paper's (eq. 20), with `-max x` for its upper end where that is tighter. Its width is at most
    `-C <= log k`, so the number of halvings is known beforehand and no value is read back.

    Args:
        x: logits, shape (..., k); -inf masks a class.
        beta: a float in [1, inf], or a tensor that broadcasts against shape (...).
        tol: width of the last bracket, in the units of the logits. Below the spacing of floats
            around the root a further halving changes nothing.

    Returns:
        t, shape (...), the midpoint of the last bracket: within `tol / 2` of the root.
    """
    kept = x != -torch.inf
    lowest = _lower_end(kept.sum(-1).to(x.dtype).log(), beta)
    top = x.amax(-1)
    low = lowest - top
    high = torch.minimum(lowest - torch.where(kept, x, torch.inf).amin(-1), -top)
    halvings = math.ceil(math.log2(max(1.0, math.log(x.shape[-1]) / tol)))
    for _ in range(halvings):
        middle = low + (high - low) / 2
        above = powers(x, middle, beta)[1].sum(-1) > 1
        high = torch.where(above, middle, high)
        low = torch.where(above, low, middle)
    return low + (high - low) / 2


def powers(x: Tensor, t: Tensor, beta: Beta) -> tuple[Tensor, Tensor]:
    r"""Give `w = v^(beta - 1)` and `h = v^beta` at `v = (1 + (x + t)/beta)_+`, zero off the support.

    At the root the sums are `A = sum w` and 1: `p = w / A`, `h = h`. The log1p form holds its
    relative accuracy for every beta up to infinity, where `w = h = exp(x + t)`; `w` at beta = 1 is
    the indicator of the support. Shapes: x (..., k), t (...), both results (..., k).
    """
    s = x + t.unsqueeze(-1)
    if not isinstance(beta, Tensor):
        if math.isinf(beta):
            e = torch.exp(s)
            return e, e
        return _powers_finite(s, beta)
    b = beta.unsqueeze(-1) if beta.ndim else beta
    finite = torch.isfinite(b)
    w, h = _powers_finite(torch.where(finite, s, 0), torch.where(finite, b, 1))
    e = torch.exp(torch.where(finite, 0, s))
    return torch.where(finite, w, e), torch.where(finite, h, e)


def _powers_finite(s: Tensor, beta: Beta) -> tuple[Tensor, Tensor]:
    z = s / beta
    on = z > -1
    z = torch.where(on, z, 0)  # mask before log1p, so that no NaN enters a derivative
    if not isinstance(beta, Tensor) and beta == 1:
        w = on.to(s.dtype)
    else:
        w = torch.where(on, torch.exp((beta - 1) * torch.log1p(z)), 0)
    return w, w * (1 + z)


def _lower_end(log_count: Tensor, beta: Beta) -> Tensor:
    """Give `C = beta (count^(-1/beta) - 1)`, the root of a row whose logits are all zero."""
    if not isinstance(beta, Tensor):
        return -log_count if math.isinf(beta) else beta * torch.expm1(-log_count / beta)
    finite = torch.isfinite(beta)
    b = torch.where(finite, beta, 1)
    return torch.where(finite, b * torch.expm1(-log_count / b), -log_count)
