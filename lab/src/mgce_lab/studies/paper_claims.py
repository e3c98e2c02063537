"""What our runs on tables say of the paper's claims: `python -m mgce_lab.studies.paper_claims` writes `results/claims`.

The runs are those of `results/paper`; nothing is trained. `docs/paper.md` shows the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce_lab.engine.select import best_candidate
from mgce_lab.engine.significance import LEVEL, Summary, paired_difference
from mgce_lab.engine.store import Runs
from mgce_lab.paper import table3
from mgce_lab.paper.agreement import judge

RESULTS = Path(__file__).parents[4] / "results"
OUT = RESULTS / "claims" / "claims.txt"
TABLES = {"mnist": "MNIST", "covertype_sample": "covertype", "letter": "letter", "adult": "adult"}
NOISES = (0.0, 0.2, 0.4)
MEASURES = {"ece_h": "ECE of h", "sce_h": "SCE of h", "ece_p": "ECE of p", "sce_p": "SCE of p"}
OTHERS = {"ce": "cross-entropy", "gce": "GCE", "mgce@1": "MAE (minimax)"}
BETA = 1.4  # of MGCE in the paper's figures
BETAS = (1.0, 1.05, 1.18, 1.4, 2.0, 5.0, 11.0)
Records = Sequence[Mapping[str, Any]]


def main() -> None:
    """Write the file and print it."""
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(text(), encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"), end="")


def text() -> str:
    """Render the four parts from the committed records."""
    runs = list(Runs(RESULTS / "paper").read().values())
    records = table3.tabular_records(runs)
    table = table3.render(runs)
    assert table is not None
    parts = (numbers(table.numbers), convergence(records), calibration(records), tightness(records))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def numbers(rows: Records) -> Iterator[str]:
    """Count the verdicts of Table 3 by measure and table, and give the range of the differences."""
    yield "1. Numbers of Table 3 that agree with the paper's, differ, or are too uncertain to say"
    yield "   (in brackets: ours less the paper's in points, of those that differ; with one seed, the paper's deviation"
    yield "   is taken as ours)"
    total: dict[str, Counter[str]] = {}
    for measure, name in (("accuracy", "accuracy"), ("ece_h", "calibration error")):
        for dataset, label in TABLES.items():
            verdicts = [
                (verdict.kind, row[measure] - row[f"paper_{measure}"])
                for row in rows
                if row["dataset"] == dataset
                and (row["method"], measure) != ("mae_published", "accuracy")  # counts once, as in the table
                and (verdict := _verdict(row, measure)) is not None
            ]
            kinds = Counter(kind for kind, _ in verdicts)
            differing = [points for kind, points in verdicts if kind == "differs"]
            (seeds,) = {row["seeds"] for row in rows if row["dataset"] == dataset}
            named = "one seed" if seeds == 1 else "five seeds"
            total[named] = total.get(named, Counter()) + kinds
            spread = f"({min(differing):+.2f} to {max(differing):+.2f})"
            yield f"   {name:17}  {label:9}  {_counts(kinds)}  {spread:18} {named}"
    for named, kinds in {"all": sum(total.values(), Counter()), **total}.items():
        yield f"   {f'{named} {sum(kinds.values()):2}':30} {_counts(kinds)}"


def convergence(records: Records) -> Iterator[str]:
    """Yield the accuracy in two epochs, and the epoch in which MGCE first is as accurate as others are at their end."""
    yield "2. Right labels: accuracy in epochs 50 and 150 (mean over the seeds),"
    yield "   and the epoch in which MGCE reaches the accuracy that the method has in epoch 150"
    methods = {
        f"MGCE, beta {BETA}": ("mgce", BETA),
        f"GCE, beta {BETA}": ("gce", BETA),
        "GCE, beta 11": ("gce", 11.0),
        "cross-entropy": ("ce", np.inf),
    }
    for dataset, label in TABLES.items():
        own = _curves(records, (dataset, 0.0, "mgce", BETA)).mean(0)
        for name, (method, beta) in methods.items():
            curves = _curves(records, (dataset, 0.0, method, beta))
            if len(curves):
                accuracy = curves.mean(0)
                reached = np.flatnonzero(own >= accuracy[-1])
                epoch = "" if method == "mgce" else f"{reached[0] + 1:8}" if len(reached) else "   never"
                yield f"   {label:9}  {name:15}{_percent(accuracy[49]):>7}{_percent(accuracy[-1]):>8}{epoch}"


def calibration(records: Records) -> Iterator[str]:
    """Count where the calibration error of MGCE is lower than that of each other method."""
    yield "3. Calibration error: for how many tables and noise rates that of MGCE is lower, higher, not told apart"
    yield "   (letter and adult: five seeds, paired t-test at 5 %, not corrected for the number of tests;"
    yield "   MNIST and covertype: one seed, lower or higher alone; beta by validation, as in Table 3)"
    yield f"   {'':33}right labels          20 and 40 % wrong"
    yield f"   {'':33}five seeds  one seed  five seeds  one seed"
    for measure, name in MEASURES.items():
        for method, other in OTHERS.items():
            cells = ""
            for noises in (NOISES[:1], NOISES[1:]):
                places = [(dataset, noise) for dataset in TABLES for noise in noises]
                found = Counter(_compare(records, place, method, measure) for place in places)
                tested = " ".join(str(found["five", verdict]) for verdict in ("lower", "higher", "level"))
                cells += f"{tested:12}{found['one', 'lower']} {found['one', 'higher']:<8}"
            yield f"   {f'{name}, than {other}':33}{cells.rstrip()}"


def tightness(records: Records) -> Iterator[str]:
    """Yield by how much the accuracy of the network exceeds 1 - V."""
    yield "4. Accuracy on right labels less 1 - V after the last epoch, in points, by beta of the network and of V"
    yield f"   {'wrong labels':20}" + "".join(f"{beta:>8g}" for beta in BETAS)
    above = epochs = 0
    for dataset, label in TABLES.items():
        for noise in NOISES:
            cells = []
            for beta in BETAS:
                key = (dataset, noise, "mgce@1" if beta == 1 else "mgce", beta)
                accuracy, value = _curves(records, key), _curves(records, key, "objective")
                above, epochs = above + int((1 - value > accuracy).sum()), epochs + value.size
                cells.append(f"{100 * (accuracy + value - 1).mean(0)[-1]:.1f}" if len(accuracy) else "")
            yield f"   {label:9}  {100 * noise:>5g} %  " + "".join(f"{cell:>8}" for cell in cells).rstrip()
    yield f"   1 - V was above the accuracy of its network in {above} of {epochs:,} epochs."


def _verdict(row: Mapping[str, Any], measure: str) -> Any:
    """Compare a number of Table 3 with the paper's; None if the paper has none."""
    if row[f"paper_{measure}"] is None:
        return None
    ours = Summary(row[measure], row[f"{measure}_std"], row["seeds"])
    return judge("", ours, (row[f"paper_{measure}"], row[f"paper_{measure}_std"]))


def _counts(kinds: Counter[str]) -> str:
    return f"{kinds['agrees']:2} agree  {kinds['differs']:2} differ  {kinds['too wide']:2} uncertain"


def _percent(share: float) -> str:
    """Format a share with two digits, rounding half up: means over seeds can lie between two such numbers."""
    return f"{round(100 * share, 9) + 1e-9:.2f}"


def _curves(records: Records, key: tuple[Any, ...], curve: str = "test_accuracy") -> NDArray[np.float64]:
    """Return the curves by epoch of the networks of a data set, noise, method and beta, a row for each seed."""
    found = [r for r in records if tuple(r[name] for name in ("dataset", "noise_rate", "method", "beta")) == key]
    return np.array([record[f"{curve}_by_epoch"] for record in sorted(found, key=lambda record: record["seed"])])


def _compare(records: Records, where: tuple[str, float], method: str, measure: str) -> tuple[str, str]:
    """Compare MGCE with another method: ("five" or "one" seed, "lower", "higher" or, if not told apart, "level")."""
    error: dict[str, dict[int, float]] = {}
    for record in best_candidate([dict(r) for r in records if (r["dataset"], r["noise_rate"]) == where]):
        error.setdefault(record["method"], {})[record["seed"]] = record[measure]
    seeds = sorted(error["mgce"].keys() & error[method].keys())
    found = paired_difference([error["mgce"][seed] for seed in seeds], [error[method][seed] for seed in seeds])
    side = "lower" if found.value < 0 else "higher"
    if len(seeds) == 1:
        return "one", side
    return "five", side if found.p < LEVEL else "level"


if __name__ == "__main__":
    main()
