r"""Bound the number of Newton steps that the normalizer needs: by a proof, and by a table of the worst rows.

The proof: Newton's method finds the t at which the beta-norm of `v = (1 + (x + t)/beta)_+` is 1, for logits x. Let
`N = ||v||_beta - 1` be the excess of the norm at a point, and g the slope of the norm in `s = 1 + t/beta`. Let N' and
g' be these two numbers after a step. Both are smaller than before. The norm is convex, so `N'/N + g'/g <= 1`, and the
product of these two ratios is at most 1/4. So every step divides `N g` by at least 4. At the start `N g` is below
`(k^(1/beta) - 1) k^(1/beta)` with k classes. As g is at least 1, the error of t is at most `beta N g`. So the number of
steps to any accuracy is bounded, whatever the logits. A search (`tests/worst_rows.py`) found that no row comes near
this bound unless beta is near 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The largest number of classes and the smallest beta of each cell of the table. The cells are few and wide: a step too
# many costs time alone, and only where no value can be read.
CLASSES = (16, 128, 1024, 2**17, 2**31)
BETAS = (1.0, 1.4, 2.0, 5.0)
# Steps of the worst row found, and one more. A line for each of BETAS, a number for each of CLASSES.
STEPS = {
    torch.float32: ((9, 13, 17, 23, 38), (7, 9, 11, 15, 23), (6, 7, 8, 12, 17), (4, 5, 5, 6, 9)),
    torch.float64: ((14, 21, 26, 34, 48), (10, 13, 15, 21, 30), (7, 8, 10, 14, 22), (5, 6, 6, 8, 10)),
}


def proven_steps(k: int, beta: float | Tensor, dtype: torch.dtype) -> int:
    """Return the proven number of Newton steps until the normalizer is within one machine epsilon, for any k logits.

    The number includes one step for a start that was rounded to the left of the root, and one to detect convergence.
    """
    b = 1.0 if isinstance(beta, Tensor) else beta
    start = b * math.expm1(math.log(k) / b) * k ** (1 / b)
    return math.ceil(math.log(max(1.0, start) / torch.finfo(dtype).eps, 4)) + 2


def newton_steps(k: int, beta: float | Tensor, dtype: torch.dtype) -> int:
    """Return a fixed number of Newton steps, for code that cannot read tensor values to detect convergence.

    It is one more than the largest number that any row of the search `tests/worst_rows.py` needed, for k classes.
    """
    # By comparisons, which a compiler can follow where beta is a symbol; a k that is one may stand for any number.
    row = 0 if isinstance(beta, Tensor) else max(i for i, smallest in enumerate(BETAS) if beta >= smallest)
    column = len([most for most in CLASSES[:-1] if k > most]) if isinstance(k, int) else -1
    return STEPS[dtype][row][column]
