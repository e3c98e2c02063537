"""Render the protocol "rates": the accuracy of each loss on tables by learning rate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from mgce_lab.engine.methods import Method, is_mgce
from mgce_lab.engine.png import figure, literal, png, stamp
from mgce_lab.engine.result import Result
from mgce_lab.engine.significance import tallies
from mgce_lab.engine.store import Run
from mgce_lab.engine.summary import flat, percent, show
from mgce_lab.protocols.columns import filled

KIND = "rates"
TITLE = "Learning rates: accuracy of each loss on tables with 40 % symmetric noise"
CAPTION = (
    "Percent; mean ± standard deviation over the seeds, at the epoch of best accuracy on the noisy validation rows. "
    "“Chosen” is the learning rate of best mean validation accuracy, of equals the smaller; then come, there, that "
    "accuracy itself, the one on test rows, that of the last epoch, and that of the best test epoch, which nobody can "
    "choose. Wins, ties and losses are against all other losses at their chosen rates, by Welch's test with Holm's "
    "correction for all pairs, at 5 %. The hyperparameters are those published for CIFAR-10, as for tables there are "
    "none; MGCE has its beta behind its name. “ce+forward”, “mgce+forward”, “ce+trim” and “mgce+trim” are told the "
    "noise; “trim 0.2” is one share of the rows of every label instead, and “L1 0.001” an L1 penalty of that size on "
    "all weights and biases, where the others have the paper's 0.00001, both at one learning rate. Seconds are of "
    "training all seeds' networks at the chosen rate, beside other work on the machine."
)
NETWORKS = " The networks are smaller than those of the paper's Table 3: 256 hidden units, 60 epochs."
Point = dict[str, Any]


def rate_table(runs: Sequence[Run]) -> Result | None:
    """Render a table with a row for each data set and loss, and a figure; return None if there are no runs."""
    records = [
        {**record, "dataset": run.specification["dataset"], "seconds": run.machine.get("seconds")}
        for run in runs
        if run.specification["kind"] == KIND
        for record in run.records
    ]
    if not records:
        return None
    cells, numbers, points = [], [], []
    for dataset in sorted({record["dataset"] for record in records}):
        own = [_point(dataset, *item) for item in _by_loss(records, dataset).items()]
        scores = tallies({point["loss"]: point["at_chosen"] for point in own})
        for point in sorted(own, key=lambda point: (-statistics.fmean(point["at_chosen"]), point["loss"])):
            cells.append(_cells(point) | {"w/t/l": "/".join(map(str, scores[point["loss"]]))})
            numbers.append(_numbers(point) | scores[point["loss"]]._asdict())
            points.append(point)
    miniature = any(run.specification.get("smoke") for run in runs)
    return Result(
        "rates",
        TITLE,
        CAPTION + ("" if miniature else NETWORKS),
        filled(cells),
        filled(numbers),
        _picture(points, miniature),
        words=2,
        parts=1,
    )


def _by_loss(records: list[dict[str, Any]], dataset: str) -> dict[str, dict[float, list[dict[str, Any]]]]:
    """Group the records of a data set by loss and learning rate."""
    table: dict[str, dict[float, list[dict[str, Any]]]] = {}
    for record in records:
        if record["dataset"] == dataset:
            name = Method(record["method"], float(record["beta"])).label
            name += f", trim {record['trim']:g}" if "trim" in record else ""
            name += f", L1 {record['penalty']:g}" if "penalty" in record else ""
            table.setdefault(name, {}).setdefault(record["lr"], []).append(record)
    return table


def _point(dataset: str, name: str, by_rate: dict[float, list[dict[str, Any]]]) -> Point:
    """Select the learning rate of a loss by validation accuracy (the smaller at ties); return what the table shows."""
    chosen = max(sorted(by_rate), key=lambda lr: statistics.fmean(r["validation_accuracy"] for r in by_rate[lr]))
    records = sorted(by_rate[chosen], key=lambda record: record["seed"])
    return {
        "dataset": dataset,
        "loss": name,
        "by_rate": {lr: [r["accuracy"] for r in by_rate[lr]] for lr in sorted(by_rate)},
        "last_by_rate": {lr: [r["test_accuracy_by_epoch"][-1] for r in by_rate[lr]] for lr in sorted(by_rate)},
        "chosen": chosen,
        "validation": [r["validation_accuracy"] for r in records],
        "at_chosen": [r["accuracy"] for r in records],
        "last": [r["test_accuracy_by_epoch"][-1] for r in records],
        "best": [max(r["test_accuracy_by_epoch"]) for r in records],
        "ece_h": [r["ece_h"] for r in records],
        "seconds": records[0]["seconds"],
    }


def _cells(point: Point) -> dict[str, str]:
    rates = {f"lr {lr:g}": show(percent(values)) for lr, values in point["by_rate"].items()}
    columns = {"valid.": "validation", "accuracy": "at_chosen", "last": "last", "best": "best", "ECE(h)": "ece_h"}
    shown = {key: show(percent(point[name])) for key, name in columns.items()}
    words = {"dataset": point["dataset"], "loss": point["loss"]}
    return {**words, **rates, "chosen": f"{point['chosen']:g}", **shown, "seconds": f"{point['seconds']:.0f}"}


def _numbers(point: Point) -> dict[str, Any]:
    row = {name: point[name] for name in ("dataset", "loss", "chosen", "seconds")}
    values = {f"lr_{lr:g}": accuracies for lr, accuracies in point["by_rate"].items()}
    values |= {f"last_lr_{lr:g}": accuracies for lr, accuracies in point["last_by_rate"].items()}
    values |= {key: point[key] for key in ("validation", "at_chosen", "last", "best", "ece_h")}
    return row | flat({key: percent(sample) for key, sample in values.items()})


def _picture(points: list[Point], miniature: bool) -> bytes:
    """Draw the accuracy of each loss at each learning rate, with a panel for each data set; mark smoke runs."""
    datasets = list(dict.fromkeys(point["dataset"] for point in points))
    rows = max(sum(point["dataset"] == dataset for point in points) for dataset in datasets)
    chart, axes = figure(len(datasets), 6.0, 1.2 + 0.22 * (rows + 4))
    colours = {0.03: "#CC79A7", 0.01: "#D55E00", 0.003: "#009E73", 0.001: "#0072B2"}
    for dataset, axis in zip(datasets, axes, strict=True):
        own = [point for point in points if point["dataset"] == dataset][::-1]
        for lr in sorted({lr for point in own for lr in point["by_rate"]}):
            drawn = [(row, percent(point["by_rate"][lr])) for row, point in enumerate(own) if lr in point["by_rate"]]
            heights, pairs = [row for row, _ in drawn], [pair for _, pair in drawn if pair is not None]
            style = {
                "fmt": "o",
                "markersize": 4,
                "capsize": 2,
                "color": colours.get(lr),
                "label": f"learning rate {lr:g}",
            }
            axis.errorbar([mean for mean, _ in pairs], heights, xerr=[std for _, std in pairs], **style)
        axis.set_yticks(range(len(own)), [point["loss"] for point in own], fontsize=8)
        for tick in axis.get_yticklabels():
            tick.set_fontweight("bold" if is_mgce(tick.get_text()) else "normal")
        # Four rows below the last are left for the legend.
        axis.set(
            xlabel="test accuracy (%)", ylim=(-4.5, len(own) - 0.3), title=f"{literal(dataset)}, 40 % symmetric noise"
        )
        axis.legend(frameon=False, fontsize=8, loc="lower right")
    if miniature:
        stamp(chart)
    return png(chart)
