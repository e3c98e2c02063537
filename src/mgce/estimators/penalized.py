"""Linear heads with an L2 penalty, by L-BFGS in coordinates that make the problem well scaled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mgce.estimators.directions import SingleArray

# Curvature of softmax losses in a margin: p (1 - p) is .09 for ten even classes and at most .25.
CURVATURE = 0.1
# From a neighbouring penalty, 10 to 20 steps reach the tolerance; on CIFAR-10 features no head needed more than 25.
MAX_STEPS = 60
# A step that lowers the mean loss, of order 1, by less is the last.
TOLERANCE = 1e-5


def fit_head(
    rows: SingleArray,
    spread: SingleArray,
    loss: Callable[[Tensor], Tensor],
    weight: SingleArray,
    l2: float,
    start: SingleArray,
) -> SingleArray:
    r"""Minimise a weighted mean loss of linear logits with an L2 penalty; return W and b, shape (r + 1, k).

    .. math:: \min_{W, b}\ \frac{\sum_i w_i\, \ell_i(W^\top z_i + b)}{\sum_i w_i} + \frac{\lambda}{2} \lVert W \rVert^2

    The variables are W times the root of `CURVATURE * spread + l2`, about the root of the diagonal of the Hessian. The
    Hessian in them is then near the identity, and L-BFGS takes few steps. b, the last row, has no penalty.

    Args:
        rows: z, shape (n, r), in coordinates whose mean squares are `spread`.
        spread: shape (r,).
        loss: from logits (n, k) to losses (n,).
        weight: w, not negative, shape (n,).
        l2: lambda, positive.
        start: where to start, shape (r + 1, k). A loss that is not convex ends in the valley of its start.
    """
    z, share = torch.from_numpy(rows), torch.from_numpy(weight / weight.sum())
    scale = torch.from_numpy(1 / np.sqrt(np.append(CURVATURE * spread + l2, CURVATURE)).astype(np.float32))[:, None]
    variables = (torch.from_numpy(start) / scale).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [variables], max_iter=MAX_STEPS, history_size=10, tolerance_change=TOLERANCE, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        head = scale * variables
        value: Tensor = share @ loss(z @ head[:-1] + head[-1]) + l2 / 2 * head[:-1].square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(objective)  # type: ignore[no-untyped-call]
    return np.asarray((scale * variables).detach().numpy())


def margins(rows: SingleArray, head: SingleArray) -> SingleArray:
    """Return the logits of rows (n, r) by a head (r + 1, k), shape (n, k)."""
    return np.asarray(rows @ head[:-1] + head[-1])


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return softmax of logits (n, k), in float64."""
    return np.asarray(torch.from_numpy(logits).double().softmax(1).numpy())
