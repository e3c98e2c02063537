"""Plan and draw Figure 4: accuracy by epoch on WebVision, whose published labels are noisy."""

from __future__ import annotations

from collections.abc import Sequence

from mgce_lab.engine.result import Result
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.paper.convergence import CurveFigure, draw_curves
from mgce_lab.paper.images import figure_records, plan_figure
from mgce_lab.paper.plan import Options

DATASETS = ("webvision",)
CAPTION = (
    "Percent; mean and standard deviation over the seeds; β = 1.4 for MGCE and GCE. Google images of the first 50 "
    "classes, tested on the published validation images; none are held out. The paper prints no numbers for this "
    "figure."
)


TITLE = "Figure 4: accuracy by epoch on WebVision"
FIGURE = CurveFigure("figure4", TITLE, CAPTION, ylabel="accuracy on validation images (%)")


def plan(options: Options) -> list[Specification]:
    """Plan a run for each seed and each of MGCE and GCE."""
    return plan_figure(options, DATASETS, "figure4")


def render(runs: Sequence[Run]) -> Result | None:
    """Draw the panel of WebVision; return None if there are no runs."""
    return draw_curves(FIGURE, figure_records(runs, "figure4", DATASETS), DATASETS)
