"""How far results are from the truth: the errors of a batch, row by row, in units of eps of the result's dtype.

Near beta = 1 and at the edge of the support p jumps with the last digit of a margin, so that a distance to the true p
would measure the row, not the program. So p may differ from the truth by as much as the last digits of x + t leave
open; what it may not, whatever beta, is be negative, not sum to one, or have a Fenchel-Young gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mgce_lab.soak import truth
from mgce_lab.soak.truth import Array, Truth

# A probability below this may be taken for zero in every dtype: 2^-99 is far below what any sum of classes would show.
TINY = 2.0**-99
# Rows of p that are nearer than this to the truth are not looked at again with moved margins.
NEAR = 4.0
MOST_MOVED = 2.0**60  # eps by which margins are moved to explain p; if that does not, its error is infinite

Errors = dict[str, NDArray[np.float64]]


class Quantity(NamedTuple):
    """What is measured, and the most that it may be."""

    limit: float
    meaning: str
    reason: str


_TWO_SUCH = "Each of the two compared values may be as far off as its own limit."
_SUM = "1/2 for the rounding of each class, and log2(k)/2 <= 9 for the pairwise sum by which all classes are divided."
QUANTITIES = {
    "t": Quantity(8, "the root t = phi + max f, relative to max(1, |t|)", "The documented limit."),
    "loss": Quantity(
        16,
        "the loss, relative to max(1, loss); infinite where the true loss is too large for the dtype",
        "The documented limit: 8 from t, and the rounding of max f - f_y and of the sum.",
    ),
    "h": Quantity(
        16,
        "h, the largest absolute error of a class",
        "|dh| <= w |dt| and w max(1, |t|) <= 1: 8 from t, as much again for the powers, their sum and the quotients.",
    ),
    "p": Quantity(
        16,
        "p: the smallest d for which p of every class is within a relative error d eps of the true p(v), for "
        "v = 1 + (x + t)/beta and x + t moved by at most d eps max(1, |t|, |x|); d is a power of 2, from 4 on",
        "Twice the limit of t: the other half is for x = f - max f, the sum x + t and the powers.",
    ),
    "gradient": Quantity(
        16,
        "for gradient + e_y, the error that is defined for p; at the label with an absolute error d eps",
        "As for p.",
    ),
    "h sum": Quantity(16, "sum of h, minus 1", _SUM),
    "p sum": Quantity(16, "sum of p, minus 1", _SUM),
    "gradient sum": Quantity(16, "sum of the gradient over the classes", _SUM),
    "p gap": Quantity(
        32,
        "the Fenchel-Young gap `-phi - p.f - beta (1 - norm of p of order beta/(beta - 1))`, relative to max(1, |t|); "
        "the gap is zero if and only if p is a subgradient; measured where the error of p is above 4",
        "If p is right for margins moved by df, its gap is at most (p - true p).df <= 2 max |df|.",
    ),
    "gradient gap": Quantity(32, "the gap of gradient + e_y instead of p", "As for p."),
    "negative": Quantity(0, "the most negative h, p or, off the label, gradient", "No probability may be negative."),
    "nan": Quantity(
        0,
        "infinite if a row with NaN, with +inf or with only -inf has a result that is not NaN",
        "No such row may go unnoticed.",
    ),
    "convexity": Quantity(
        32, "by how much the loss at the middle of a segment exceeds the mean of the losses at its ends", _TWO_SUCH
    ),
    "monotone loss": Quantity(
        32, "by how much the loss at one beta exceeds the loss at the next larger beta", _TWO_SUCH
    ),
    "monotone t": Quantity(16, "by how much t at one beta is below t at the next larger beta", _TWO_SUCH),
}


def valid_rows(f: Tensor) -> NDArray[np.bool_]:
    """Tell which rows have a truth: those with a finite largest class. The maximum of a row with NaN is NaN."""
    return np.asarray(f.amax(-1).isfinite().numpy())


def errors(outputs: dict[str, Tensor], true: Truth, valid: NDArray[np.bool_], labels: Tensor) -> Errors:
    """Return the error of each quantity for each row, from the truth of the valid rows."""
    y = labels.numpy()[valid]
    found: Errors = {"nan": np.zeros(len(valid))}
    for name, output in outputs.items():
        unit = torch.finfo(output.dtype).eps
        every = output.double().numpy()
        got = every[valid].astype(np.longdouble)
        for quantity, error in _of_quantity(name, got, true, y, output.dtype).items():
            full = np.zeros(len(valid))
            with np.errstate(over="ignore"):
                full[valid] = np.where(np.isnan(error), np.inf, error) / unit
            found[quantity] = np.maximum(found.get(quantity, 0), full)
        is_nan = np.isnan(every) if every.ndim == 1 else np.isnan(every).all(-1)
        found["nan"] = np.maximum(found["nan"], np.where(valid | is_nan, 0, np.inf))
    return found


def _of_quantity(name: str, got: Array, true: Truth, labels: NDArray[np.int64], dtype: torch.dtype) -> dict[str, Array]:
    with np.errstate(invalid="ignore", over="ignore"):
        if name == "t":
            return {"t": np.abs(got - true.t) / np.maximum(1, -true.t)}
        if name == "loss":
            return {"loss": _loss_error(got, true.loss(labels), dtype)}
        if name == "h":
            below = (-got).max(-1, initial=0)
            return {"h": np.abs(got - true.h).max(-1), "h sum": np.abs(got.sum(-1) - 1), "negative": below}
        total = np.abs(got.sum(-1) - (name == "p"))
        at = np.zeros(got.shape, bool)
        if name == "gradient":
            at[np.arange(len(got)), labels] = True
            got = got + at
        below = np.where(at, 0, -got).max(-1, initial=0)
        distance, gap = probability_error(got, at, true, torch.finfo(dtype))
        return {name: distance, f"{name} sum": total, "negative": below, f"{name} gap": gap}


def _loss_error(got: Array, true: Array, dtype: torch.dtype) -> Array:
    info = torch.finfo(dtype)
    beyond = true >= np.longdouble(info.max) * (1 + np.longdouble(info.eps) / 4)
    error = np.abs(got - true) / np.maximum(1, true)
    return np.where(beyond | np.isinf(true), np.where(got == np.inf, 0, np.inf), error)


def probability_error(got: Array, at_label: NDArray[np.bool_], true: Truth, info: torch.finfo) -> tuple[Array, Array]:
    """Return the error of probabilities and their Fenchel-Young gap, as `QUANTITIES` says."""
    got = np.where(np.isfinite(got), got, np.nan)  # which is within no bounds
    eps, tiny, p = info.eps, max(info.tiny, TINY), true.p
    excess = np.maximum(np.abs(got - p) - tiny, 0)
    scale = np.where(at_label, 1, p)
    relative = np.divide(excess, scale, out=np.where(excess > 0, np.inf, excess), where=scale > 0)
    distance = relative.max(-1)
    gap = np.zeros_like(distance)
    far = np.flatnonzero(~(distance <= NEAR * eps))
    if len(far) == 0:
        return distance, gap
    gap[far] = _fenchel_young_gap(got[far], true, far)
    step = NEAR
    while len(far) > 0 and step < MOST_MOVED:
        low, high = _range(true, far, step * eps)
        low = low * (1 - step * eps) - step * eps * at_label[far] - tiny
        high = high * (1 + step * eps) + step * eps * at_label[far] + tiny
        inside = ((got[far] >= low) & (got[far] <= high)).all(-1)
        distance[far[inside]] = np.minimum(distance[far[inside]], step * eps)
        far = far[~inside]
        step *= 2
    distance[far] = np.inf
    return distance, gap


def _range(true: Truth, rows: NDArray[np.int64], move: float) -> tuple[Array, Array]:
    """Return the least and the largest p of each class if each margin may move; float64 is enough for the ends."""
    x, t, beta = true.x[rows], true.t[rows, None], true.beta
    away = move * np.maximum(np.maximum(1, -t), np.where(true.w[rows] > 0, -x, 0))
    ends = []
    for s in (x + t - away, x + t + away):
        if np.isinf(beta):
            ends.append(np.exp(s.astype(np.float64)))
        else:
            ends.append(truth.powers(s.astype(np.float64), np.zeros(len(s)), beta)[1])
    least, most = ends
    with np.errstate(divide="ignore", invalid="ignore"):
        low = least / most.sum(-1, keepdims=True)
        high = most / least.sum(-1, keepdims=True)
    return low, np.where(np.isnan(high), np.inf, high)


def _fenchel_young_gap(got: Array, true: Truth, rows: NDArray[np.int64]) -> Array:
    """Return how far p.f + beta (1 - ||p||_alpha) is below its maximum -phi, p scaled to sum to one."""
    p = np.maximum(got, 0)
    p = p / p.sum(-1, keepdims=True)
    on, beta = p > 0, np.longdouble(true.beta)
    log_p = np.log(np.where(on, p, 1))
    if true.beta == 1:
        entropy = 1 - p.max(-1)
    elif np.isinf(true.beta):
        entropy = -(p * log_p).sum(-1)
    else:
        # beta (1 - ||p||_alpha) by expm1, from sum p^alpha - 1 with p relative to its largest, alpha = beta/(beta - 1).
        top = log_p.max(-1, where=on, initial=-np.inf)
        rest = (p * np.expm1((log_p - top[:, None]) / (beta - 1))).sum(-1, where=on)
        entropy = -beta * np.expm1((1 - 1 / beta) * np.log1p(rest) + top / beta)
    inner = np.where(on, p * true.x[rows], 0).sum(-1)
    gap: Array = np.abs(-true.t[rows] - inner - entropy)
    return gap / np.maximum(1, -true.t[rows])
