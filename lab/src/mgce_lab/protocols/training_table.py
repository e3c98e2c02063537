"""Render the protocol "training": the accuracy of each loss on images by settings of training."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from mgce_lab.engine.png import figure, literal, png, stamp
from mgce_lab.engine.result import Result
from mgce_lab.engine.store import Run
from mgce_lab.engine.summary import flat, percent, show
from mgce_lab.protocols.noise_picture import CE, MGCE, Record, label, noise_name
from mgce_lab.protocols.noise_tables import KIND
from mgce_lab.protocols.settings import REDUCED

NAME = "training"
TITLE = "Settings of training: accuracy of each loss on few images (reduced)"
CAPTION = (
    "Percent right at the last epoch; mean ± standard deviation over the seeds. Networks of the reduced protocol, to "
    "be compared with one another and nothing else: “reduced” has its learning rate, weight decay and L1 penalty on "
    "all weights and biases, every other column one of them changed. Losses are ordered by their best column. Lines "
    "that leave the picture at the bottom are of networks that learn little or nothing."
)
# Settings by name, in the order of the columns, and how these call them.
SETTINGS = {"lr": "lr", "weight_decay": "decay", "l1": "L1"}
AXES = {"lr": "learning rate", "weight_decay": "weight decay", "l1": "L1 penalty"}
BELOW = 7.0  # points below the lowest unchanged run that pictures show: the losses differ by less
COLOURS = {"ce": CE, "mgce": MGCE, "gce": "#E69F00", "sce": "#009E73", "nce+agce": "#CC79A7"}
ByLoss = dict[str, dict[str, list[Record]]]  # records by loss and column


def training_table(runs: Sequence[Run]) -> Result | None:
    """Render a table with a row for each data set, noise and loss, and a figure; return None if there are no runs."""
    records = [
        {**record, **{name: run.specification.get(name, "") for name in ("dataset", "smoke", *SETTINGS)}}
        for run in runs
        if run.specification["kind"] == KIND and run.specification["protocol"] == NAME
        for record in run.records
    ]
    if not records:
        return None
    columns = sorted({_place(record) for record in records})
    cells, numbers, panels = [], [], {}
    for where in sorted({(record["dataset"], noise_name(record)) for record in records}):
        table = _by_loss([record for record in records if (record["dataset"], noise_name(record)) == where])
        panels[", ".join(where)] = table
        place = dict(zip(("dataset", "noise"), where, strict=True))
        for loss, by_column in table.items():
            last = {name: [record["accuracy"] for record in by_column.get(name, [])] for _, _, name in columns}
            seeds = str(max(map(len, last.values())))
            shown = {name: show(percent(values)) for name, values in last.items()}
            cells.append({**place, "loss": loss, "seeds": seeds, **shown})
            numbers += [_numbers({**place, "loss": loss, "setting": name}, own) for name, own in by_column.items()]
    image = _picture(panels, any(record["smoke"] for record in records))
    return Result(NAME, TITLE, CAPTION, cells, numbers, image, words=3, parts=2)


def _by_loss(records: Sequence[Record]) -> ByLoss:
    """Group the records of a data set and noise by loss, the most accurate first, and by column of the table."""
    table: ByLoss = {}
    for record in sorted(records, key=lambda record: (_place(record), record["seed"])):
        table.setdefault(label(record), {}).setdefault(_place(record)[-1], []).append(record)
    best = {loss: max(map(_accuracy, by_column.values())) for loss, by_column in table.items()}
    return {loss: table[loss] for loss in sorted(table, key=lambda loss: (-best[loss], loss))}


def _place(record: Record) -> tuple[int, float, str]:
    """Return the sort key and the name of a record's column, which says which setting was changed to what value."""
    for number, (setting, word) in enumerate(SETTINGS.items(), 1):
        if record[setting] != REDUCED[record["dataset"]][setting]:
            return number, record[setting], f"{word} {record[setting]:g}"
    return 0, 0.0, "reduced"


def _accuracy(records: Sequence[Record], which: str = "accuracy") -> float:
    return 100 * statistics.fmean(record[which] for record in records)


def _numbers(words: dict[str, str], records: Sequence[Record]) -> dict[str, Any]:
    row: dict[str, Any] = {**words, **{setting: records[0][setting] for setting in SETTINGS}, "seeds": len(records)}
    measures = {"last": "accuracy", "best": "best_accuracy", "ece_h": "ece_h"}
    return row | flat({key: percent([record[name] for record in records]) for key, name in measures.items()})


def _picture(tables: dict[str, ByLoss], miniature: bool) -> bytes | None:
    """Draw the accuracy of each loss at the last and the best epoch against each changed setting.

    Each data set has a panel for each setting. Return the image as PNG, or None if no setting was changed. If
    `miniature`, the figure is marked as one of runs on small data.
    """
    changed = {where: _changed(table) for where, table in tables.items()}
    panels = sum(map(len, changed.values()))
    if not panels:
        return None
    chart, axes = figure(panels, 3.4, 3.4, columns=len(SETTINGS))
    rest = iter(axes)
    for where, table in tables.items():
        axis = None
        for setting in changed[where]:
            axis = next(rest)
            _draw(axis, table, setting)
            axis.set_title(f"{literal(where)} (reduced)", fontsize=10)  # the longest is as wide as a panel
            axis.set(xlabel=AXES[setting], ylabel="test accuracy (%)", ylim=_limits(table))
        if axis is not None:
            axis.legend(frameon=False, fontsize=7, title="full: last epoch\ndashed: best", title_fontsize=7)
    if miniature:
        stamp(chart)
    return png(chart)


def _changed(table: ByLoss) -> list[str]:
    """Return the names of the settings that have more than one value in the records."""
    records = [own[0] for by_column in table.values() for own in by_column.values()]
    return [setting for setting in SETTINGS if len({record[setting] for record in records}) > 1]


def _limits(table: ByLoss) -> tuple[float, float]:
    """Return the range of the accuracy axis; networks far below the runs with unchanged settings are outside."""
    every = [own for by_column in table.values() for own in by_column.values()]
    unchanged = [by_column["reduced"] for by_column in table.values() if "reduced" in by_column] or every
    return min(map(_accuracy, unchanged)) - BELOW, max(_accuracy(own, "best_accuracy") for own in every) + 1


def _draw(axis: Any, table: ByLoss, setting: str) -> None:
    """Draw the losses against the values of a setting, at equal distances, since a value may be 0."""
    of_setting = {loss: _by_value(by_column, setting) for loss, by_column in table.items()}
    values = sorted({value for by_value in of_setting.values() for value in by_value})
    for loss, by_value in of_setting.items():
        places = [values.index(value) for value in by_value]
        style = {"color": COLOURS.get(loss.split(" ")[0]), "marker": "o", "markersize": 4}
        axis.plot(places, [_accuracy(own) for own in by_value.values()], label=loss, **style)
        best = [_accuracy(own, "best_accuracy") for own in by_value.values()]
        axis.plot(places, best, **style, linestyle="--", linewidth=0.8, fillstyle="none")
    axis.set_xticks(range(len(values)), [f"{value:g}" for value in values])


def _by_value(by_column: dict[str, list[Record]], setting: str) -> dict[float, list[Record]]:
    """Return the records in which only this setting or none is changed, by value of the setting in rising order."""
    shown = [own for name, own in by_column.items() if name.split(" ")[0] in ("reduced", SETTINGS[setting])]
    return {own[0][setting]: own for own in sorted(shown, key=lambda own: own[0][setting])}
