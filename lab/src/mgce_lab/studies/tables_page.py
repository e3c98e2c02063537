"""The results of `mgce fit` on public tables, beside other methods, as a page: `mgce_lab.studies.tables_page`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from mgce_lab.studies.markdown import table

RESULTS, PAGE = Path("results/tables/results.jsonl"), Path("docs/tables.md")
TABLES = (
    *("digits", "breast_cancer", "segment", "pendigits", "spambase"),
    *("magic", "nursery", "letter", "adult", "covertype_sample"),
)
Records = Sequence[dict[str, Any]]


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(*map(records, (RESULTS, unseen_page.RESULTS, unseen_page.TEXT))))
    print(f"Written to {PAGE}.")


def records(path: Path) -> list[dict[str, Any]]:
    """Read records, one a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def render(results: Records, unseen: Records, text: Records) -> str:
    """Return the page as Markdown. A cell counts once every method has a result in it."""
    cells, methods = whole_cells(results)
    seeds = sorted({seed for *_, seed in cells})
    tables = [name for name in TABLES if any(name == cell[0] for cell in cells)]
    parts = [
        "# `mgce fit` on public tables",
        unseen_page.render(unseen, text),
        "## The development set",
        "Constants of `mgce fit` were chosen on the ten tables that follow. Its lead on them says little about yours.",
        _verdict(cells, methods),
        f"![Accuracy by share of wrong labels: `{OURS}` loses the least](images/tables-accuracy.svg)",
        "For each table and seed, 1,000 training rows are drawn, and a share of their labels is made wrong; "
        "only 427 of breast_cancer. Accuracy is measured on up to 4,000 other rows, whose labels are right. Every "
        "method gets the same rows and labels. Other methods keep their library's own settings, except that logistic "
        "regression may take 1,000 iterations. `mgce fit` averages the best models of several kinds. The command holds "
        "out a quarter of its rows for the certificate, chooses models on the other rows, and fits the chosen models "
        "to all rows.",
        "Under symmetric noise a wrong label is any other class. Under pair noise all wrong labels of a class are the "
        "next class. With two classes both kinds of noise are the same, and are not counted twice.",
        f"A cell is one table with one kind and rate of noise and one seed. There are {len(cells)} cells of "
        f"{len(tables)} tables and {_counted(len(seeds), 'seed')}. The full plan is 36 cells for each of three "
        "seeds. `python -m mgce_lab.studies.tables` measures what is missing. TabPFN is not among the methods: its "
        "weights are a download of their own.",
        _machines(results),
        "### Accuracy",
        "The table shows accuracies in percent, as means over tables and seeds. The rank is among all methods.",
        _means(cells, methods),
        "### Won and lost",
        "The table counts the cells with wrong labels in which `mgce fit` is more, equally, or less accurate. p is of "
        "Wilcoxon's signed-rank test, corrected by Holm's method for the number of opponents. The test takes the mean "
        "over seeds of each table and kind of noise.",
        _won(cells, methods),
        "### Wrong labels found",
        "The table shows how well a score of each training row ranks rows with wrong labels first: average precision "
        "and area under the ROC curve, in percent. The score of `mgce fit` comes from the trees of a forest that have "
        "not seen the row. The other scores are cleanlab's normalized margin, of out-of-fold probabilities from five "
        "folds, and the label quality of CleanLearning.",
        _suspects(cells, methods),
        "### Calibration and time",
        "The table shows the top-label ECE in percent against the right labels of the test rows, and seconds of "
        "processor time. The two rows of `mgce fit` are the ECE of h and of the probabilities of right labels, q, "
        "which `mgce predict --clean-probs` writes.",
        _calibration(cells, methods),
        "### Every table",
        "Accuracy in percent, mean over seeds.",
        *(_one_noise(cells, methods, noise) for noise in kinds_of(cells)),
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


def _one_noise(cells: Cells, methods: Sequence[str], noise: tuple[str, float]) -> str:
    part = with_noise(cells, noise)
    rows = []
    for name in TABLES:
        own = {cell: by_method for cell, by_method in part.items() if cell[0] == name}
        if own:
            rows.append([name, *(mean_of(own, method, "accuracy") for method in methods), str(len(own))])
    return table([named(noise), *map(code, methods), "seeds"], rows)


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
