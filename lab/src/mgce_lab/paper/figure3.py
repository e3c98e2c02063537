"""Plan and draw Figure 3: test accuracy by epoch on images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mgce_lab.engine.render import COLOURS
from mgce_lab.engine.result import Result
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.paper.convergence import ACCURACY, CurveFigure, Series, draw_curves
from mgce_lab.paper.images import PENALTY, image_records, plan_figure
from mgce_lab.paper.plan import Options

DATASETS = ("cifar10", "cifar100", "tiny_imagenet")
CAPTION = (
    "Percent; mean and standard deviation over the seeds; β = 1.4 for MGCE and GCE. Images of Tiny ImageNet are "
    "resized to 32 x 32. The paper shows MGCE and GCE with right labels, and prints no numbers for this figure; "
    "cross-entropy and panels with wrong labels are ours."
)
SERIES: Series = {**ACCURACY, "CE": ("ce", math.inf, "test_accuracy", {"label": "CE", "color": COLOURS["ce"]})}
FIGURE = CurveFigure("figure3", "Figure 3: accuracy by epoch on images", CAPTION, series=SERIES)


def plan(options: Options) -> list[Specification]:
    """Plan a run with clean labels for each data set, each seed, and each of MGCE and GCE."""
    return plan_figure(options, DATASETS)


def render(runs: Sequence[Run]) -> Result | None:
    """Draw a panel for each data set and noise rate with runs of Table 1 or Figure 3; return None without runs."""
    records = [record for record in image_records(runs) if record["l1"] == PENALTY and record["for_tables"]]
    return draw_curves(FIGURE, records, DATASETS)
