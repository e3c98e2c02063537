"""Draw Figure 1: the loss against the probability of the label, for several beta from MAE to cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mgce.functional import alpha_loss
from mgce_lab.engine.png import figure, png
from mgce_lab.engine.result import Result
from mgce_lab.engine.store import Run

# As in the paper's legend.
CURVES = {"CE": math.inf, "β = 2.0": 2.0, "β = 1.4": 1.4, "β = 1.1": 1.1, "MAE": 1.0}
SHOWN = (0.01, 0.2, 0.4, 0.6, 0.8, 1.0)


def render(runs: Sequence[Run]) -> Result:
    r"""Draw the loss :math:`\beta (1 - h_y^{1/\beta})` against the probability h_y of the label."""
    h = torch.linspace(0.005, 1, 200, dtype=torch.float64)  # steps of 0.005, without 0, where -log h is infinite
    chart, (axis,) = figure(1, 5.4, 4.0)
    cells, numbers = draw_by_beta(axis, losses, h, SHOWN, "loss")
    axis.set(xlabel=r"class probability $h(x)_y$", ylabel="loss", xlim=(0, 1), ylim=(0, 5))
    axis.legend(frameon=False)
    caption = (
        "β = 1 is the MAE, 1 - h, and β = inf is cross-entropy, -log h; between them the loss rises with β. "
        "The paper prints no numbers for this figure."
    )
    return Result("figure1", "Figure 1: β and the loss", caption, cells, numbers, png(chart))


def draw_by_beta(
    axis: Any,
    function: Callable[[torch.Tensor, float], torch.Tensor],
    h: torch.Tensor,
    shown: Sequence[float],
    name: str,
) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Draw a function of the probability h for each beta of `CURVES`.

    Args:
        axis: Matplotlib axes to draw on.
        function: function from probabilities (n,) and beta to values (n,).
        h: the probabilities to draw, shape (n,).
        shown: the probabilities in the table.
        name: name of the function's values in the numbers.

    Returns:
        The table for readers, with a row for each h in `shown`, and the numbers that were drawn.
    """
    numbers: list[dict[str, Any]] = []
    for label, beta in CURVES.items():
        values = function(h, beta)
        axis.plot(h, values, label=label)
        numbers += [{"beta": beta, "h": x, name: y} for x, y in zip(h.tolist(), values.tolist(), strict=True)]
    columns = {label: function(torch.tensor(shown, dtype=torch.float64), beta) for label, beta in CURVES.items()}
    cells = [{"h": f"{x:g}", **{label: f"{y[i]:.3f}" for label, y in columns.items()}} for i, x in enumerate(shown)]
    return cells, numbers


def losses(h: torch.Tensor, beta: float) -> torch.Tensor:
    """Return the loss of label 0 for each entry of h, given the probabilities h and 1 - h of two classes."""
    probs = torch.stack([h, 1 - h], dim=-1)
    target = torch.zeros(len(h), dtype=torch.int64)
    return alpha_loss(probs, target, beta=beta, reduction="none") + 0.0  # -0.0 + 0.0 is 0.0
