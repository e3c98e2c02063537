"""The results of `mgce fit` on public tables, beside other methods, as a page: `mgce_lab.studies.tables_page`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import table, write_between
from mgce_lab.studies import unseen_page
from mgce_lab.studies.cells import (
    OURS,
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

RESULTS, PAGE = Path("results/tables/results.jsonl"), Path("docs/lab/tables.md")
SHORT, MARKS = Path("docs/tables.md"), ("<!-- {} -->\n", "<!-- /{} -->")
TABLES = (
    *("digits", "breast_cancer", "segment", "pendigits", "spambase"),
    *("magic", "nursery", "letter", "adult", "covertype_sample"),
)
Records = Sequence[dict[str, Any]]


def main() -> None:
    """Write the page, and the short tables of another one."""
    results, unseen, text = map(records, (RESULTS, unseen_page.RESULTS, unseen_page.TEXT))
    PAGE.write_text(render(results, unseen, text))
    for name, content in short(results, unseen).items():
        begin, end = (mark.format(name) for mark in MARKS)
        write_between(SHORT, begin, f"\n{content}\n\n", end)
    print(f"Written to {PAGE} and {SHORT}.")


def short(results: Sequence[dict[str, Any]], unseen: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the tables of docs/tables.md by name."""
    cells, methods = whole_cells(results)
    return {**unseen_page.short(unseen), "development": _means(cells, methods)}


def records(path: Path) -> list[dict[str, Any]]:
    """Read records, one a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def render(results: Records, unseen: Records, text: Records) -> str:
    """Return the page as Markdown. A cell counts once every method has a result in it."""
    cells, methods = whole_cells(results)
    seeds = sorted({seed for *_, seed in cells})
    tables = [name for name in TABLES if any(name == cell[0] for cell in cells)]
    parts = [
        "# `mgce fit` on public tables: measured",
        "This page supports [`mgce fit` on public tables](../tables.md).",
        unseen_page.render(unseen, text),
        "## The development set",
        "Constants of `mgce fit` were chosen on these ten tables.",
        _verdict(cells, methods),
        "For each table and seed, 1,000 training rows are drawn (427 of breast_cancer), and a share of their labels is "
        "made wrong. Accuracy is measured on up to 4,000 other rows, whose labels are right. Other methods keep their "
        "library's own settings, except that logistic regression may take 1,000 iterations. Under pair noise all wrong "
        "labels of a class are the next class.",
        f"There are {len(cells)} cells of {len(tables)} tables and {_counted(len(seeds), 'seed')}. "
        "`python -m mgce_lab.studies.tables` measures what is missing.",
        _machines(results),
        "### Accuracy",
        "Means over tables and seeds in percent, and mean ranks.",
        _means(cells, methods),
        "### Won and lost",
        "Cells with wrong labels in which `mgce fit` is more, equally, or less accurate. p is of Wilcoxon's "
        "signed-rank test of the means over seeds, corrected by Holm's method.",
        _won(cells, methods),
        "### Wrong labels found",
        "Average precision and area under the ROC curve of the ranking of training rows, wrong labels first, in "
        "percent. `mgce fit` ranks by trees that have not seen the row. The others rank by cleanlab's normalized "
        "margin or by the label quality of CleanLearning.",
        _suspects(cells, methods),
        "### Calibration and time",
        "Top-label ECE in percent against right labels, and seconds of processor time. The two rows of `mgce fit` are "
        "of h, and of q, which `mgce predict --clean-probs` writes.",
        _calibration(cells, methods),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _of_others(methods: Sequence[str]) -> list[str]:
    return [name for name in methods if name != OURS]


def _means(cells: Cells, methods: Sequence[str]) -> str:
    noises, noisy = kinds_of(cells), with_wrong_labels(cells)
    clean = {cell: by_method for cell, by_method in cells.items() if cell not in noisy}
    rows = []
    for name in methods:
        accuracies = [mean_of(with_noise(cells, noise), name, "accuracy") for noise in noises]
        ranks = [f"{mean_rank(part, methods, name):.2f}" for part in (clean, noisy)]
        rows.append([code(name), *accuracies, *ranks])
    header = ["", *map(named, noises), "rank, right labels", "rank, wrong labels"]
    cells_of = [str(len(with_noise(cells, noise))) for noise in noises]
    return table(header, [*rows, ["cells", *cells_of, str(len(clean)), str(len(noisy))]])


def _verdict(cells: Cells, methods: Sequence[str]) -> str:
    """Say how far the aims are met: the best mean rank with wrong labels, and half a point behind with right ones."""
    noisy = with_wrong_labels(cells)
    clean = {cell: by_method for cell, by_method in cells.items() if cell not in noisy}
    others = _of_others(methods)
    ranks = {each: mean_rank(noisy, [OURS, *others], each) for each in (OURS, *others)}
    rival = min(others, key=lambda each: ranks[each])
    accuracy = {each: statistics.fmean(cell[each]["accuracy"] for cell in clean.values()) for each in ranks}
    first = max(others, key=lambda each: accuracy[each])
    behind = 100 * (accuracy[first] - accuracy[OURS])
    distance = f"{abs(behind):.1f} points {'behind' if behind > 0 else 'ahead of'}"
    better = "better" if ranks[OURS] < ranks[rival] else "no better"
    p = [shown_p(p_values(part, others)[other]) for part, other in ((noisy, rival), (clean, first))]
    return (
        f"With wrong labels `{OURS}` is {better} in mean rank than {rival}, the best of the others (p {p[0]}). With "
        f"right labels `{OURS}` is {distance} the most accurate of the others, {first} (p {p[1]})."
    )


def _won(cells: Cells, methods: Sequence[str]) -> str:
    noisy, others, noises = with_wrong_labels(cells), _of_others(methods), kinds_of(cells)
    columns = [p_values(part, others) for part in (noisy, *(with_noise(cells, noise) for noise in noises))]
    header = ["", f"`{OURS}`", "p, wrong labels", *(f"p, {named(noise)}" for noise in noises)]
    return table(header, [[other, won(noisy, other), *(shown_p(p[other]) for p in columns)] for other in others])


def _suspects(cells: Cells, methods: Sequence[str]) -> str:
    noises = [noise for noise in kinds_of(cells) if noise[1]]
    rows = []
    for name in methods:
        values = [mean_of(with_noise(cells, noise), name, key) for noise in noises for key in ("ap", "auroc")]
        if any(values):
            rows.append([code(name), *values])
    header = ["", *(f"{named(noise)}: {key}" for noise in noises for key in ("AP", "AUROC"))]
    return table(header, rows)


def _calibration(cells: Cells, methods: Sequence[str]) -> str:
    noises = kinds_of(cells)
    rows = [
        [
            code(name),
            *(mean_of(with_noise(cells, noise), name, "ece") for noise in noises),
            mean_of(cells, name, "seconds", 1),
        ]
        for name in methods
    ]
    rows.insert(1, [f"{code(OURS)}, q", *(mean_of(with_noise(cells, noise), OURS, "ece_q") for noise in noises), ""])
    return table(["", *(f"ECE, {named(noise)}" for noise in noises), "seconds"], rows)


def _machines(results: Records) -> str:
    """Name the machines, that of `mgce fit` first; the other methods were measured before."""
    ours, others = ({r["machine"] for r in results if (r["method"] == OURS) == is_ours} for is_ours in (True, False))
    return "\n\n".join(
        f"{who} measured on: {'; '.join(f'`{machine}`' for machine in sorted(machines))}."
        for who, machines in ((f"`{OURS}` was", ours), ("The other methods were", others))
    )


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


if __name__ == "__main__":
    main()
