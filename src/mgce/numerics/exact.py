r"""Solve for t, the normalizer phi plus the largest logit, exactly by sorting, for beta = 1 and beta = 2.

These solutions check the iterative solvers in `root` independently.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
