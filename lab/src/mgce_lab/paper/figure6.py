"""Plan and draw Figure 6: accuracy and objective values V_beta by epoch, on tables with clean labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mgce_lab.engine.methods import CHOOSING, MINIMAX_MAE, at_betas
from mgce_lab.engine.render import COLOURS
from mgce_lab.engine.result import Result
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.paper import table3
from mgce_lab.paper.comparison import ordered
from mgce_lab.paper.convergence import ACCURACY, CurveFigure, Series, curves_of, draw_curves
from mgce_lab.paper.plan import Options
from mgce_lab.paper.tabular import TabularRun

SERIES: Series = {
    **ACCURACY,
    "1 - V_1.40": ("mgce", 1.4, "objective", {"label": r"$1-V_{1.40}$", "color": "#555555", "linestyle": "-."}),
    "1 - V_1.18": ("mgce", 1.18, "objective", {"label": r"$1-V_{1.18}$", "color": "#777777", "linestyle": "--"}),
    "1 - V_1.05": ("mgce", 1.05, "objective", {"label": r"$1-V_{1.05}$", "color": "#999999", "linestyle": ":"}),
    "1 - V_MAE": (
        MINIMAX_MAE,
        1.0,
        "objective",
        {"label": r"$1-V_{\mathrm{MAE}}$", "color": COLOURS[MINIMAX_MAE], "linestyle": (0, (1, 3))},
    ),
}


CAPTION = (
    "Percent; mean and standard deviation over the seeds; β = 1.4 for MGCE and GCE. V_β is the training objective, "
    "mean loss and L1 penalty, of the network trained at that β. The paper calls 1 - V_β a lower bound of the "
    "accuracy; for learned features and λ_0 = 1e-5 nothing proves that, so here it is an objective value and no "
    "certificate. The paper prints no numbers for this figure."
)
TITLE = "Figure 6: accuracy by epoch and objective values on tables"
FIGURE = CurveFigure("figure6", TITLE, CAPTION, series=SERIES, xscale="log")


def plan(options: Options) -> list[Specification]:
    """Plan the runs of Table 3 on clean labels that contain a network of the figure.

    The networks of the figure are always planned, even if the options do not list their beta.
    """
    lines = [(method, beta) for method, beta, *_ in SERIES.values()]
    shown = {(one.name, one.beta) for method, beta in lines for one in at_betas(method, (beta,))}
    wanted = {member for method in options.methods for member in options.members(method)} | shown
    betas = tuple(sorted({*options.betas, *(beta for method, beta in lines if method in CHOOSING)}))
    runs = []
    for run in table3.plan(replace(options, betas=betas)):
        assert isinstance(run, TabularRun)
        if run.noise_rate == 0 and shown & set(run.members):
            runs.append(replace(run, members=tuple(member for member in run.members if member in wanted)))
    return [*runs]


def render(runs: Sequence[Run]) -> Result | None:
    """Draw a panel for each data set; return None if there are no runs."""
    records = [record for record in table3.tabular_records(runs) if record["noise_rate"] == 0]
    result = draw_curves(FIGURE, records, table3.DATASETS)
    if result is None:
        return None
    notes = dict(result.notes)
    for dataset in ordered({record["dataset"] for record in records}, table3.DATASETS):
        notes |= _above(dataset, [record for record in records if record["dataset"] == dataset])
    return replace(result, notes=notes)


def _above(dataset: str, records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return a note: in how many epochs 1 - V exceeded the same network's test accuracy, for at least one seed."""
    counts = []
    for label, (method, beta, curve, _) in SERIES.items():
        values = curves_of(records, method, beta, curve)
        if curve == "objective" and len(values):
            above = (values > curves_of(records, method, beta, "test_accuracy")).any(0).sum()
            counts.append(f"{label} in {above} of {values.shape[1]} epochs")
    if not counts:
        return {}
    sentence = f"{dataset}: above the test accuracy of its own network, for some seed: {', '.join(counts)}."
    return {f"{dataset}/objective": sentence}
