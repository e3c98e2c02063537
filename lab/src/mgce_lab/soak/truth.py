r"""The truth in extended precision: the root t of a row, and what follows from it, with a proof of each root.

It shares nothing with `mgce` but the equation `sum_y (1 + (x_y + t)/beta)_+^beta = 1`, x = f - max f. Newton's method
runs in float64, and on from there in `numpy.longdouble`, within a bracket. How it got there does not matter, since a
result is accepted only by what is known of the excess `N(t) = beta (||v||_beta - 1)`: it is increasing, of slope at
least 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

EPS = np.finfo(np.longdouble).eps
# A root is accepted within this distance, in units of max(1, |t|): a thirtieth of the eps of float64.
TOLERANCE = 64 * EPS
MOST_STEPS = 200  # Newton needs log2(k) + 32 at most; no row that is drawn comes near


@dataclass
class Truth:
    """Rows x = f - max f and the root t = phi + max f of each, with the powers of v = (1 + (x + t)/beta)_+."""

    beta: float
    x: Array  # (n, k), longdouble as all of them
    t: Array  # (n)
    h: Array  # (n, k), v^beta
    w: Array  # (n, k), v^(beta - 1)

    @property
    def p(self) -> Array:
        """Minus the gradient of phi."""
        total: Array = self.w.sum(-1, keepdims=True)
        return self.w / total

    def loss(self, labels: NDArray[np.int64]) -> Array:
        """Return -(f_y + phi) for a label of each row."""
        return -(self.x[np.arange(len(self.x)), labels] + self.t)


def solve(f: Array, beta: float) -> Truth:
    """Return the truth of rows (n, k) that have a finite largest class; -inf is a class that is not there.

    Raises:
        ArithmeticError: if the root of a row could not be proven.
    """
    if EPS > 2e-19:
        raise ArithmeticError("Expected a numpy.longdouble of 80 bits or more, but this machine has none.")
    x = f.astype(np.longdouble)
    x -= x.max(-1, keepdims=True)
    if np.isinf(beta):
        t = -np.log(np.exp(x).sum(-1))
        h = np.exp(x + t[:, None])
        return Truth(beta, x, t, h, h)
    with np.errstate(over="ignore"):
        x64 = x.astype(np.float64)  # what is beyond its range is not there
    t = _descend(x64, _start(x64, beta), beta).astype(np.longdouble)
    count = np.isfinite(x).sum(-1).astype(np.longdouble)
    low = beta * np.expm1(-np.log(count) / np.longdouble(beta))  # the root if all were equal
    high = np.zeros_like(t)
    h, w = np.empty_like(x), np.empty_like(x)
    todo = np.arange(len(x))
    for _ in range(MOST_STEPS):
        h[todo], w[todo] = powers(x[todo], t[todo], beta)
        excess, slope = norm_excess(h[todo], w[todo], beta)
        low[todo] = np.where(excess <= 0, t[todo], low[todo])
        high[todo] = np.where(excess >= 0, t[todo], high[todo])
        # Of slope at least 1, N is no nearer to zero than t to the root; else its sign on both sides tells.
        distance = np.minimum(np.abs(excess), (high - low)[todo])
        wanted = distance > TOLERANCE / 2 * np.maximum(1, -t[todo])
        todo, moved = todo[wanted], (t[todo] - excess / slope)[wanted]
        if len(todo) == 0:
            return Truth(beta, x, t, h, w)
        within = (low[todo] < moved) & (moved < high[todo])
        t[todo] = np.where(within, moved, (low + high)[todo] / 2)
    raise ArithmeticError(f"Expected every root to be found, but {len(todo)} were not at beta = {beta}.")


def powers(x: Array, t: Array, beta: float) -> tuple[Array, Array]:
    """Return h = v^beta and w = v^(beta - 1) at v = 1 + (x + t)/beta, both zero where v is not positive."""
    z = (x + t[:, None]) / x.dtype.type(beta)
    on = z > -1
    z = z[on]
    power = np.exp(x.dtype.type(beta - 1) * np.log1p(z)) if beta > 1 else np.ones_like(z)
    h, w = np.zeros_like(x), np.zeros_like(x)
    w[on] = power
    h[on] = power * (1 + z)
    return h, w


def norm_excess(h: Array, w: Array, beta: float) -> tuple[Array, Array]:
    """Return N = beta (||v||_beta - 1), which is zero at the root, and its slope in t, at least 1."""
    log_sum = np.log(h.sum(-1))
    b = h.dtype.type(beta)
    return b * np.expm1(log_sum / b), w.sum(-1) * np.exp((1 / b - 1) * log_sum)


def _start(x: Array, beta: float) -> Array:
    """Return a point on the right of the root: that of the classes within beta/4 of the largest, if they were equal.

    By Jensen's inequality t <= beta (|C|^(-1/beta) - 1) - mean_C(x) for any set C of classes.
    """
    near = x > -beta / 4
    count = near.sum(-1)
    mean = np.where(near, x, 0).sum(-1) / count
    return np.minimum(beta * np.expm1(-np.log(count) / beta) - mean, 0).astype(np.float64)


def _descend(x: Array, t: Array, beta: float) -> Array:
    """Take Newton steps in float64 until no t falls any more."""
    todo = np.arange(len(x))
    for _ in range(MOST_STEPS):
        excess, slope = norm_excess(*powers(x[todo], t[todo], beta), beta)
        moved = t[todo] - excess / slope
        falls = moved < t[todo]
        todo = todo[falls]
        if len(todo) == 0:
            break
        t[todo] = moved[falls]
    return t
