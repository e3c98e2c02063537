"""Draw the figure of a benchmark protocol on images: the accuracy of each loss by type and rate of noise."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mgce_lab.engine.methods import Method, is_mgce
from mgce_lab.engine.png import figure, literal, png, stamp

Record = dict[str, Any]
MGCE, CE = "#0072B2", "black"


def noise_name(record: Record) -> str:
    """Return a name for the noise of a record, such as `symmetric 0.4`, or the name of the human labels."""
    return record["labels"] or f"{record['noise_type']} {record['noise_rate']:g}"


def label(record: Record) -> str:
    """Return a name for the loss of a record, with its beta and the settings that differ from the usual ones."""
    name = Method(record["method"], float(record["beta"])).label
    name += "" if record["beta_start"] is None else f" from {record['beta_start']:g}"
    variants = {"cap_from": "epoch", "trim": "trim", "penalty": "L1"}
    return name + "".join(f", {word} {record[key]:g}" for key, word in variants.items() if key in record)


def noise_picture(protocol: str, records: Sequence[Record]) -> bytes:
    """Draw the accuracy of each loss by type and rate of noise, as PNG.

    For data sets with at least three rates of symmetric noise there is a panel of accuracy against the rate. Then
    follows a panel for each data set and noise, with a row for each loss.
    """
    suffix = " (reduced)" if protocol == "reduced" else ""
    symmetric = [record for record in records if record["noise_type"] == "symmetric"]
    lines = {dataset: _by_rate(own) for dataset, own in _grouped(symmetric, lambda r: r["dataset"]).items()}
    lines = {dataset: losses for dataset, losses in lines.items() if losses}
    cells = _grouped(records, lambda record: f"{record['dataset']}, {noise_name(record)}")
    dots = {cell: _grouped(own, label) for cell, own in cells.items()}
    # A line of a legend is .16 inches high, the name of a loss at an axis .15, and a title with the axis about an inch.
    heights = [max(4.8, 0.16 * len(losses)) for losses in lines.values()]
    heights += [1 + 0.15 * len(own) for own in dots.values()]
    chart, axes = figure(len(heights), 6.4, heights)
    for (dataset, losses), axis in zip(lines.items(), axes, strict=False):
        _draw_lines(axis, losses, dataset + suffix)
    for (cell, own), axis in zip(dots.items(), axes[len(lines) :], strict=True):
        pairs = {loss: [(r["accuracy"], r["best_accuracy"]) for r in records] for loss, records in own.items()}
        draw_dots(axis, pairs, cell + suffix, "last epoch full, best epoch hollow")
    if any(record["smoke"] for record in records):
        stamp(chart)
    return png(chart)


def _grouped(records: Sequence[Record], key: Callable[[Record], str]) -> dict[str, list[Record]]:
    """Group records by the value of a function, sorted by this value."""
    return {name: [record for record in records if key(record) == name] for name in sorted(set(map(key, records)))}


def _by_rate(records: Sequence[Record]) -> dict[str, dict[float, float]]:
    """Return the mean accuracy at the last epoch in percent, by loss and noise rate.

    Losses with fewer than three rates are left out.
    """
    losses = {}
    for name, own in _grouped(records, label).items():
        rates = sorted({record["noise_rate"] for record in own})
        if len(rates) >= 3:
            values = {
                rate: [100 * record["accuracy"] for record in own if record["noise_rate"] == rate] for rate in rates
            }
            losses[name] = {rate: statistics.fmean(accuracies) for rate, accuracies in values.items()}
    return losses


def _draw_lines(axis: Any, losses: Mapping[str, Mapping[float, float]], title: str) -> None:
    """Draw accuracy against the noise rate; the legend is sorted by the accuracy at the largest rate."""
    drawn = {True: 0, False: 0}  # lines of MGCE, and others
    for name, by_rate in sorted(losses.items(), key=lambda item: -item[1][max(item[1])]):
        ours = is_mgce(name)
        axis.plot(by_rate.keys(), by_rate.values(), label=name, **_style(name, drawn[ours]))
        drawn[ours] += 1
    axis.set(xlabel="rate of symmetric noise", ylabel="test accuracy, last epoch (%)", title=literal(title))
    axis.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_dots(axis: Any, losses: Mapping[str, Sequence[tuple[float, float]]], title: str, words: str) -> None:
    """Draw two accuracies of each loss as dots, averaged over the seeds.

    `losses` maps a loss to a pair of accuracies for each seed. The first is drawn as a full dot, the second as a hollow
    dot. The loss with the best first accuracy is at the top.
    """
    mean = {name: statistics.fmean(full for full, _ in own) for name, own in losses.items()}
    names = sorted(losses, key=lambda name: (-mean[name], name))[::-1]
    for y, name in enumerate(names):
        colour = MGCE if is_mgce(name) else CE if name == "ce" else "#888888"
        style = {"fmt": "o", "color": colour, "markersize": 4}
        full, hollow = ([100 * pair[number] for pair in losses[name]] for number in (0, 1))
        axis.errorbar(statistics.fmean(hollow), y, fillstyle="none", **style)
        spread = statistics.stdev(full) if len(full) > 1 else None
        axis.errorbar(statistics.fmean(full), y, xerr=spread, fillstyle="full", **style)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.set(xlabel=f"test accuracy (%): {words}", ylim=(-0.7, len(names) - 0.3), title=literal(title))


def _style(name: str, number: int) -> dict[str, Any]:
    """Return the line style of a loss: bold blue for MGCE, black for cross-entropy, thin in other colours for others.

    `number` is the number of lines of the same kind that are drawn already.
    """
    if is_mgce(name):
        shades = ("#08306b", "#2171b5", "#56B4E9", "#9ecae1")
        return {"color": shades[number % 4], "linewidth": 2.2, "marker": "osDv^"[number % 5], "markersize": 5}
    if name == "ce":
        return {"color": CE, "linewidth": 1.8, "marker": "s", "linestyle": "--"}
    colours = ("#E69F00", "#D55E00", "#009E73", "#CC79A7", "#999999", "#8C564B", "#BCBD22", "#7F3C8D")
    return {"color": colours[number % 8], "linewidth": 1.1, "marker": "^v<>Dphx*"[number % 9], "markersize": 4}
