"""Figure 1: the loss of a probability, for beta from MAE to cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from mgce.experiments.paper.plan import Options
from mgce.experiments.paper.result import Result
from mgce.experiments.paper.specification import Specification
from mgce.experiments.store import Run
from mgce.functional import alpha_loss
from mgce.pages.png import figure, png

# As in the paper's legend.
CURVES = {"CE": math.inf, "β = 2.0": 2.0, "β = 1.4": 1.4, "β = 1.1": 1.1, "MAE": 1.0}
SHOWN = (0.01, 0.2, 0.4, 0.6, 0.8, 1.0)


def plan(options: Options) -> list[Specification]:
    """Nothing has to be run."""
    return []


def render(runs: Sequence[Run]) -> Result:
    r"""Draw :math:`\beta (1 - h_y^{1/\beta})` against the probability h of the label."""
    h = torch.linspace(0.005, 1, 200, dtype=torch.float64)
    chart, (axis,) = figure(1, 5.4, 4.0)
    numbers = []
    for label, beta in CURVES.items():
        loss = losses(h, beta)
        axis.plot(h, loss, label=label)
        numbers += [{"beta": beta, "h": x, "loss": y} for x, y in zip(h.tolist(), loss.tolist(), strict=True)]
    axis.set(xlabel=r"class probability $h(x)_y$", ylabel="loss", xlim=(0, 1), ylim=(0, 5))
    axis.legend(frameon=False)
    shown = {label: losses(torch.tensor(SHOWN, dtype=torch.float64), beta) for label, beta in CURVES.items()}
    cells = [{"h": f"{x:g}", **{label: f"{loss[i]:.3f}" for label, loss in shown.items()}} for i, x in enumerate(SHOWN)]
    caption = (
        "β = 1 is the MAE, 1 - h, and β = inf is cross-entropy, -log h; between them the loss rises with β. "
        "The paper prints no numbers for this figure."
    )
    return Result("figure1", "Figure 1: β and the loss", caption, cells, numbers, png(chart))


def losses(h: torch.Tensor, beta: float) -> torch.Tensor:
    """Give the loss of label 0 with probabilities (h, 1 - h), for every h of shape (n,)."""
    probs = torch.stack([h, 1 - h], dim=-1)
    target = torch.zeros(len(h), dtype=torch.int64)
    return alpha_loss(probs, target, beta=beta, reduction="none") + 0.0  # no -0
