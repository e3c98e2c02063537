"""Draw Figure 2: the worst-case probability against the minimax probability, for two classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mgce.functional import minimax_to_worst_case
from mgce_lab.engine.png import figure, png
from mgce_lab.engine.result import Result
from mgce_lab.engine.store import Run
from mgce_lab.paper.figure1 import draw_by_beta

SHOWN = (0.0, 0.01, 0.2, 0.4, 0.6, 0.8, 0.99, 1.0)


def render(runs: Sequence[Run]) -> Result:
    r"""Draw the worst-case probability :math:`p_y = h_y^{1/\alpha} / \sum_z h_z^{1/\alpha}` against h_y, eq. (16)."""
    h = torch.linspace(0, 1, 401, dtype=torch.float64)  # steps of 0.0025: for a small beta the curve is steep near 0
    chart, (axis,) = figure(1, 4.6, 4.4)
    cells, numbers = draw_by_beta(axis, worst_case, h, SHOWN, "p")
    axis.set(xlabel=r"minimax probability $h_\beta(x)_y$", ylabel=r"worst-case probability $p_\beta(y|x)$")
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.legend(frameon=False)
    caption = (
        "Two classes. At β = inf both are equal; the smaller β, the closer p is to 1/2 where h is neither 0 nor 1. "
        "At β = 1 p is uniform over the classes with h > 0: one of several worst cases. "
        "The paper prints no numbers for this figure."
    )
    return Result("figure2", "Figure 2: minimax and worst-case probabilities", caption, cells, numbers, png(chart))


def worst_case(h: torch.Tensor, beta: float) -> torch.Tensor:
    """Return the worst-case probability of the first of two classes for each of its minimax probabilities h."""
    return minimax_to_worst_case(torch.stack([h, 1 - h], dim=-1), beta=beta)[:, 0]
