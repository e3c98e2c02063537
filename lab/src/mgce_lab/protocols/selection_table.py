"""Render the protocol "selection": losses whose epoch and hyperparameter are selected by noisy held-out labels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mgce_lab.engine.methods import Method
from mgce_lab.engine.png import figure, png, stamp
from mgce_lab.engine.result import Result
from mgce_lab.engine.significance import Tally, tallies
from mgce_lab.engine.store import Run
from mgce_lab.engine.summary import flat, percent, show
from mgce_lab.protocols.columns import filled, without_empty
from mgce_lab.protocols.noise_picture import Record, draw_dots, noise_name
from mgce_lab.protocols.noise_tables import KIND
from mgce_lab.protocols.settings import REDUCED, of_method

NAME = "selection"
TITLE = "Chosen by noisy labels: accuracy of each loss on few images (reduced)"
CAPTION = (
    "Percent right on test images; mean ± standard deviation over the seeds. Networks of the reduced protocol, to be "
    "compared with one another and nothing else. A fifth of the training images is held out, with labels as noisy as "
    "the others. They choose: for “stopped” the epoch; for “L1” the size of an L1 penalty on all weights and biases, "
    "for “trim” the share of the rows of every label to leave out, 0 among both, and for “mgce, beta” beta, where inf "
    "is cross-entropy. “Last” is the last epoch, for which they choose the value anew: “chosen” shows what, by seed, "
    "and “best value” the accuracy if the test images choose. ECE(h) is of the network that was stopped. Wins, ties "
    "and losses (w/t/l) are against all other losses of the cell with at least two seeds, stopped, by Welch's test "
    "with Holm's correction for all pairs of them, at 5 %."
)
Measures = dict[str, tuple[float, float] | None]
ByValue = dict[float, Record]  # the networks of a loss and seed by what is to be chosen


@dataclass(frozen=True)
class Choice:
    """The networks that are selected by accuracy on held-out images, for one loss and seed.

    The candidates differ in one value: the L1 penalty, the fraction to trim, or beta.

    Attributes:
        by_value: the candidates by this value.
        last: the network with the best held-out accuracy at the last epoch; `last_value` is its value.
        stopped: the network with the best held-out accuracy at any epoch; `stopped_value` is its value.
        best: the best test accuracy at the last epoch of all candidates.
    """

    by_value: ByValue
    last: Record
    last_value: float
    stopped: Record
    stopped_value: float
    best: float


def selection_table(runs: Sequence[Run]) -> Result | None:
    """Render a table with a row for each data set, noise and loss, and a figure; return None if there are no runs."""
    records = [
        {**record, **{name: run.specification.get(name, "") for name in ("dataset", "smoke", "l1")}}
        for run in runs
        if run.specification["kind"] == KIND and run.specification["protocol"] == NAME
        for record in run.records
    ]
    places = sorted({(record["dataset"], noise_name(record)) for record in records})
    found = {where: _by_loss([r for r in records if (r["dataset"], noise_name(r)) == where]) for where in places}
    tables = {where: table for where, table in found.items() if table}
    if not tables:
        return None
    cells, numbers = [], []
    for (dataset, noise), table in tables.items():
        scores = tallies({loss: [choice.stopped["accuracy"] for choice in own] for loss, own in table.items()})
        for loss, own in table.items():
            row, measures = {"dataset": dataset, "noise": noise, "loss": loss}, _measures(own)
            cells.append({**row, "seeds": str(len(own)), **_shown(own, measures, scores[loss])})
            values = {name: _joined(own, name) for name in ("last_value", "stopped_value")}
            measures |= _by_value(own)
            numbers.append({**row, "seeds": len(own), **values, **scores[loss]._asdict(), **flat(measures)})
    picture = _picture(tables, any(record["smoke"] for record in records))
    return Result(NAME, TITLE, CAPTION, without_empty(cells), filled(numbers), picture, words=3, parts=2)


def _by_loss(records: Sequence[Record]) -> dict[str, list[Choice]]:
    """Return for each loss the selected networks of each seed, the best loss first."""
    losses: dict[str, list[Record]] = {}
    for record in records:
        losses.setdefault(_untrimmed(record).label, []).append(record)
    rows = {name + suffix: own for name, some in losses.items() for suffix, own in _rows(some).items()}
    betas = _betas(losses)
    if len({beta for beta, _ in betas} - {math.inf}) > 1:
        rows["mgce, beta"] = betas
    table = {name: _choices(networks) for name, networks in rows.items()}
    return dict(
        sorted(((name, own) for name, own in table.items() if own), key=lambda item: (-_mean(item[1]), item[0]))
    )


def _betas(losses: Mapping[str, Sequence[Record]]) -> list[tuple[float, Record]]:
    """Return the networks of MGCE and cross-entropy with the usual penalty, as pairs of beta and network.

    The beta of cross-entropy is inf.
    """
    of_beta = {method.beta: own for own in losses.values() if (method := _untrimmed(own[0])).name in ("mgce", "ce")}
    return [(beta, record) for beta, own in of_beta.items() for _, record in _rows(own)[""]]


def _untrimmed(record: Record) -> Method:
    return Method(record["method"], float(record["beta"])).untrimmed


def _rows(records: Sequence[Record]) -> dict[str, list[tuple[float, Record]]]:
    """Return a loss's candidates as pairs of value and network, grouped by the hyperparameter to select.

    The keys are "" if only the epoch is selected, ", L1" for the size of the penalty, and ", trim" for the fraction to
    trim.
    """
    dataset = records[0]["dataset"]
    usual_size = of_method(REDUCED[dataset], dataset, _untrimmed(records[0]))["l1"]
    trimmed = [(record["trim"], record) for record in records if "trim" in record]
    sizes = [(record["l1"], record) for record in records if "trim" not in record]
    usual = [(size, record) for size, record in sizes if size == usual_size]
    rows = {"": usual}
    if len(sizes) > len(usual):
        rows[", L1"] = sizes
    if trimmed:
        rows[", trim"] = [(0.0, record) for _, record in usual] + trimmed
    return rows


def _choices(networks: Sequence[tuple[float, Record]]) -> list[Choice]:
    """Select a network for each seed for which all values were run."""
    values = {value for value, _ in networks}
    by_seed: dict[int, ByValue] = {}
    for value, record in networks:
        by_seed.setdefault(record["seed"], {})[value] = record
    return [_choice(by_value) for _, by_value in sorted(by_seed.items()) if by_value.keys() == values]


def _choice(by_value: ByValue) -> Choice:
    """Select by the held-out accuracy at the last and at the best epoch; at ties the smaller value is selected."""
    last = _first_best(by_value, lambda record: record["validation_accuracy_by_epoch"][-1])
    stopped = _first_best(by_value, lambda record: max(record["validation_accuracy_by_epoch"]))
    best = max(record["test_accuracy_by_epoch"][-1] for record in by_value.values())
    return Choice(by_value, by_value[last], last, by_value[stopped], stopped, best)


def _first_best(by_value: ByValue, noisy: Callable[[Record], float]) -> float:
    return max(sorted(by_value), key=lambda value: noisy(by_value[value]))


def _mean(choices: Sequence[Choice]) -> float:
    return statistics.fmean(choice.stopped["accuracy"] for choice in choices)


def _measures(choices: Sequence[Choice]) -> Measures:
    samples = {
        "stopped": [choice.stopped["accuracy"] for choice in choices],
        "last": [choice.last["test_accuracy_by_epoch"][-1] for choice in choices],
        "best": [choice.best for choice in choices],
        "ece_h": [choice.stopped["ece_h"] for choice in choices],
    }
    return {name: percent(sample) for name, sample in samples.items()}


def _by_value(choices: Sequence[Choice]) -> Measures:
    """Return the held-out and the test accuracy at the last epoch for each value that could be selected."""
    curves = {"noisy": "validation_accuracy_by_epoch", "last": "test_accuracy_by_epoch"}
    values = sorted(choices[0].by_value) if len(choices[0].by_value) > 1 else []
    return {
        f"{name}_{value:g}": percent([choice.by_value[value][curve][-1] for choice in choices])
        for value in values
        for name, curve in curves.items()
    }


def _joined(choices: Sequence[Choice], name: str) -> str:
    """Return the selected values of all seeds, separated by spaces."""
    return " ".join(f"{getattr(choice, name):g}" for choice in choices)


def _shown(choices: Sequence[Choice], measures: Measures, score: Tally) -> dict[str, str]:
    several = len(choices[0].by_value) > 1
    return {
        "stopped": show(measures["stopped"]),
        "last": show(measures["last"]),
        "chosen": _joined(choices, "last_value") if several else "",
        "best value": show(measures["best"]) if several else "",
        "ECE(h)": show(measures["ece_h"]),
        "w/t/l": "/".join(map(str, score)) if len(choices) > 1 else "",
    }


def _picture(tables: Mapping[tuple[str, str], Mapping[str, Sequence[Choice]]], miniature: bool) -> bytes:
    """Draw the accuracy of each loss at the selected and the last epoch; each data set and noise has a panel."""
    # The name of a loss takes .15 inches, and a title with the axis about an inch.
    chart, axes = figure(len(tables), 6.4, [1 + 0.15 * len(table) for table in tables.values()])
    for axis, (where, table) in zip(axes, tables.items(), strict=True):
        pairs = {
            loss: [(c.stopped["accuracy"], c.last["test_accuracy_by_epoch"][-1]) for c in own]
            for loss, own in table.items()
        }
        draw_dots(axis, pairs, f"{', '.join(where)} (reduced)", "stopped by noisy labels full, last epoch hollow")
    if miniature:
        stamp(chart)
    return png(chart)
