"""The figures of accuracy by epoch: a panel for each data set, a band for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce.experiments.paper.comparison import ordered, show
from mgce.experiments.paper.images import SMOKE_DATASETS
from mgce.experiments.paper.plan import BETA
from mgce.experiments.paper.result import Result
from mgce.experiments.render import COLOURS
from mgce.pages.png import figure, png

# Label: method, beta, curve, style. A value V of the objective is drawn as the accuracy 1 - V.
Series = Mapping[str, tuple[str, float, str, dict[str, Any]]]
ACCURACY: Series = {
    "MGCE": ("mgce", BETA, "test_accuracy", {"label": "MGCE", "color": COLOURS["mgce"]}),
    "GCE": ("gce", BETA, "test_accuracy", {"label": "GCE", "color": COLOURS["gce"]}),
}


@dataclass(frozen=True)
class CurveFigure:
    """A figure of curves by epoch.

    Attributes:
        name: as the command has it.
        title: what it shows.
        caption: how it came about.
        series: the lines of a panel.
        shown: epochs in the table below, beside the last one.
        xscale: of the epochs, "linear" or "log".
        ylabel: what the accuracy is that of.
    """

    name: str
    title: str
    caption: str
    series: Series = field(default_factory=lambda: ACCURACY)
    shown: Sequence[int] = (1, 10, 50)
    xscale: str = "linear"
    ylabel: str = "test accuracy (%)"


def draw_curves(chart: CurveFigure, records: Sequence[dict[str, Any]], datasets: Sequence[str]) -> Result | None:
    """Draw the mean and the standard deviation over the seeds; None where there is nothing to draw.

    Args:
        chart: what to draw.
        records: with data set, method, beta, seed and curves by epoch.
        datasets: a panel for each, in order; one without any of the series is left out.
    """
    curves_by_dataset = {dataset: _curves(records, dataset, chart.series) for dataset in datasets}
    drawn = {dataset: curves for dataset, curves in curves_by_dataset.items() if curves}
    if not drawn:
        return None
    panels, axes = figure(len(drawn), 5.6, 3.9)
    cells, numbers = [], []
    notes: dict[str, str] = {}
    for (dataset, curves), axis in zip(drawn.items(), axes, strict=True):
        for label, values in curves.items():
            mean, std = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else np.full(values.shape[1], np.nan)
            _draw(axis, chart.series[label][3], mean, std)
            cells.append(_cells(dataset, label, len(values), mean, std, chart.shown))
            columns = zip(range(1, len(mean) + 1), mean.tolist(), std.tolist(), strict=True)
            numbers += [
                {"dataset": dataset, "series": label, "seeds": len(values), "epoch": e, "mean": m, "std": s}
                for e, m, s in columns
            ]
        axis.set(title=dataset, xscale=chart.xscale, xlabel="epoch", ylabel=chart.ylabel)
        axis.legend(frameon=False, fontsize=8)
        if {"MGCE", "GCE"} <= curves.keys():
            notes |= _convergence(dataset, curves["MGCE"], curves["GCE"])
    return Result(chart.name, chart.title, chart.caption, cells, numbers, png(panels), notes, words=2)


def _curves(records: Sequence[dict[str, Any]], dataset: str, series: Series) -> dict[str, NDArray[np.float64]]:
    """Give those of the series that a data set has, by label, each (seeds, epochs)."""
    own = [record for record in records if record["dataset"] == dataset]
    curves = {label: curves_of(own, *line[:3]) for label, line in series.items()}
    return {label: values for label, values in curves.items() if len(values)}


def datasets_of(records: Sequence[dict[str, Any]], datasets: Sequence[str]) -> list[str]:
    """Give those of a figure's data sets, or of its smoke run, that there are records of."""
    return ordered({record["dataset"] for record in records} & {*datasets, *SMOKE_DATASETS}, datasets)


def curves_of(records: Sequence[dict[str, Any]], method: str, beta: float, curve: str) -> NDArray[np.float64]:
    """Give a curve of every seed in percent, an objective V as 1 - V, shape (seeds, epochs)."""
    chosen = [r for r in records if r["method"] == method and r["beta"] == beta]
    values = np.array([r[f"{curve}_by_epoch"] for r in sorted(chosen, key=lambda r: r["seed"])])
    return 100 * (1 - values if curve == "objective" else values)


def _draw(axis: Any, style: dict[str, Any], mean: NDArray[np.float64], std: NDArray[np.float64]) -> None:
    epochs = np.arange(1, len(mean) + 1)
    axis.plot(epochs, mean, **style)
    axis.fill_between(epochs, mean - std, mean + std, color=style["color"], alpha=0.15, linewidth=0)


def _cells(
    dataset: str,
    label: str,
    seeds: int,
    mean: NDArray[np.float64],
    std: NDArray[np.float64],
    shown: Sequence[int],
) -> dict[str, str]:
    by_epoch = {f"epoch {e}": show((mean[e - 1], std[e - 1])) if e <= len(mean) else "" for e in shown}
    last = show((mean[-1], std[-1]))
    return {"dataset": dataset, "series": label, "seeds": str(seeds), **by_epoch, "last epoch": last}


def _convergence(dataset: str, mgce: NDArray[np.float64], gce: NDArray[np.float64]) -> dict[str, str]:
    """Say when MGCE is as good as GCE at the end."""
    end = gce.mean(0)[-1]
    reached = np.flatnonzero(mgce.mean(0) >= end)
    when = f"reaches it in epoch {reached[0] + 1}" if len(reached) else "does not reach it"
    sentence = f"{dataset}: GCE ends at {end:.2f} % after {gce.shape[1]} epochs; MGCE {when}."
    return {f"{dataset}/convergence": sentence}
