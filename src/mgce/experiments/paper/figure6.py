"""Figure 6: accuracy by epoch on tables with clean labels, and the objective values V_beta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce.experiments.paper import table3
from mgce.experiments.paper.plan import Options
from mgce.experiments.paper.plot import figure, png
from mgce.experiments.paper.result import Result
from mgce.experiments.paper.specification import Specification
from mgce.experiments.paper.tabular import TabularRun
from mgce.experiments.render import COLOURS
from mgce.experiments.store import Run

# Label: method, beta, curve, style. A value V of the objective is drawn as the accuracy 1 - V.
SERIES: dict[str, tuple[str, float, str, dict[str, Any]]] = {
    "MGCE": ("mgce", 1.4, "test_accuracy", {"label": "MGCE", "color": COLOURS["mgce"]}),
    "GCE": ("gce", 1.4, "test_accuracy", {"label": "GCE", "color": COLOURS["gce"]}),
    "1 - V_1.40": ("mgce", 1.4, "objective", {"label": r"$1-V_{1.40}$", "color": "#555555", "linestyle": "-."}),
    "1 - V_1.18": ("mgce", 1.18, "objective", {"label": r"$1-V_{1.18}$", "color": "#777777", "linestyle": "--"}),
    "1 - V_1.05": ("mgce", 1.05, "objective", {"label": r"$1-V_{1.05}$", "color": "#999999", "linestyle": ":"}),
    "1 - V_MAE": (
        "mae",
        1.0,
        "objective",
        {"label": r"$1-V_{\mathrm{MAE}}$", "color": COLOURS["mae"], "linestyle": (0, (1, 3))},
    ),
}
SHOWN = (1, 10, 50)


def plan(options: Options) -> list[Specification]:
    """Plan those runs of Table 3 that the figure shows."""
    shown = {(method, beta) for method, beta, *_ in SERIES.values()}
    return [
        specification
        for specification in table3.plan(options)
        if isinstance(specification, TabularRun) and specification.noise == 0 and shown & set(specification.members)
    ]


def render(runs: Sequence[Run]) -> Result | None:
    """Draw a panel for each data set; None without runs."""
    records = [record for record in table3.tabular_records(runs) if record["noise"] == 0]
    datasets = sorted({record["dataset"] for record in records}, key=table3.dataset_order)
    if not datasets:
        return None
    chart, axes = figure(len(datasets), 5.6, 3.9)
    cells, numbers = [], []
    notes: dict[str, str] = {}
    for dataset, axis in zip(datasets, axes, strict=True):
        here = [record for record in records if record["dataset"] == dataset]
        curves = {label: _curves(here, *series[:3]) for label, series in SERIES.items()}
        for label, values in curves.items():
            if not len(values):
                continue
            mean, std = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else np.full(values.shape[1], np.nan)
            _draw(axis, label, mean, std)
            cells.append(_cells(dataset, label, len(values), mean, std))
            columns = zip(range(1, len(mean) + 1), mean.tolist(), std.tolist(), strict=True)
            numbers += [
                {"dataset": dataset, "series": label, "seeds": len(values), "epoch": e, "mean": m, "std": s}
                for e, m, s in columns
            ]
        axis.set(title=dataset, xscale="log", xlabel="epoch", ylabel="test accuracy (%)")
        axis.legend(frameon=False, fontsize=8)
        notes |= _convergence(dataset, curves["MGCE"], curves["GCE"]) | _above(dataset, here)
    caption = (
        "Percent; mean and standard deviation over the seeds; β = 1.4 for MGCE and GCE. V_β is the training objective, "
        "mean loss and L1 penalty, of the network trained at that β. The paper calls 1 - V_β a lower bound of the "
        "accuracy; for learned features and λ_0 = 1e-5 nothing proves that, so here it is an objective value and no "
        "certificate. The paper prints no numbers for this figure."
    )
    title = "Figure 6: accuracy by epoch and objective values on tables"
    return Result("figure6", title, caption, cells, numbers, png(chart), notes)


def _curves(records: Sequence[dict[str, Any]], method: str, beta: float, curve: str) -> NDArray[np.float64]:
    """Give a curve of every seed in percent, an objective V as 1 - V, shape (seeds, epochs)."""
    chosen = [r for r in records if r["method"] == method and r["beta"] == beta]
    values = np.array([r[f"{curve}_by_epoch"] for r in sorted(chosen, key=lambda r: r["seed"])])
    return 100 * (1 - values if curve == "objective" else values)


def _draw(axis: Any, label: str, mean: NDArray[np.float64], std: NDArray[np.float64]) -> None:
    style = SERIES[label][3]
    epochs = np.arange(1, len(mean) + 1)
    axis.plot(epochs, mean, **style)
    axis.fill_between(epochs, mean - std, mean + std, color=style["color"], alpha=0.15, linewidth=0)


def _cells(dataset: str, label: str, seeds: int, mean: NDArray[np.float64], std: NDArray[np.float64]) -> dict[str, str]:
    shown = {f"epoch {e}": table3.show((mean[e - 1], std[e - 1])) if e <= len(mean) else "" for e in SHOWN}
    last = table3.show((mean[-1], std[-1]))
    return {"dataset": dataset, "series": label, "seeds": str(seeds), **shown, "last epoch": last}


def _convergence(dataset: str, mgce: NDArray[np.float64], gce: NDArray[np.float64]) -> dict[str, str]:
    """Say when MGCE is as good as GCE at the end."""
    if not len(mgce) or not len(gce):
        return {}
    end = gce.mean(0)[-1]
    reached = np.flatnonzero(mgce.mean(0) >= end)
    when = f"reaches it in epoch {reached[0] + 1}" if len(reached) else "does not reach it"
    sentence = f"{dataset}: GCE ends at {end:.2f} % after {gce.shape[1]} epochs; MGCE {when}."
    return {f"{dataset}/convergence": sentence}


def _above(dataset: str, records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Say in how many epochs 1 - V was more than the accuracy of the network that it belongs to."""
    counts = []
    for label, (method, beta, curve, _) in SERIES.items():
        values = _curves(records, method, beta, curve)
        if curve == "objective" and len(values):
            above = (values > _curves(records, method, beta, "test_accuracy")).any(0).sum()
            counts.append(f"{label} in {above} of {values.shape[1]} epochs")
    if not counts:
        return {}
    sentence = f"{dataset}: above the test accuracy of its own network, for some seed: {', '.join(counts)}."
    return {f"{dataset}/objective": sentence}
