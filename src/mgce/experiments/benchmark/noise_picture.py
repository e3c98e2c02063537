"""The picture of a protocol on images: accuracy of each loss by noise."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mgce.experiments.methods import Method
from mgce.pages.png import figure, png, stamp

Record = dict[str, Any]
MGCE, CE = "#0072B2", "black"


def noise_name(record: Record) -> str:
    """Name the noise of a record: `symmetric 0.4`, or the human labels."""
    return record["labels"] or f"{record['noise_type']} {record['noise']:g}"


def label(record: Record) -> str:
    """Name the loss of a record."""
    name = Method(record["method"], float(record["beta"])).label
    if "cap_from" in record:
        return f"{name}, epoch {record['cap_from']}"
    if "trim" in record:
        return f"{name}, trim {record['trim']:g}"
    return name if record["beta_start"] is None else f"{name} from {record['beta_start']:g}"


def noise_picture(protocol: str, records: Sequence[Record]) -> bytes:
    """Draw accuracy against the rate of symmetric noise; where fewer than three were run, that of each loss by name."""
    symmetric = [record for record in records if record["noise_type"] == "symmetric"]
    rates = _grouped(symmetric, lambda record: record["dataset"])
    suffix = " (reduced)" if protocol == "reduced" else ""
    if any(len({record["noise"] for record in own}) >= 3 for own in rates.values()):
        chart = _lines(rates, suffix)
    else:
        cells = _grouped(records, lambda record: f"{record['dataset']}, {noise_name(record)}")
        chart = _dots(cells, suffix)
    if any(record["smoke"] for record in records):
        stamp(chart)
    return png(chart)


def _grouped(records: Sequence[Record], key: Callable[[Record], str]) -> dict[str, list[Record]]:
    """Give the records by key, in the order of the keys."""
    return {name: [record for record in records if key(record) == name] for name in sorted(set(map(key, records)))}


def _dots(cells: Mapping[str, Sequence[Record]], suffix: str) -> Any:
    """Draw the last and the best epoch of each loss, a panel for each cell, the best loss at its top."""
    losses = {cell: _grouped(own, label) for cell, own in cells.items()}
    # A name is .15 inches high, and a title with the axis below it about an inch.
    chart, axes = figure(len(cells), 5.6, 1 + 0.15 * max(len(own) for own in losses.values()))
    for (cell, own), axis in zip(losses.items(), axes, strict=True):
        names = sorted(own, key=lambda name: statistics.fmean(r["accuracy"] for r in own[name]))
        for y, name in enumerate(names):
            colour = MGCE if name.startswith("mgce") else CE if name == "ce" else "#888888"
            style = {"fmt": "o", "color": colour, "markersize": 4}
            for key, filled in (("best_accuracy", "none"), ("accuracy", "full")):
                values = [100 * record[key] for record in own[name]]
                spread = statistics.stdev(values) if len(values) > 1 and filled == "full" else None
                axis.errorbar(statistics.fmean(values), y, xerr=spread, fillstyle=filled, **style)
        axis.set_yticks(range(len(names)), names, fontsize=7)
        what = "test accuracy (%): last epoch full, best epoch hollow"
        axis.set(xlabel=what, ylim=(-0.7, len(names) - 0.3), title=cell + suffix)
    return chart


def _lines(datasets: Mapping[str, Sequence[Record]], suffix: str) -> Any:
    """Draw accuracy at the last epoch against the rate of symmetric noise, a panel for each data set."""
    losses = {dataset: _grouped(own, label) for dataset, own in datasets.items()}
    # A line of the legend is .16 inches high.
    chart, axes = figure(len(datasets), 7.0, max(4.8, 0.16 * max(len(own) for own in losses.values())))
    for (dataset, own), axis in zip(losses.items(), axes, strict=True):
        points = {name: _by_rate(records) for name, records in own.items()}
        for number, (name, by_rate) in enumerate(sorted(points.items(), key=lambda item: -item[1][max(item[1])])):
            axis.plot(by_rate.keys(), by_rate.values(), label=name, **_style(name, number))
        axis.set(xlabel="rate of symmetric noise", ylabel="test accuracy, last epoch (%)", title=dataset + suffix)
        axis.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return chart


def _by_rate(records: Sequence[Record]) -> dict[float, float]:
    """Give the mean accuracy in percent by rate of noise."""
    rates = sorted({record["noise"] for record in records})
    return {rate: 100 * statistics.fmean(r["accuracy"] for r in records if r["noise"] == rate) for rate in rates}


def _style(name: str, number: int) -> dict[str, Any]:
    """Give the line of a loss: MGCE bold in blue, cross-entropy black, the others in colours of their own."""
    if name.startswith("mgce"):
        shades = ("#08306b", "#2171b5", MGCE, "#6baed6", "#56B4E9")
        return {"color": shades[number % 5], "linewidth": 2.2, "marker": "o"}
    if name == "ce":
        return {"color": CE, "linewidth": 1.8, "marker": "s", "linestyle": "--"}
    colours = ("#E69F00", "#D55E00", "#009E73", "#CC79A7", "#999999", "#8C564B", "#BCBD22", "#7F3C8D")
    return {"color": colours[number % 8], "linewidth": 1.1, "marker": "^v<>Dphx*"[number % 9], "markersize": 4}
