"""The results of `mgce fit` beside other methods as a page: `python -m benchmarks.tables_page`."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import rankdata

from benchmarks.markdown import table

RESULTS, PAGE = Path("results/tables/results.jsonl"), Path("docs/tables.md")
AGAIN = Path("results/tables/again.jsonl")  # records of today's `mgce fit` on cells of `RESULTS`
TABLES = (
    *("digits", "breast_cancer", "segment", "pendigits", "spambase"),
    *("magic", "nursery", "letter", "adult", "covertype_sample"),
)
OURS = "mgce fit"
# In records of mgce 0.2.0: what its fit to the training rows alone had chosen, fitted to all rows. This is the default
# since, and both records together are that of `OURS`.
APART = "mgce fit --refit"
Cell = tuple[str, str, float, int]  # table, kind of noise, rate, seed
Cells = dict[Cell, dict[str, dict[str, Any]]]  # of each cell, the result of each method


def main() -> None:
    """Write the page."""
    PAGE.write_text(render([json.loads(line) for line in RESULTS.read_text().splitlines()]))
    print(f"Written to {PAGE}.")


def render(results: Sequence[dict[str, Any]]) -> str:
    """Return the page as Markdown. A cell counts once every method has a result in it."""
    cells, methods = whole_cells(results)
    seeds = sorted({seed for *_, seed in cells})
    tables = [name for name in TABLES if any(name == cell[0] for cell in cells)]
    parts = [
        "# `mgce fit` on ten tables",
        _verdict(cells, methods),
        f"![Accuracy by share of wrong labels: `{OURS}` loses the least](images/tables-accuracy.svg)",
        "For each table and seed, 1,000 training rows are drawn, and a share of their labels is made wrong; "
        "only 427 of breast_cancer. Accuracy is measured on up to 4,000 other rows, whose labels are right. Every "
        "method gets the same rows and labels. Other methods keep their library's own settings, except that logistic "
        "regression may take 1,000 iterations. `mgce fit` averages the best models of several kinds. The command holds "
        "out a quarter of its rows for the certificate, chooses models on the other rows, and fits the chosen models "
        "to all rows.",
        f"The records of `{OURS}` are of an earlier build, with its option `--refit`. That is the default now. "
        f"{_measured_again(cells)}",
        "Under symmetric noise a wrong label is any other class. Under pair noise all wrong labels of a class are the "
        "next class. With two classes both kinds of noise are the same, and are not counted twice.",
        f"A cell is one table with one kind and rate of noise and one seed. There are {len(cells)} cells of "
        f"{len(tables)} tables and {_counted(len(seeds), 'seed')}. The full plan is 36 cells for each of three "
        "seeds. `python -m benchmarks.tables` measures what is missing. TabPFN is not among the methods: its "
        "weights are a download of their own.",
        f"Measured on: `{results[-1]['machine']}`.",
        "## Accuracy",
        "The table shows accuracies in percent, as means over tables and seeds. The rank is among all methods.",
        _means(cells, methods),
        "## Won and lost",
        "The table counts the cells with wrong labels in which `mgce fit` is more, equally, or less accurate.",
        _won(cells, methods),
        "## Wrong labels found",
        "The table shows how well a score of each training row ranks rows with wrong labels first: average precision "
        "and area under the ROC curve, in percent. The score of `mgce fit` comes from the trees of a forest that have "
        "not seen the row. The other scores are cleanlab's normalized margin, of out-of-fold probabilities from five "
        "folds, and the label quality of CleanLearning.",
        _suspects(cells, methods),
        "## Calibration and time",
        "The table shows the top-label ECE in percent against the right labels of the test rows, and seconds of "
        "processor time. For `mgce fit` it is the ECE of h; p is meant for labels as noisy as the training labels.",
        _calibration(cells, methods),
        "## Every table",
        "Accuracy in percent, mean over seeds.",
        *(_one_noise(cells, methods, noise) for noise in _noises(cells)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def whole_cells(results: Iterable[dict[str, Any]]) -> tuple[Cells, list[str]]:
    """Sort results into cells, and keep those in which no method is missing; give the methods too."""
    found: defaultdict[Cell, dict[str, dict[str, Any]]] = defaultdict(dict)
    for result in results:
        found[result["table"], result["noise"], result["rate"], result["seed"]][result["method"]] = result
    for by_method in found.values():
        if OURS in by_method and APART in by_method:
            ours, again = by_method[OURS], by_method.pop(APART)
            by_method[OURS] = {**ours, **again, "method": OURS, "seconds": ours["seconds"] + again["seconds"]}
    methods = list(dict.fromkeys(name for cell in found.values() for name in cell))
    return {cell: by_method for cell, by_method in found.items() if len(by_method) == len(methods)}, methods


def mean_rank(cells: Cells, among: Sequence[str], method: str) -> float:
    """Return the mean rank of a method among several, 1 for the most accurate; equals share their ranks."""
    ranks = [rankdata([-cell[name]["accuracy"] for name in among])[among.index(method)] for cell in cells.values()]
    return statistics.fmean(ranks)


def _of_others(methods: Sequence[str]) -> list[str]:
    return [name for name in methods if name != OURS]


def _noises(cells: Cells) -> list[tuple[str, float]]:
    return list(dict.fromkeys((kind, rate) for _, kind, rate, _ in cells))


def _named(noise: tuple[str, float]) -> str:
    kind, rate = noise
    return f"{rate:.0%} {kind} noise" if rate else "right labels"


def _with(cells: Cells, noise: tuple[str, float]) -> Cells:
    return {cell: by_method for cell, by_method in cells.items() if cell[1:3] == noise}


def _noisy(cells: Cells) -> Cells:
    return {cell: by_method for cell, by_method in cells.items() if cell[2] > 0}


def _mean(cells: Cells, method: str, key: str, scale: float = 100) -> str:
    values = [scale * by_method[method][key] for by_method in cells.values() if key in by_method[method]]
    return f"{statistics.fmean(values):.1f}" if values else ""


def _means(cells: Cells, methods: Sequence[str]) -> str:
    noises, noisy = _noises(cells), _noisy(cells)
    clean = {cell: by_method for cell, by_method in cells.items() if cell not in noisy}
    rows = []
    for name in methods:
        accuracies = [_mean(_with(cells, noise), name, "accuracy") for noise in noises]
        ranks = [f"{mean_rank(part, methods, name):.2f}" for part in (clean, noisy)]
        rows.append([_code(name), *accuracies, *ranks])
    header = ["", *map(_named, noises), "rank, right labels", "rank, wrong labels"]
    cells_of = [str(len(_with(cells, noise))) for noise in noises]
    return table(header, [*rows, ["cells", *cells_of, str(len(clean)), str(len(noisy))]])


def _verdict(cells: Cells, methods: Sequence[str]) -> str:
    """Say how far the aims are met: the best mean rank with wrong labels, and half a point behind with right ones."""
    noisy = _noisy(cells)
    clean = {cell: by_method for cell, by_method in cells.items() if cell not in noisy}
    others = _of_others(methods)
    ranks = {each: mean_rank(noisy, [OURS, *others], each) for each in (OURS, *others)}
    rival = min(others, key=lambda each: ranks[each])
    accuracy = {each: statistics.fmean(cell[each]["accuracy"] for cell in clean.values()) for each in ranks}
    first = max(others, key=lambda each: accuracy[each])
    behind = 100 * (accuracy[first] - accuracy[OURS])
    distance = f"{abs(behind):.1f} points {'behind' if behind > 0 else 'ahead of'}"
    better = "better" if ranks[OURS] < ranks[rival] else "no better"
    return (
        f"With wrong labels `{OURS}` is {better} in mean rank than {rival}, the best of the others. With right labels "
        f"`{OURS}` is {distance} the most accurate of the others, {first}."
    )


def _won(cells: Cells, methods: Sequence[str]) -> str:
    rows = []
    for other in _of_others(methods):
        differences = [cell[OURS]["accuracy"] - cell[other]["accuracy"] for cell in _noisy(cells).values()]
        signs = [sum(d > 0 for d in differences), sum(d == 0 for d in differences), sum(d < 0 for d in differences)]
        rows.append([other, " / ".join(map(str, signs))])
    return table(["", f"`{OURS}`"], rows)


def _suspects(cells: Cells, methods: Sequence[str]) -> str:
    noises = [noise for noise in _noises(cells) if noise[1]]
    rows = []
    for name in methods:
        values = [_mean(_with(cells, noise), name, key) for noise in noises for key in ("ap", "auroc")]
        if any(values):
            rows.append([_code(name), *values])
    header = ["", *(f"{_named(noise)}: {key}" for noise in noises for key in ("AP", "AUROC"))]
    return table(header, rows)


def _calibration(cells: Cells, methods: Sequence[str]) -> str:
    noises = _noises(cells)
    rows = [
        [_code(name), *(_mean(_with(cells, noise), name, "ece") for noise in noises), _mean(cells, name, "seconds", 1)]
        for name in methods
    ]
    if any("ece_q" in by_method[OURS] for by_method in cells.values()):  # mgce 0.2.0 had no q
        rows.insert(1, [f"{OURS}, q", *(_mean(_with(cells, noise), OURS, "ece_q") for noise in noises), ""])
    return table(["", *(f"ECE, {_named(noise)}" for noise in noises), "seconds"], rows)


def _one_noise(cells: Cells, methods: Sequence[str], noise: tuple[str, float]) -> str:
    part = _with(cells, noise)
    rows = []
    for name in TABLES:
        own = {cell: by_method for cell, by_method in part.items() if cell[0] == name}
        if own:
            rows.append([name, *(_mean(own, method, "accuracy") for method in methods), str(len(own))])
    return table([_named(noise), *map(_code, methods), "seeds"], rows)


def _measured_again(cells: Cells) -> str:
    """Say by how much accuracy moved where today's build was measured on the same rows."""
    records = map(json.loads, AGAIN.read_text().splitlines())
    again = {(r["table"], r["noise"], r["rate"], r["seed"]): r["accuracy"] for r in records}
    moved = [accuracy - cells[cell][OURS]["accuracy"] for cell, accuracy in again.items() if cell in cells]
    if not moved:
        return "No cell was measured again."
    mean = 100 * statistics.mean(moved)
    return f"Measured again on {len(moved)} cells, accuracy moved by {mean:+.1f} points in the mean."


def _code(name: str) -> str:
    """Mark a command as code; a page would show its two hyphens as a dash."""
    return f"`{name}`" if name == OURS else name


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


if __name__ == "__main__":
    main()
