"""The table and the picture of a protocol on images: accuracy of each loss against the noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from mgce.experiments.benchmark.published import published
from mgce.experiments.methods import Method
from mgce.experiments.paper.agreement import show
from mgce.experiments.paper.comparison import percent
from mgce.experiments.paper.result import Result
from mgce.experiments.significance import tallies
from mgce.experiments.store import Run
from mgce.pages.png import figure, png, stamp

KIND = "losses"
TITLES = {
    "p1": "P1: accuracy of each loss by noise",
    "p2": "P2: accuracy of each loss on human labels",
    "reduced": "Reduced protocol: accuracy of each loss by noise",
}
CAPTION = (
    "Percent; mean ± standard deviation over the seeds. “Last” is the last epoch, “best” the epoch of best test "
    "accuracy, which nobody can choose who has no clean labels. Wins, ties and losses are against all other "
    "losses of the cell, at the last epoch, by Welch's test with Holm's correction for all pairs, at 5 %; one "
    "seed decides nothing."
)
REDUCED_CAPTION = (
    " REDUCED: few images, small batches and a small network, in which cross-entropy memorises wrong labels on a "
    "processor in a minute; to be compared with one another, and not with published numbers."
)


def noise_tables(runs: Sequence[Run]) -> list[Result]:
    """Give a table with a picture for each protocol on images of which there are runs."""
    records = [
        {**record, **{name: run.specification.get(name, "") for name in ("protocol", "dataset", "smoke")}}
        for run in runs
        if run.specification["kind"] == KIND
        for record in run.records
    ]
    protocols = [name for name in TITLES if any(record["protocol"] == name for record in records)]
    return [_table(name, [record for record in records if record["protocol"] == name]) for name in protocols]


def noise_name(record: dict[str, Any]) -> str:
    """Name the noise of a record: `symmetric 0.4`, or the human labels."""
    return record["labels"] or f"{record['noise_type']} {record['noise']:g}"


def label(record: dict[str, Any]) -> str:
    """Name the loss of a record."""
    name = Method(record["method"], float(record["beta"])).label
    if "cap_from" in record:
        return f"{name}, epoch {record['cap_from']}"
    return name if record["beta_start"] is None else f"{name} from {record['beta_start']:g}"


def _table(protocol: str, records: list[dict[str, Any]]) -> Result:
    cells, numbers = [], []
    for dataset, noise in sorted({(record["dataset"], noise_name(record)) for record in records}):
        samples: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            if (record["dataset"], noise_name(record)) == (dataset, noise):
                samples.setdefault(label(record), []).append(record)
        scores = tallies({name: [r["accuracy"] for r in own] for name, own in samples.items()})
        for name, own in sorted(samples.items(), key=lambda item: -statistics.fmean(r["accuracy"] for r in item[1])):
            last, best = (percent([r[key] for r in own]) for key in ("accuracy", "best_accuracy"))
            known = published(protocol, dataset, noise, own[0]["method"])
            row = {"dataset": dataset, "noise": noise, "loss": name, "seeds": len(own)}
            cells.append(
                {
                    **{key: str(value) for key, value in row.items()},
                    **{"last": show(last), "best": show(best), "published": "" if known is None else f"{known:.2f}"},
                    **{"ECE(h)": show(percent([r["ece_h"] for r in own])), "w/t/l": "/".join(map(str, scores[name]))},
                }
            )
            numbers.append({**row, "last": last, "best": best, "published": known, **scores[name]._asdict()})
    caption = CAPTION + (REDUCED_CAPTION if protocol == "reduced" else "")
    flat = [_flat(row) for row in numbers]
    return Result(protocol, TITLES[protocol], caption, cells, flat, _picture(protocol, records), words=3)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in row.items() if key not in ("last", "best")}
    for key in ("last", "best"):
        flat[key], flat[f"{key}_std"] = row[key] or (None, None)
    return flat


def _picture(protocol: str, records: list[dict[str, Any]]) -> bytes | None:
    """Draw accuracy against the rate of symmetric noise, a panel for each data set; None for human labels alone."""
    drawn = [record for record in records if record["noise_type"] == "symmetric"]
    if not drawn:
        return None
    datasets = sorted({record["dataset"] for record in drawn})
    names = max(len({label(record) for record in drawn if record["dataset"] == dataset}) for dataset in datasets)
    chart, axes = figure(len(datasets), 7.0, max(4.8, 0.16 * names))  # a line of the legend is .15 inches high
    for dataset, axis in zip(datasets, axes, strict=True):
        points: dict[str, dict[float, list[float]]] = {}
        for record in drawn:
            if record["dataset"] == dataset:
                points.setdefault(label(record), {}).setdefault(record["noise"], []).append(100 * record["accuracy"])
        for number, (name, by_rate) in enumerate(sorted(points.items(), key=lambda item: _order(item[1]))):
            rates = sorted(by_rate)
            means = [statistics.fmean(by_rate[rate]) for rate in rates]
            axis.plot(rates, means, label=name, **style(name, number))
        suffix = " (reduced)" if protocol == "reduced" else ""
        axis.set(xlabel="rate of symmetric noise", ylabel="test accuracy, last epoch (%)", title=dataset + suffix)
        axis.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    if any(record["smoke"] for record in drawn):
        stamp(chart)
    return png(chart)


def style(name: str, number: int) -> dict[str, Any]:
    """Give the line of a loss: MGCE bold in blue, cross-entropy black, the others in colours of their own."""
    if name.startswith("mgce"):
        shades = ("#08306b", "#2171b5", "#0072B2", "#6baed6", "#56B4E9")
        return {"color": shades[number % 5], "linewidth": 2.2, "marker": "o"}
    if name == "ce":
        return {"color": "black", "linewidth": 1.8, "marker": "s", "linestyle": "--"}
    colours = ("#E69F00", "#D55E00", "#009E73", "#CC79A7", "#999999", "#8C564B", "#BCBD22", "#7F3C8D")
    return {"color": colours[number % 8], "linewidth": 1.1, "marker": "^v<>Dphx*"[number % 9], "markersize": 4}


def _order(by_rate: dict[float, list[float]]) -> float:
    return -statistics.fmean(by_rate[max(by_rate)]) if by_rate else math.inf
