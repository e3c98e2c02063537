"""Draw figures of accuracy by epoch: a panel for each data set and noise rate, with a line for each series.

A *series* is a curve by epoch (test accuracy or objective) of one method at one beta. The line is the mean over the
seeds, in a band of plus or minus one standard deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce_lab.engine.png import figure, literal, png, stamp
from mgce_lab.engine.render import COLOURS
from mgce_lab.engine.result import Result
from mgce_lab.engine.summary import show
from mgce_lab.paper.comparison import ordered
from mgce_lab.paper.plan import BETA

# By label: method, beta, curve ("test_accuracy" or "objective"), and Matplotlib's style of the line. A value V of the
# objective is drawn as 1 - V, beside the accuracies.
Series = Mapping[str, tuple[str, float, str, dict[str, Any]]]
ACCURACY: Series = {
    "MGCE": ("mgce", BETA, "test_accuracy", {"label": "MGCE", "color": COLOURS["mgce"]}),
    "GCE": ("gce", BETA, "test_accuracy", {"label": "GCE", "color": COLOURS["gce"]}),
}
Curves = dict[str, NDArray[np.float64]]  # by label, each (seeds, epochs)
# Width and height in inches: 10-point letters are then 13 pixels high where a phone gives the figure 400.
PANEL = (4.2, 3.1)


@dataclass(frozen=True)
class CurveFigure:
    """The description of a figure of curves by epoch.

    Attributes:
        name: name of the figure for `mgce-lab reproduce`.
        title: title of the figure.
        caption: what was trained, and how to read the figure.
        series: the lines of each panel.
        shown: epochs, counted from 1, whose values are in the table below the figure; the last epoch is always shown.
        xscale: scale of the axis of epochs, "linear" or "log".
        ylabel: label of the vertical axis, which says which accuracy it shows.
    """

    name: str
    title: str
    caption: str
    series: Series = field(default_factory=lambda: ACCURACY)
    shown: Sequence[int] = (1, 10, 50)
    xscale: str = "linear"
    ylabel: str = "test accuracy (%)"


def draw_curves(chart: CurveFigure, records: Sequence[dict[str, Any]], datasets: Sequence[str]) -> Result | None:
    """Draw the mean and the standard deviation of each series over the seeds.

    There is a panel for each data set and noise rate, one below the other, so that panels are large enough on a phone.
    The result is None if there are no records of any series.

    Args:
        chart: the description of the figure.
        records: records with data set, noise rate, method, beta, seed and curves by epoch; for images also with the
            setting of the network.
        datasets: the data sets of the paper, in its order; others come last.
    """
    drawn: list[tuple[dict[str, Any], Curves]] = []
    for dataset in ordered({record["dataset"] for record in records}, datasets):
        for rate in sorted({record["noise_rate"] for record in records if record["dataset"] == dataset}):
            own = [record for record in records if (record["dataset"], record["noise_rate"]) == (dataset, rate)]
            if curves := _curves(own, chart.series):
                drawn.append((_panel(own[0]), curves))
    if not drawn:
        return None
    panels, axes = figure(len(drawn), *PANEL, columns=1)
    cells, numbers = [], []
    notes: dict[str, str] = {}
    for (panel, curves), axis in zip(drawn, axes, strict=True):
        for label, values in curves.items():
            mean, std = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else np.full(values.shape[1], np.nan)
            _draw(axis, chart.series[label][3], mean, std)
            row = {**panel, "series": label, "seeds": len(values)}
            cells.append({**_words(row), **_cells(mean, std, chart.shown)})
            columns = zip(range(1, len(mean) + 1), mean.tolist(), std.tolist(), strict=True)
            numbers += [{**row, "epoch": e, "mean": m, "std": s} for e, m, s in columns]
        title = ", ".join(_words(panel).values())
        axis.set_title(literal(title), fontsize=9)  # a panel of images names the network too
        axis.set(xscale=chart.xscale, xlabel="epoch", ylabel=chart.ylabel)
        axis.legend(frameon=False, fontsize=8)
        if {"MGCE", "GCE"} <= curves.keys():
            notes[f"{'/'.join(map(str, panel.values()))}/convergence"] = _convergence(
                title, curves["MGCE"], curves["GCE"]
            )
    if any(record.get("smoke") for record in records):
        stamp(panels)
    return Result(chart.name, chart.title, chart.caption, cells, numbers, png(panels), notes, words=2)


def _panel(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that identify a panel: the data set and, for images, noise rate and the network's setting."""
    panel = {"dataset": record["dataset"]}
    return {**panel, "noise_rate": record["noise_rate"], "network": record["setting"]} if "setting" in record else panel


def _words(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a row as text, with the noise rate as a percentage of wrong labels."""
    rate = "noise_rate"
    return {"noise" if name == rate else name: f"{x:.0%} wrong" if name == rate else str(x) for name, x in row.items()}


def _curves(records: Sequence[dict[str, Any]], series: Series) -> Curves:
    """Return the curves of each series that has records, by label, each of shape (seeds, epochs)."""
    curves = {label: curves_of(records, *line[:3]) for label, line in series.items()}
    return {label: values for label, values in curves.items() if len(values)}


def curves_of(records: Sequence[dict[str, Any]], method: str, beta: float, curve: str) -> NDArray[np.float64]:
    """Return a curve in percent, shape (seeds, epochs); it is empty if there are no records.

    For the objective V it is the curve of 1 - V.
    """
    chosen = [r for r in records if r["method"] == method and r["beta"] == beta]
    values = np.array([r[f"{curve}_by_epoch"] for r in sorted(chosen, key=lambda r: r["seed"])])
    return 100 * (1 - values if curve == "objective" else values)


def _draw(axis: Any, style: dict[str, Any], mean: NDArray[np.float64], std: NDArray[np.float64]) -> None:
    epochs = np.arange(1, len(mean) + 1)
    axis.plot(epochs, mean, **style)
    axis.fill_between(epochs, mean - std, mean + std, color=style["color"], alpha=0.15, linewidth=0)


def _cells(mean: NDArray[np.float64], std: NDArray[np.float64], shown: Sequence[int]) -> dict[str, str]:
    by_epoch = {f"epoch {e}": show((mean[e - 1], std[e - 1])) if e <= len(mean) else "" for e in shown}
    return {**by_epoch, "last epoch": show((mean[-1], std[-1]))}


def _convergence(title: str, mgce: NDArray[np.float64], gce: NDArray[np.float64]) -> str:
    """Return a sentence: in which epoch the mean accuracy of MGCE first reaches GCE's accuracy at the last epoch."""
    end = gce.mean(0)[-1]
    reached = np.flatnonzero(mgce.mean(0) >= end)
    when = f"reaches it in epoch {reached[0] + 1}" if len(reached) else "does not reach it"
    return f"{title}: GCE ends at {end:.2f} % after {gce.shape[1]} epochs; MGCE {when}."
