r"""Solve sum_y ((x_y + t)/beta + 1)_+^beta = 1 for t = phi + max f, with f the logits and phi the normalizer.

`x = f - c` are the logits minus a constant for each row (`c = max f` for accuracy), with the classes in the last
dimension. `t = phi_beta(x)` is one number for each row. No gradients are computed here: `implicit` differentiates the
root.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mgce._validation import is_concrete


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


Beta = float | Tensor  # a tensor has the shape of t, or broadcasts against it

DEFAULT_BETA = 1.4  # the paper's default
DEFAULT_GCE_BETA = 1 / 0.7  # GCE's default: q = 1 / beta = 0.7, as its authors, Zhang and Sabuncu, publish
# From here on beta counts as infinite: -t exceeds its limit, log sum exp(x), by less than
# sum_y p_y (log p_y)^2 / (2 beta) <= (log k)^2 / (2 beta), which is below half an ulp of 1 for every k < 2^63.
LARGEST_BETA = 2.0**64
# A point counts as one on the left of the root if the step from it rises by more than this many eps of 1 - t. What
# rounding of the sums feigns is below 3 eps in every row that was tried; within it t could rise and fall for ever. And
# t may be off by 8 eps.
CLEAR_RISE = 4
# Sums of shares in [0, 1] are split at this place: multiples of it add up exactly to 4 in float32, and the rest,
# below half of it for each of k classes, is too small for its rounding to count.
SPLIT = 2.0**-22


def newton(x: Tensor, beta: Beta) -> Tensor:
    r"""Find the root t of the normalizer's equation by Newton's method on the beta-norm.

    Newton's method is applied to `N(t) = ||(1 + (x + t)/beta)_+||_beta - 1`, which is convex and increasing, with a
    slope in `[1, k^(1/beta)] / beta`. From any point on the right of the root, t decreases monotonically, except for
    rounding. For plain tensors on the CPU the iteration stops when no t changes any more. Elsewhere tensor values
    cannot be read, and a fixed number of steps is made: see :func:`newton_steps`.

    Args:
        x: logits minus their row maximum, shape (..., k) for k classes, float32 or float64; -inf masks a class.
        beta: a float in [1, inf], or a tensor that broadcasts against shape (...).

    Returns:
        t, shape (...), within a few machine epsilons of the root, relative to max(1, |t|). A row that contains NaN or
        +inf, or only -inf, gives NaN.
    """
    if not isinstance(beta, Tensor):
        return _newton_infinite(x) if beta >= LARGEST_BETA else _newton_finite(x, beta)
    finite, b = _finite(beta)
    return torch.where(finite, _newton_finite(x, b), _newton_infinite(x))


def _newton_infinite(x: Tensor) -> Tensor:
    return -torch.log(_sum_of_shares(torch.exp(x)))


def _newton_finite(x: Tensor, beta: Beta) -> Tensor:
    near = ~(x <= (-beta.unsqueeze(-1) if isinstance(beta, Tensor) else -beta))  # NaN is near, so that it reaches t
    count, total = near.sum(-1).to(x.dtype), torch.where(near, x, 0).sum(-1)
    # Start on the right of the root: by Jensen's inequality the powers of the classes that may be in the support sum to
    # at least what they would if each of these had their mean logit, and of equal logits the root is known.
    t = torch.clamp(_lower_end(count.log(), beta) - total / count, max=0)
    readable = is_concrete(t)
    steps = (proven_steps if readable else newton_steps)(x.shape[-1], beta, x.dtype)
    low = torch.full_like(t, torch.finfo(t.dtype).min)
    for step in range(steps):
        w, h = powers(x, t, beta)
        excess, slope = _norm(w.sum(-1), _sum_of_shares(h), beta)
        moved = torch.clamp(t - excess / slope, max=0)
        # The mean may be rounded to the left of the root, so the first step is free.
        if step > 0:
            moved, low = _guarded(t, moved, low)
        moves = _moves(t, moved, slope)
        if readable and not bool(moves.any()):
            return t
        t = torch.where(moves, moved, t)
    return t


def _guarded(t: Tensor, moved: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next iterate t, which is `moved` unless that could lead to a cycle, and its lower bound `low`.

    t comes from the right and falls to the root. If rounding has moved t to the left of the root, t rises, and the old
    t becomes `low`. From then on t stays above `low`: a step could otherwise be rounded to the left again and again. So
    t ends on the right of the root.
    """
    eps = torch.finfo(t.dtype).eps
    rises = moved - t > CLEAR_RISE * eps * (1 - t)
    fallen = torch.minimum(t, torch.maximum(moved, low + eps / 2 * (1 - low)))
    return torch.where(rises, moved, fallen), torch.where(rises, t, low)


def _moves(t: Tensor, moved: Tensor, slope: Tensor) -> Tensor:
    """Return a mask of the rows whose iterate t still changes by more than rounding error; it is false for NaN.

    After a small step down a later step can still be large, if most classes get probability zero on the way. As the
    slope is never below 1, the distance to the root is at most the step times the slope. So this product has to be
    small too.
    """
    eps = torch.finfo(t.dtype).eps * (1 - moved)
    return ((t - moved).abs() > eps / 4) | ((t - moved) * slope > CLEAR_RISE * eps)


def _sum_of_shares(h: Tensor) -> Tensor:
    """Return the sum of numbers in [0, 1] over the classes, accurate up to rounding if it is near 1.

    A plain sum adds many small numbers to a large one, one after another, and loses a part of each to rounding.
    """
    place = 1.5 * SPLIT / torch.finfo(h.dtype).eps  # a number whose last digit is worth SPLIT: to add it rounds to that
    coarse = (h + place) - place
    return coarse.sum(-1) + (h - coarse).sum(-1)


def norm_excess(x: Tensor, t: Tensor, beta: Beta) -> tuple[Tensor, Tensor]:
    r"""Return `N = beta (||v||_beta - 1)`, zero at the root t of the normalizer's equation, and its slope in t (>= 1).

    v is `(1 + (x + t)/beta)_+`. At beta = inf, `N = log sum exp(x + t)` and the slope is 1. Shapes: x (..., k) for k
    classes, t (...).
    """
    w, h = powers(x, t, beta)
    return _norm(w.sum(-1), h.sum(-1), beta)


def _norm(support: Tensor, mass: Tensor, beta: Beta) -> tuple[Tensor, Tensor]:
    log_mass = torch.log(mass)
    if not isinstance(beta, Tensor):
        if beta >= LARGEST_BETA:
            return log_mass, torch.ones_like(log_mass)
        # expm1 keeps its digits where the norm is near 1.
        return beta * expm1(log_mass / beta), support * torch.exp((1 / beta - 1) * log_mass)
    finite, b = _finite(beta)
    excess = torch.where(finite, b * expm1(log_mass / b), log_mass)
    return excess, torch.where(finite, support * torch.exp((1 / b - 1) * log_mass), 1)


def bisection(x: Tensor, beta: Beta, tol: float = 1e-4) -> Tensor:
    r"""Find the root t of the normalizer's equation by bisection, the paper's Algorithm 1.

    An interval around the root is halved until it is narrower than `tol`.

    The interval is `[C - max x, min(C - min x, -max x)]` with `C = beta (k^(-1/beta) - 1)`. This is the interval of
    equation (20) of the paper, except that the upper end is `-max x` if that is smaller. Its width is at most
    `-C <= log k`. So the number of halvings is known beforehand, and no tensor value is read.

    Args:
        x: logits, shape (..., k) for k classes; -inf masks a class.
        beta: a float in [1, inf], or a tensor that broadcasts against shape (...).
        tol: width of the last interval, in the units of the logits. Below the spacing of floats around the root,
            further halvings change nothing.

    Returns:
        t, shape (...), the midpoint of the last interval: within `tol / 2` of the root.
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
    r"""Return `w = v^(beta - 1)` and `h = v^beta` with `v = (1 + (x + t)/beta)_+`; both are zero where v = 0.

    At the root t of the normalizer's equation, h are the minimax probabilities and `w / sum w` the worst-case
    probabilities. The computation by log1p has a small relative error for every beta up to infinity, where
    `w = h = exp(x + t)`. At beta = 1, w is 1 where v > 0 and 0 elsewhere. Shapes, for k classes: x (..., k), t (...),
    both results (..., k).
    """
    t = t.unsqueeze(-1)
    if not isinstance(beta, Tensor):
        if beta >= LARGEST_BETA:
            e = torch.exp(x + t)
            return e, e
        return _powers_finite(x, t, beta)
    finite, b = _finite(beta.unsqueeze(-1))
    w, h = _powers_finite(torch.where(finite, x, 0), torch.where(finite, t, 0), b)
    e = torch.exp(torch.where(finite, 0, x + t))
    return torch.where(finite, w, e), torch.where(finite, h, e)


def _powers_finite(x: Tensor, t: Tensor, beta: Beta) -> tuple[Tensor, Tensor]:
    # Near the largest logit v = 1 + z, and near the edge of the support v = (beta + x) + t in units of beta, where the
    # sum in parentheses is exact: formed the other way round, each would lose the digits of the small number.
    edge = x < -beta / 2
    z = (x + t) / beta
    v = torch.where(edge, ((beta + x) + t) / beta, 1 + z)
    on = ~(v <= 0)  # NaN stays on, and so spoils its row and what is derived from it
    v = torch.where(on, v, 1)  # mask before a logarithm, so that no NaN enters a derivative
    log_v = torch.where(edge, torch.log(v), torch.log1p(torch.where(on & ~edge, z, 0)))
    w = torch.where(on, torch.exp((beta - 1) * log_v), 0)
    return w, w * v


def _lower_end(log_count: Tensor, beta: Beta) -> Tensor:
    """Return `C = beta (count^(-1/beta) - 1)`, the root of the normalizer's equation for `count` logits of zero."""
    if not isinstance(beta, Tensor):
        return -log_count if beta >= LARGEST_BETA else beta * expm1(-log_count / beta)
    finite, b = _finite(beta)
    return torch.where(finite, b * expm1(-log_count / b), -log_count)


def _finite(beta: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mask of the finite entries of beta, and beta with every other entry replaced by 1.

    Entries from `LARGEST_BETA` on are infinite up to rounding. NaN is treated as finite.
    """
    finite = ~(beta >= LARGEST_BETA)
    return finite, torch.where(finite, beta, 1)


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

    The number includes a step for a start that was rounded to the left of the root, and a step to detect convergence.
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
