"""The tables that compare the methods on clean and noisy labels: our numbers, the paper's, and where they differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from mgce.experiments.paper.plan import METHODS
from mgce.experiments.paper.published import PUBLISHED_AS, published_row
from mgce.experiments.paper.result import PLUS_MINUS, Result
from mgce.experiments.render import beta_range
from mgce.experiments.select import MEASURES, best_beta, summarize

SHOWN_METHODS = (*METHODS, "mae_published")
LABELS = {"mae": "mae (corrected)", "mae_published": "mae (as published)"}
# Which column of the paper stands beside which of our measures: its "SCE" beside ECE(h), see the caption.
COMPARED = {"accuracy": "accuracy", "ece_h": "sce"}
NAMES = {"accuracy": "accuracy", "ece_h": "calibration error"}
CAPTION = (
    "Percent; mean ± standard deviation over the seeds, at the epoch of best accuracy on the noisy validation "
    "rows, which choose β too, for each seed. ECE is that of the top label, which the paper's column “SCE” is "
    "compared with, since SCE itself is at most 2/k for k classes; h: minimax, p: worst-case probabilities. "
    "“mae (as published)” has the probabilities with the sign of the normalizer reversed, with which the paper's "
    "numbers agree. Below: every cell that differs from the paper's by more than two standard deviations, of the "
    "larger one of the two, ours and the paper's."
)
Pair = tuple[float, float]  # mean and standard deviation


def compare_methods(
    name: str, title: str, records: Sequence[dict[str, Any]], datasets: Sequence[str], noises: Sequence[float]
) -> Result | None:
    """Give a row for each data set, noise rate and method, the paper's numbers beside ours; None without records.

    Args:
        name: of the table, as the command has it.
        title: of the table.
        records: with data set, noise, method, beta, seed and the measures.
        datasets: those of the paper, in its order.
        noises: rates of noise in the order of the table.
    """
    if not records:
        return None
    cells, numbers = [], []
    notes: dict[str, str] = {}
    for dataset in ordered({record["dataset"] for record in records}, datasets):
        for noise in noises:
            block = [r for r in records if r["dataset"] == dataset and r["noise"] == noise]
            candidates = {method: len({r["beta"] for r in block if r["method"] == method}) for method in METHODS}
            summaries = {summary["method"]: summary for summary in summarize(best_beta(block))}
            for method in SHOWN_METHODS:
                row = {"dataset": dataset, "noise": noise, "method": method, **_numbers(summaries.get(method))}
                row |= {f"paper_{measure}": pair for measure, pair in _paper(name, dataset, method, noise).items()}
                numbers.append(_flat(row))
                cells.append(_cells(row, fixed=candidates.get(method) == 1 and method in ("mgce", "gce")))
                notes |= _differences(row)
    compared = sum(row[m] is not None and row[f"paper_{m}"] is not None for row in numbers for m in COMPARED)
    return Result(name, title, CAPTION, cells, numbers, notes=notes, words=4, compared=compared)


def ordered(found: set[str], datasets: Sequence[str]) -> list[str]:
    """Sort data sets in the order of `datasets`, which is the paper's; others come last, by name."""

    def place(dataset: str) -> tuple[int, str]:
        name = PUBLISHED_AS.get(dataset, dataset)
        return datasets.index(name) if name in datasets else len(datasets), dataset

    return sorted(found, key=place)


def show(pair: Pair | None) -> str:
    """Show mean and standard deviation as the paper does; for a single seed the mean alone, for None nothing."""
    if pair is None:
        return ""
    mean, std = pair
    return f"{mean:.2f}" + ("" if math.isnan(std) else f" {PLUS_MINUS} {std:.2f}")


def percent(values: Sequence[float]) -> Pair | None:
    """Give mean and standard deviation (ddof = 1; NaN for a single value) in percent; None without values."""
    if not values:
        return None
    return 100 * statistics.fmean(values), 100 * statistics.stdev(values) if len(values) > 1 else math.nan


def difference(what: str, ours: Pair | None, paper: Pair | None) -> str | None:
    """Write a sentence if our mean is more than two standard deviations from the paper's, else None.

    Of the two standard deviations, ours over the seeds and the paper's, the larger one counts.
    """
    if ours is None or paper is None:
        return None
    deviations = (ours[0] - paper[0]) / max(paper[1], 0.0 if math.isnan(ours[1]) else ours[1])
    if abs(deviations) <= 2:
        return None
    side = "above" if deviations > 0 else "below"
    return f"{what}: {show(ours)} against {show(paper)}, {abs(deviations):.1f} standard deviations {side} the paper."


def _numbers(summary: dict[str, Any] | None) -> dict[str, Any]:
    """Give the betas and seeds of a summary, and its measures in percent, as pairs of mean and standard deviation."""
    if summary is None:
        return {}
    pairs = {measure: (100 * summary[measure], 100 * summary[f"{measure}_std"]) for measure in MEASURES}
    return {"betas": summary["betas"], "seeds": summary["seeds"], **pairs}


def _paper(table: str, dataset: str, method: str, noise: float) -> dict[str, Pair]:
    """Give the paper's pairs by the name of our measure.

    The paper's calibration errors of MAE are those of the method "mae_published" and not of "mae", since its numbers
    agree with probabilities that have a sign reversed. The accuracy is the same for both.
    """
    row = published_row(table, dataset, method.removesuffix("_published"), noise=noise)
    measures = [measure for measure in COMPARED if (method, measure) != ("mae", "ece_h")]
    return {measure: tuple(row[COMPARED[measure]]) for measure in measures if row}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Give a row for a program: numbers in full, a column each for mean and standard deviation, every seed's beta."""
    flat = {name: row.get(name) for name in ("dataset", "noise", "method", "seeds")}
    flat["betas"] = " ".join(f"{beta:g}" for beta, count in row.get("betas", ()) for _ in range(count))
    for measure in (*MEASURES, *(f"paper_{measure}" for measure in COMPARED)):
        flat[measure], flat[f"{measure}_std"] = row.get(measure, (None, None))
    return flat


def _cells(row: dict[str, Any], fixed: bool) -> dict[str, str]:
    """Give a row for a reader; `fixed` says that there was only one beta, so that no validation chose it."""
    betas = row.get("betas")
    return {
        "dataset": row["dataset"],
        "η": f"{row['noise']:g}",
        "method": LABELS.get(row["method"], row["method"]),
        "β": "" if betas is None else beta_range(betas) + " (fixed)" * fixed,
        "seeds": str(row.get("seeds", "")),
        "accuracy": show(row.get("accuracy")),
        "paper's": show(row.get("paper_accuracy")),
        "ECE(h)": show(row.get("ece_h")),
        "paper's “SCE”": show(row.get("paper_ece_h")),
        "ECE(p)": show(row.get("ece_p")),
        "SCE(h)": show(row.get("sce_h")),
        "SCE(p)": show(row.get("sce_p")),
    }


def _differences(row: dict[str, Any]) -> dict[str, str]:
    """Give the sentences on numbers of a row that are far from the paper's, by keys as `Result.notes` has them."""
    where = f"{row['dataset']}, η = {row['noise']:g}, {LABELS.get(row['method'], row['method'])}"
    sentences = {
        measure: difference(f"{where}, {NAMES[measure]}", row.get(measure), row.get(f"paper_{measure}"))
        for measure in COMPARED
    }
    key = f"{row['dataset']}/{row['noise']:g}/{row['method']}"
    return {f"{key}/{measure}": sentence for measure, sentence in sentences.items() if sentence is not None}
