"""The page of the suite from its records: `python -m mgce_lab.suite.page` writes docs/lab/suite.md anew.

The page has what was judged and what was chosen. With `--all` the command prints every table of every list instead.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mgce.desk.tables.report import OFF
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table, write_between
from mgce_lab.engine.picture import AMBER, BLUE, GREEN, RED, Line, lines
from mgce_lab.suite import reviewer, variants
from mgce_lab.suite.choice import RESULTS
from mgce_lab.suite.opponents import OURS
from mgce_lab.suite.records import EDGES, VOTE

PAGE, BEGIN, END = Path("docs/lab/suite.md"), "<!-- suite -->\n", "<!-- /suite -->\n"
SHORT, PICTURE = Path("docs/tables.md"), Path("docs/images/tables-accuracy.svg")
JUDGED = ("first", "second")  # the locked lists, each read once
MODELS = {
    OURS: "`mgce fit`",
    VOTE: "vote of forest and SVM",
    "svm": "SVM",
    "forest": "random forest",
    "logistic": "logistic regression",
}
MEASURES = {"accuracy": ".1f", "balanced": ".1f", "log_loss": ".3f", "ece": ".1f"}
DRAWS = 10_000  # of tables, for an interval: its ends then move by less than the digits shown
WORST = 5  # tables that are named
SIZES = (300, 1000, 5000)  # training rows of a list of tables
BESIDE = (("models", "accuracy"), ("precision", None))  # of a cell, with the measure
EVERY_SAYS = (
    "With 300 rows of locked tables, `mgce fit` has the highest log-loss of the five models. On the list with 5,000 "
    "rows, all wrong labels are near the boundary of a linear model."
)
SHARES = [
    "cells in which the range from 0 holds the share of wrong labels",
    "mean width of this range",
    "labels called more likely wrong than right, where all are right",
    f"estimates of the share that are off by {OFF:.0%} of the rows at most",
]
SAID = "The share of labels that are wrong, by the stated probability that they are:"
BEHIND = "The tables on which the best other model is furthest ahead of `mgce fit`, with wrong labels:"
WHY = (
    "The columns “right labels, %” have the accuracy of the best model trained on right labels. If it is low, classes "
    "overlap, and `mgce fit` corrects labels in the overlap as if they were wrong."
)
LEAD = "The lead of `mgce fit` in the cells with wrong labels, a mean over tables with its 95 % interval:"
Record = dict[str, Any]
Cell = Callable[[Record], dict[str, float]]  # the figures of a record, by name


def read(which: str, size: int) -> list[Record]:
    """Return the records of a list of tables; none if there is no file."""
    path = RESULTS / f"{which}-{size}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def noisy(records: Sequence[Record]) -> list[Record]:
    """Return the cells with wrong labels."""
    return [record for record in records if record["kind"] != "right"]


def by_table(records: Sequence[Record], value: Callable[[Record], float]) -> dict[str, float]:
    """Return the mean of a value over the cells of each table."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record["table"], []).append(value(record))
    return {name: float(np.mean(values)) for name, values in found.items()}


def interval(differences: Sequence[float]) -> str:
    """Return a mean over tables with its 95 % interval, by drawing tables anew."""
    drawn = np.random.default_rng(0).choice(differences, (DRAWS, len(differences))).mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{np.mean(differences):+.1f} ({low:+.1f} to {high:+.1f})"


def models(records: Sequence[Record]) -> str:
    """Return the table of models: means over the cells with wrong labels, ranks, and processor time."""
    cells = noisy(records)
    ranks = {name: _ranks(cells, name) for name in ("accuracy", "balanced", "log_loss")}
    rows = []
    for name, text in MODELS.items():
        means = [f"{np.mean([cell['models'][name][m] for cell in cells]):{form}}" for m, form in MEASURES.items()]
        seconds = [cell["models"][name]["seconds"] for cell in cells if "seconds" in cell["models"][name]]
        time = f"{np.mean(seconds):.1f}" if seconds else ""
        rows.append([text, *means, *(f"{rank[name]:.2f}" for rank in ranks.values()), time])
    heads = ["accuracy", "balanced", "log-loss", "ECE", "rank", "rank, balanced", "rank, log-loss", "CPU s"]
    return table([f"{len(cells)} cells of {len({cell['table'] for cell in cells})} tables", *heads], rows)


def _ranks(cells: Sequence[Record], measure: str) -> dict[str, float]:
    """Return the mean rank of each model; equal ones share a rank."""
    values = np.array([[cell["models"][name][measure] for name in MODELS] for cell in cells])
    values = values if measure == "log_loss" else -values
    below = (values[:, :, None] > values[:, None, :]).sum(2)
    tied = (values[:, :, None] == values[:, None, :]).sum(2) - 1
    return dict(zip(MODELS, (1 + below + tied / 2).mean(0).tolist(), strict=True))


def by_kind(records: Sequence[Record], cell: Cell) -> dict[str, dict[str, float]]:
    """Return the mean of each value of a cell, by kind of noise."""
    found: dict[str, list[dict[str, float]]] = {}
    for record in records:
        kind = f"{record['kind']} {record['rate']:.0%}" if record["rate"] else "right labels"
        found.setdefault(kind, []).append(cell(record))
    return {kind: {n: float(np.mean([c[n] for c in cells])) for n in cells[0]} for kind, cells in found.items()}


def kinds(records: Sequence[Record], cell: Cell, names: dict[str, str]) -> str:
    """Return a table of means by kind of noise."""
    found = by_kind(records, cell)
    rows = [[text, *with_mean([means[name] for means in found.values()])] for name, text in names.items()]
    return table(["", *found, "mean"], rows)


def with_mean(values: Sequence[float]) -> list[str]:
    """Return the cells of a row, and their mean as the last one."""
    return [f"{value:.1f}" for value in [*values, np.mean(values)]]


def beside_best(lists: dict[str, list[Record]], cell: Cell) -> str:
    """Return, by kind of noise, the means of `mgce fit` in each list, and in each column the best mean of another."""
    rows, heads = [], []
    for which, records in lists.items():
        found = by_kind(records, cell)
        best = [max(mean for name, mean in means.items() if name != OURS) for means in found.values()]
        rows.append([f"{which}: `mgce fit`", *with_mean([means[OURS] for means in found.values()])])
        rows.append([f"{which}: best other", *with_mean(best)])
        heads = ["", *found, "mean"]
    return table(heads, rows)


def accuracies(record: Record) -> dict[str, float]:
    """Return the accuracy of each model in a cell."""
    return {name: found["accuracy"] for name, found in record["models"].items()}


def differences(records: Sequence[Record]) -> str:
    """Return by how much the model of `mgce fit` is ahead of each other, over the cells with wrong labels."""
    cells, rows = noisy(records), []
    for name, text in MODELS.items():
        if name != OURS:
            parts = []
            for measure, sign in (("accuracy", 1), ("balanced", 1), ("log_loss", -100)):
                parts.append(interval(list(_ahead(cells, name, measure, sign).values())))
            rows.append([text, *parts])
    return table(["ahead of", "accuracy, points", "balanced, points", "log-loss, hundredths"], rows)


def precision(records: Sequence[Record], scores: str = "") -> str:
    """Return the average precision of suspects by kind of noise; of rivals those whose names end in `scores`."""
    cells = noisy(records)
    names = {name: name for name in cells[0]["precision"] if name == OURS or name.endswith(scores)}
    names[OURS] = "`mgce fit`"
    return kinds(cells, lambda record: record["precision"], names)


def stated(lists: dict[str, list[Record]]) -> str:
    """Return, for labels grouped by their stated probability to be wrong, how many are wrong, by list."""
    rows = []
    for which, records in lists.items():
        counts = np.sum([cell["stated"] for cell in records], axis=0)
        rows.append([which, *(f"{100 * wrong / n:.0f} % of {n:,}" if n else "none" for n, wrong in counts)])
    ends = [f"{100 * low:g} to {min(100, 100 * high):g} %" for low, high in itertools.pairwise(EDGES)]
    return table(["said", *ends], rows)


def worst(records: Sequence[Record]) -> str:
    """Return the tables on which the model is furthest behind the best other one, by accuracy and by precision."""
    cells = noisy(records)
    others = [name for name in MODELS if name != OURS]
    behind = {
        name: by_table(cells, lambda r: r["models"][name]["accuracy"] - r["models"][OURS]["accuracy"])  # noqa: B023
        for name in others
    }
    gaps = {one: max(behind[name][one] for name in others) for one in behind[others[0]]}
    scores = [name for name in cells[0]["precision"] if name != OURS]
    found = {name: by_table(cells, lambda r: r["precision"][name] - r["precision"][OURS]) for name in scores}  # noqa: B023
    losses = {one: max(found[name][one] for name in scores) for one in gaps}
    right = [record for record in records if record["kind"] == "right"]
    can = by_table(right, lambda r: max(r["models"][name]["accuracy"] for name in MODELS))
    ordered = (sorted(found.items(), key=lambda item: -item[1])[:WORST] for found in (gaps, losses))
    rows = [
        [cell for name, gap in pair for cell in (name, f"{gap:+.1f}", f"{can[name]:.1f}" if can else "")]
        for pair in zip(*ordered, strict=True)
    ]
    heads = ("best other, points", "right labels, %")
    return table(["accuracy", *heads, "precision", *heads], rows)


def shares(lists: dict[str, list[Record]]) -> str:
    """Return a table of the stated ranges of the share of wrong labels, and how often they hold, by list."""
    rows = []
    for which, records in lists.items():
        right = [r for r in records if r["kind"] == "right"]
        wide = np.mean([100 * r["share"]["upper"] for r in records])
        issues = np.mean([100 * r["share"]["issues"] / r["rows"] for r in right])
        held = sum(r["share"]["wrong"] / r["rows"] <= r["share"]["upper"] for r in records)
        off = [abs(r["share"]["estimate"] - r["share"]["wrong"]) / r["rows"] for r in records]
        close = f"{np.mean(np.array(off) <= OFF):.0%}"
        rows.append([which, f"{held} of {len(records)}", f"{wide:.0f} points", f"{issues:.1f} %", close])
    return table(["", *SHARES], rows)


def left(records: Sequence[Record]) -> list[str]:
    """Return how many wrong labels one review leaves, and how many are expected."""
    names = {"wrong": "wrong", "left": "left by a review of what is asked for", "told": "expected to be left"}
    found = kinds(records, lambda r: {name: 100 * r["share"][name] / r["rows"] for name in names}, names)
    return [
        "Wrong labels in percent of the rows, before and after one review of the labels more likely wrong than right:",
        found,
    ]


def _title(which: str, size: int) -> str:
    name = "Choosing tables" if which == "choosing" else f"{which.capitalize()} locked list"
    return f"## {name}, {size:,} rows"


def section(which: str, size: int, scores: str = "") -> str:
    """Return all tables of a list of tables; `scores` is the end of the names of the rankings to show."""
    records = read(which, size)
    if not records:
        return ""
    parts = [
        _title(which, size),
        models(records),
        "Accuracy by kind of noise:",
        kinds(records, accuracies, MODELS),
        LEAD,
        differences(records),
        "Average precision of suspects:",
        precision(records, scores),
        SAID,
        stated({"wrong": records}),
        shares({"": records}),
        *left(records),
        BEHIND,
        worst(records),
    ]
    return "\n\n".join(parts) + "\n"


def reviews() -> str:
    """Return the tables of the simulated reviewer: rows asked for, and tables on which all labels are right."""
    records = Lines(reviewer.FILE).read()
    return "\n\n".join(
        [
            "## A reviewer who knows every right label",
            "The reviewer mends each label that is called more likely wrong than right, and fits again until there is "
            "none. Means over some choosing tables of 300 rows, in percent of the rows:",
            reviewer.render(records),
            "Where all labels are right, the most is asked for on these tables. The last columns are stated "
            "probabilities:",
            reviewer.hardest(records),
        ]
    )


def chosen() -> str:
    """Return what other values of each constant do on the choosing tables."""
    return "\n\n".join(
        [
            "## What was chosen",
            "Percentages say how many random halves of the choosing tables would choose the value. The last column "
            "judges this choice on the other half, in points.",
            variants.render(_tried()),
            "The last four were measured on some tables of 300 rows with symmetric noise only.",
        ]
    )


def chosen_in_short() -> str:
    """Return how much the best other value of a constant would gain on the choosing tables."""
    gains = [tried.gain for tried in variants.tried(_tried())]
    return (
        f"## What was chosen\n\n{len(gains)} constants were chosen on the choosing tables. Another value of a constant "
        f"would gain {max(gains):.1f} points at most, as a mean over the tables on which the value was tried. "
        "`python -m mgce_lab.suite.page --all` prints what was tried."
    )


def _tried() -> dict[str, variants.Scores]:
    return dict(json.loads(variants.FILE.read_text()))


def brief(which: str, size: int) -> str:
    """Return one table of the models on a list of tables; "" if the list was not run with this number of rows."""
    records = read(which, size)
    if not records:
        return ""
    cells, rows = noisy(records), []
    rank = _ranks(cells, "accuracy")
    for name, text in MODELS.items():
        means = [f"{np.mean([cell['models'][name][m] for cell in cells]):{form}}" for m, form in MEASURES.items()]
        lead = "" if name == OURS else interval(list(_ahead(cells, name, "accuracy").values()))
        rows.append([text, *means, f"{rank[name]:.2f}", lead])
    heads = ["accuracy", "balanced", "log-loss", "ECE", "rank", "lead of `mgce fit`, points (95 %)"]
    said = f"{len(cells)} cells of {len({cell['table'] for cell in cells})} tables"
    return "\n\n".join([_title(which, size), table([said, *heads], rows)]) + "\n"


def _ahead(cells: Sequence[Record], name: str, measure: str, sign: float = 1) -> dict[str, float]:
    """Return by how much ours is ahead of another model, by table."""
    return by_table(cells, lambda r: sign * (r["models"][OURS][measure] - r["models"][name][measure]))


def in_short() -> str:
    """Return one table of all lists, a row for each number of training rows."""
    rows = []
    for which in (*JUDGED, "choosing"):
        for size in SIZES:
            cells = noisy(read(which, size))
            if cells:
                accuracy, precise = (_beside([c[part] for c in cells], measure) for part, measure in BESIDE)
                n = len({cell["table"] for cell in cells})
                rows.append([f"{which}, {size:,} rows", str(n), str(len(cells)), *accuracy, *precise])
    heads = ["list", "tables", "cells", "accuracy, `mgce fit`", "best other", "precision, `mgce fit`", "best other"]
    return "\n\n".join(["## Every list", EVERY_SAYS, table(heads, rows)]) + "\n"


def _beside(cells: Sequence[dict[str, Any]], measure: str | None) -> list[str]:
    """Return the mean of `mgce fit` and the best mean of another model, as text."""
    means = {n: float(np.mean([c[n][measure] if measure else c[n] for c in cells])) for n in cells[0]}
    return [f"{means[OURS]:.1f}", f"{max(mean for name, mean in means.items() if name != OURS):.1f}"]


def locked() -> str:
    """Return what the locked lists of 1,000 rows say by kind of noise, and of labels and their shares."""
    lists = {which: read(which, 1000) for which in JUDGED}
    labels = {which: noisy(records) for which, records in lists.items()}
    both = [record for records in lists.values() for record in records]
    parts = [
        "## Both locked lists, 1,000 rows",
        "Accuracy by kind of noise:",
        beside_best(lists, accuracies),
        "Average precision of suspects, beside the margins of forest, SVM and logistic regression:",
        beside_best(labels, lambda r: {n: p for n, p in r["precision"].items() if n == OURS or n.endswith("margin")}),
        SAID,
        stated(lists),
        shares(lists),
        *left(both),
        BEHIND,
        worst(both),
        WHY,
    ]
    return "\n\n".join(parts) + "\n"


def whole() -> str:
    """Return all that the page has from records."""
    judged_on = [brief(which, 1000) for which in JUDGED]
    return "\n" + "\n".join([*judged_on, locked(), in_short(), chosen_in_short() + "\n"]) + "\n"


def every() -> str:
    """Return every table of every list, of the constants and of the reviewer."""
    parts = [section(which, size) for which in (*JUDGED, "choosing") for size in SIZES]
    return "\n".join(filter(None, [*parts, chosen(), reviews()]))


def is_first(measure: str) -> bool:
    """Return whether `mgce fit` has the best mean rank on the locked tables with wrong labels, by a measure."""
    ranks = _ranks(noisy(judged()), measure)
    return min(ranks, key=lambda name: ranks[name]) == OURS


def n_tables() -> int:
    """Return the number of locked tables that were read."""
    return len({record["table"] for record in judged()})


def judged() -> list[Record]:
    """Return the records of the locked tables: at 1,000 rows, and at 300 of the tables that have fewer than 1,500."""
    large, small = ([record for which in JUDGED for record in read(which, size)] for size in (1000, 300))
    known = {record["table"] for record in large}
    return large + [record for record in small if record["table"] not in known]


def short() -> str:
    """Return the tables of docs/tables.md: accuracy, leads and precision on the locked tables."""
    records = judged()
    accuracy = kinds(records, accuracies, MODELS)
    parts = [accuracy, differences(records), precision(records, "margin")]
    texts = (
        "Accuracy against right labels, by kind of wrong labels:",
        "The lead of `mgce fit` with wrong labels, a mean over tables with its 95 % interval:",
        "Average precision of the ranking of suspects:",
    )
    return "\n" + "\n\n".join(f"{text}\n\n{part}" for text, part in zip(texts, parts, strict=True)) + "\n\n"


def for_readme() -> str:
    """Return README's table: accuracy and precision on the locked tables, a column for each kind of noise."""
    records = judged()
    names = {OURS: "**`mgce fit`**", VOTE: "vote of a tuned forest and SVM", "forest": "tuned random forest"}
    accuracy = kinds(records, accuracies, names)
    return accuracy.replace("|  |", "| right on new rows, % |", 1)


def picture() -> str:
    """Return the accuracies with right labels, and with wrong ones as the mean over their kinds, as SVG."""
    every: dict[tuple[str, float], list[Record]] = {}
    for record in judged():
        every.setdefault((record["kind"], record["rate"]), []).append(record)

    def mean(name: str, wrong: bool) -> float:
        kinds = [some for (_, rate), some in every.items() if (rate > 0) == wrong]
        return float(np.mean([np.mean([r["models"][name]["accuracy"] for r in some]) for some in kinds]))

    drawn = [
        Line(text, colour, [(0.0, mean(name, wrong=False)), (1.0, mean(name, wrong=True))])
        for name, text, colour in (
            (OURS, "mgce fit", BLUE),
            (VOTE, "soft vote", GREEN),
            ("forest", "random forest", AMBER),
            ("svm", "SVM", RED),
        )
    ]
    said = "; ".join(f"{line.name} {', '.join(f'{value:.1f}' for _, value in line.points)}" for line in drawn)
    return lines(
        f"Percent of right test labels predicted, learnt from right labels and from wrong ones: {said}",
        "right test labels predicted, mean of locked tables",
        "learnt from",
        drawn,
        {0.0: "right labels", 1.0: "20 to 40 % wrong"},
        low=65,
    )


def main() -> None:
    """Write the page of the lab, the one for users, and its picture; or print every table."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.suite.page", description=__doc__)
    parser.add_argument("--all", action="store_true", help="print every table of every list, and write nothing")
    if parser.parse_args().all:
        print(every())
        return
    write_between(PAGE, BEGIN, whole(), END)
    if judged():
        write_between(SHORT, BEGIN, short(), END)
        write_between(Path("README.md"), BEGIN, f"\n{for_readme()}\n\n", END)
        PICTURE.write_text(picture())


if __name__ == "__main__":
    main()
