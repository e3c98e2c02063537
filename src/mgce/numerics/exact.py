r"""Exact solutions by sorting: t = phi + max f for beta = 1 and beta = 2.

An independent check of the iterations in `root`, and the derivation of what they converge to.
"""

from __future__ import annotations

import torch
from torch import Tensor


def beta_one(x: Tensor) -> Tensor:
    r"""Solve `sum_y (x_y + t + 1)_+ = 1`: the threshold of the projection onto the simplex.

    With x sorted downwards the support is the largest r for which `1 + r x_(r) > x_(1) + ... + x_(r)`,
    and `t = (1 - sum of the support) / r - 1`. Shapes: x (..., k), t (...).
    """
    ordered = _descending(x)
    size = _sizes(ordered)
    total = ordered.cumsum(-1)
    inside = (1 + size * ordered > total) & (ordered > -torch.inf)
    return _last(inside, (1 - total) / size) - 1


def beta_two(x: Tensor) -> Tensor:
    r"""Solve `sum_y ((x_y + t)/2 + 1)_+^2 = 1`, a quadratic on each candidate support.

    With u = x/2 sorted downwards, `M_r` the mean of the first r and `Q_r` their sum of squares about it,
    `s_r = -M_r + sqrt((1 - Q_r)/r)`. The support is the largest r with `Q_r <= 1` and `u_(r) + s_r > 0`,
    and `t = 2 (s_r - 1)`. Where Q_r is near 1 the square root may lose half of the digits. Shapes:
    x (..., k), t (...).
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
