"""Plan and draw Figure 5: accuracy by epoch on Clothing-1M, whose published labels are noisy."""

from __future__ import annotations

from collections.abc import Sequence

from mgce_lab.engine.result import Result
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.paper.convergence import CurveFigure, draw_curves
from mgce_lab.paper.images import figure_records, plan_figure
from mgce_lab.paper.plan import Options

DATASETS = ("clothing1m",)
CAPTION = (
    "Percent; mean and standard deviation over the seeds; β = 1.4 for MGCE and GCE. Trained on the noisy labels, "
    "tested on the clean ones; the initial weights are not pretrained. The paper prints no numbers for this figure."
)


FIGURE = CurveFigure("figure5", "Figure 5: accuracy by epoch on Clothing-1M", CAPTION, shown=(1, 5))


def plan(options: Options) -> list[Specification]:
    """Plan a run for each seed and each of MGCE and GCE."""
    return plan_figure(options, DATASETS, "figure5")


def render(runs: Sequence[Run]) -> Result | None:
    """Draw the panel of Clothing-1M; return None if there are no runs."""
    return draw_curves(FIGURE, figure_records(runs, "figure5", DATASETS), DATASETS)
