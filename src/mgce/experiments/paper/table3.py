"""Table 3: accuracy and calibration of four methods on tables with clean and noisy labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from mgce.experiments.paper.plan import METHODS, Options
from mgce.experiments.paper.published import published_row
from mgce.experiments.paper.result import PLUS_MINUS, Result
from mgce.experiments.paper.specification import Specification
from mgce.experiments.paper.tabular import TabularRun
from mgce.experiments.render import beta_range
from mgce.experiments.select import MEASURES, best_beta, summarize
from mgce.experiments.store import Run

DATASETS = ("mnist", "covertype", "letter", "adult")
NOISES = (0.0, 0.2, 0.4)
SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": {"scaling": "pixels"},
    "fashion_mnist": {"scaling": "pixels"},
    "covertype_sample": {"rows": 110_393},  # as many as the paper has
}
SMOKE_DATASETS = ("wine", "digits")
SMOKE: dict[str, Any] = {"rows": 400, "hidden": 16, "epochs": 6, "lr": 0.05}
SHOWN_METHODS = (*METHODS, "mae_published")
LABELS = {"mae": "mae (corrected)", "mae_published": "mae (as published)"}
# The measure that stands beside each of the paper's columns.
COMPARED = {"accuracy": "accuracy", "ece_h": "sce"}


def plan(options: Options) -> list[Specification]:
    """Plan a run for each data set, noise rate, seed and method; or for each data set and noise rate."""
    datasets = options.datasets or (SMOKE_DATASETS if options.smoke else DATASETS)
    betas = {"ce": (math.inf,), "mae": (1.0,)}
    members = [[(method, beta) for beta in betas.get(method, options.betas)] for method in options.methods]
    seeds: list[tuple[int, ...]] = [(seed,) for seed in range(options.seeds)]
    if options.together:
        members, seeds = [[*chain(*members)]], [tuple(range(options.seeds))]
    specifications: list[Specification] = []
    for dataset in datasets:
        settings = {**SETTINGS.get(dataset, {}), **(SMOKE if options.smoke else {})}
        specifications += [
            TabularRun(dataset, noise, seed, tuple(member), **settings)
            for noise in NOISES
            for seed in seeds
            for member in members
        ]
    return specifications


def render(runs: Sequence[Run]) -> Result | None:
    """Give a row for each data set, noise rate and method, the paper's numbers beside ours; None without runs."""
    records = tabular_records(runs)
    if not records:
        return None
    cells, numbers = [], []
    notes: dict[str, str] = {}
    for dataset in sorted({record["dataset"] for record in records}, key=dataset_order):
        for noise in NOISES:
            here = [r for r in records if r["dataset"] == dataset and r["noise"] == noise]
            candidates = {method: len({r["beta"] for r in here if r["method"] == method}) for method in METHODS}
            rows = {row["method"]: row for row in summarize(best_beta(here))}
            for method in SHOWN_METHODS:
                row = {"dataset": dataset, "noise": noise, "method": method, **_numbers(rows.get(method))}
                row |= {f"paper_{measure}": pair for measure, pair in _paper(dataset, method, noise).items()}
                numbers.append(_flat(row))
                cells.append(_cells(row, fixed=candidates.get(method) == 1 and method in ("mgce", "gce")))
                notes |= _differences(row)
    caption = (
        "Percent; mean ± standard deviation over the seeds, at the epoch of best accuracy on the noisy validation "
        "rows, which choose β too, for each seed. ECE is that of the top label, which the paper's column “SCE” is "
        "compared with, since SCE itself is at most 2/k for k classes; h: minimax, p: worst-case probabilities. "
        "“mae (as published)” has the probabilities with the sign of the normalizer reversed, with which the paper's "
        "numbers agree. Below: every cell that differs from the paper's by more than two standard deviations, of the "
        "larger one of the two, ours and the paper's."
    )
    return Result("table3", "Table 3: accuracy and calibration on tables", caption, cells, numbers, notes=notes)


def tabular_records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Give the records of all tabular runs, with the data set in each, and beta as a number."""
    return [
        {**record, "dataset": run.specification["dataset"], "beta": float(record["beta"])}
        for run in runs
        if run.specification["kind"] == TabularRun.kind
        for record in run.records
    ]


def dataset_order(dataset: str) -> tuple[int, str]:
    """Sort as the paper does, other data sets last."""
    first = [place for place, name in enumerate(DATASETS) if dataset.startswith(name)]
    return (*first, len(DATASETS))[0], dataset


def _numbers(row: dict[str, Any] | None) -> dict[str, Any]:
    """Give our numbers in percent, as pairs of mean and standard deviation."""
    if row is None:
        return {}
    pairs = {measure: (100 * row[measure], 100 * row[f"{measure}_std"]) for measure in MEASURES}
    return {"betas": row["betas"], "seeds": row["seeds"], **pairs}


def _paper(dataset: str, method: str, noise: float) -> dict[str, Any]:
    """Give the paper's pairs by our measure: its errors of MAE are those of the published probabilities."""
    row = published_row("table3", dataset, method.removesuffix("_published"), noise)
    measures = [measure for measure in COMPARED if (method, measure) != ("mae", "ece_h")]
    return {measure: tuple(row[COMPARED[measure]]) for measure in measures if row}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat = {name: row.get(name) for name in ("dataset", "noise", "method", "seeds")}
    flat["betas"] = " ".join(f"{beta:g}" for beta, count in row.get("betas", ()) for _ in range(count))
    for measure in (*MEASURES, *(f"paper_{measure}" for measure in COMPARED)):
        flat[measure], flat[f"{measure}_std"] = row.get(measure, (None, None))
    return flat


def _cells(row: dict[str, Any], fixed: bool) -> dict[str, str]:
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


def show(pair: tuple[float, float] | None) -> str:
    """Show mean and standard deviation as the paper does; the mean alone for a single seed, nothing for nothing."""
    if pair is None:
        return ""
    mean, std = pair
    return f"{mean:.2f}" + ("" if math.isnan(std) else f" {PLUS_MINUS} {std:.2f}")


def _differences(row: dict[str, Any]) -> dict[str, str]:
    """Write a sentence for each cell that is more than two standard deviations from the paper's."""
    sentences = {}
    for measure in COMPARED:
        ours, paper = row.get(measure), row.get(f"paper_{measure}")
        if ours is None or paper is None:
            continue
        deviations = (ours[0] - paper[0]) / max(paper[1], 0.0 if math.isnan(ours[1]) else ours[1])
        if abs(deviations) > 2:
            name = {"accuracy": "accuracy", "ece_h": "calibration error"}[measure]
            sentences[f"{row['dataset']}/{row['noise']:g}/{row['method']}/{measure}"] = (
                f"{row['dataset']}, η = {row['noise']:g}, {LABELS.get(row['method'], row['method'])}, {name}: "
                f"{show(ours)} against {show(paper)}, "
                f"{abs(deviations):.1f} standard deviations {'above' if deviations > 0 else 'below'} the paper."
            )
    return sentences
