r"""How far results are from the truth: the errors of a batch, row by row, in units of eps of the result's dtype.

========== ====================================================================================================
t          `|t - true| / max(1, |true|)`
loss       `|l - true| / max(1, |true|)`; where the truth is beyond the dtype's range, the loss has to be infinite
h          `max_y |h_y - true|`
p          the least d that allows every `p_y`: the truth with relative error d eps, of margins each moved by at most
           d eps max(1, |t|, |x_y|) (x = f - max f). To powers of 2 where the second part is needed
gradient   the same of gradient + e_y, with an absolute error of d eps at the label
sums       `|sum h - 1|`, `|sum p - 1|`, `|sum of the gradient|`
gap        `(-phi - p.f - beta (1 - ||p||_alpha)) / max(1, |t|)`, the Fenchel-Young gap of p or the gradient + e_y,
           which is zero if and only if that is a (sub)gradient; where p needs its margins moved by 4 eps or more
negative   the most negative `p_y` or `h_y`
nan        0 if a row that holds NaN or +inf, or only -inf, is NaN in all that comes back for it; else infinite
========== ====================================================================================================

Near beta = 1 and at the edge of the support p jumps with the last digit of a margin, so that a distance to the true p
would measure the row, not the program; the second part of `p` is what the digits of the margins leave open.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soak import truth
from soak.truth import Array, Truth

# A probability below the smallest normal number of float32, whatever the dtype, may be taken for zero.
TINY = torch.finfo(torch.float32).tiny
# Rows of p that are nearer than this to the truth are not looked at again with moved margins.
NEAR = 4.0
LARGEST = 2.0**60  # beyond which an error of p is not measured but infinite

Errors = dict[str, NDArray[np.float64]]

LIMITS = {
    # What is promised of the root; the loss adds the rounding of max f - f_y and of the sum.
    "t": 8.0,
    "loss": 16.0,
    # |dh_y| <= w_y |dt| and w_y max(1, |t|) <= 1: 8 from t, and as much again for the powers, their sum and quotient.
    "h": 16.0,
    # Margins moved by twice what t may be off: the other half is for x = f - max f, x + t and the powers.
    "p": 16.0,
    "gradient": 16.0,
    # A rounded quotient for each class gives 1/2, the sum that they are divided by log2(k)/2 <= 9 if it is pairwise.
    "h sum": 16.0,
    "p sum": 16.0,
    "gradient sum": 16.0,
    # If p is exact for margins moved by df, its gap is at most (p - true p).df <= 2 max |df|.
    "p gap": 32.0,
    "gradient gap": 32.0,
    "negative": 0.0,
    "nan": 0.0,
    # The losses may be 16 off each, so that the middle may seem to be 32 above the ends; so for two betas, and for t.
    "convexity": 32.0,
    "monotone loss": 32.0,
    "monotone t": 16.0,
}


def valid_rows(f: Tensor) -> NDArray[np.bool_]:
    """Tell which rows have a truth: those with a finite largest class. The maximum of a row with NaN is NaN."""
    return np.asarray(f.amax(-1).isfinite().numpy())


def errors(outputs: dict[str, Tensor], true: Truth, valid: NDArray[np.bool_], labels: Tensor) -> Errors:
    """Give the error of each quantity for each row, from the truth of the valid rows."""
    y = labels.numpy()[valid]
    found: Errors = {"nan": np.zeros(len(valid))}
    for name, output in outputs.items():
        every = output.double().numpy()
        got = every[valid].astype(np.longdouble)
        for quantity, error in _of_quantity(name, got, true, y, output.dtype).items():
            full = np.zeros(len(valid))
            full[valid] = np.where(np.isnan(error), np.inf, error) / torch.finfo(output.dtype).eps
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
    """Give the error of probabilities and their Fenchel-Young gap, as the top of this module says."""
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
    while len(far) > 0 and step < LARGEST:
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
    """Give the least and the largest p of each class if each margin may move; float64 is enough for the ends."""
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
    """Give how far p.f + beta (1 - ||p||_alpha) is below its maximum -phi, p scaled to sum to one."""
    p = np.maximum(got, 0)
    p = p / p.sum(-1, keepdims=True)
    on, beta = p > 0, np.longdouble(true.beta)
    log_p = np.log(np.where(on, p, 1))
    if true.beta == 1:
        entropy = 1 - p.max(-1)
    elif np.isinf(true.beta):
        entropy = -(p * log_p).sum(-1)
    else:
        # -beta expm1(log ||p||_alpha), alpha = beta/(beta - 1), from sum p p^(1/(beta - 1)) - 1 relative to the largest.
        top = log_p.max(-1, where=on, initial=-np.inf)
        rest = (p * np.expm1((log_p - top[:, None]) / (beta - 1))).sum(-1, where=on)
        entropy = -beta * np.expm1((1 - 1 / beta) * np.log1p(rest) + top / beta)
    inner = np.where(on, p * true.x[rows], 0).sum(-1)
    return np.abs(-true.t[rows] - inner - entropy) / np.maximum(1, -true.t[rows])
