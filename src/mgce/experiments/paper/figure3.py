"""Figure 3: test accuracy by epoch on images with clean labels."""

from __future__ import annotations

from collections.abc import Sequence

from mgce.experiments.paper.convergence import CurveFigure, draw_curves
from mgce.experiments.paper.images import clean_records, plan_figure
from mgce.experiments.paper.plan import Options
from mgce.experiments.paper.result import Result
from mgce.experiments.paper.specification import Specification
from mgce.experiments.store import Run

DATASETS = ("cifar10", "cifar100", "tiny_imagenet")
CAPTION = (
    "Percent; mean and standard deviation over the seeds; β = 1.4 for MGCE and GCE. Images of Tiny ImageNet are "
    "resized to 32 x 32. The paper prints no numbers for this figure."
)


FIGURE = CurveFigure("figure3", "Figure 3: accuracy by epoch on images", CAPTION)


def plan(options: Options) -> list[Specification]:
    """Plan a run for each data set, seed and method."""
    return plan_figure(options, DATASETS)


def render(runs: Sequence[Run]) -> Result | None:
    """Draw a panel for each data set that Table 1 may show; None without runs."""
    return draw_curves(FIGURE, [record for record in clean_records(runs) if record["for_tables"]], DATASETS)
