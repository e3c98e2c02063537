"""Table 2: validation accuracy on images with clean labels, for several weights lambda_0 of the L1 penalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgce.experiments.paper.comparison import difference, ordered, percent, show
from mgce.experiments.paper.images import NATURALLY_NOISY, PENALTY, image_records, plan_images
from mgce.experiments.paper.plan import BETA, Options
from mgce.experiments.paper.published import published_row
from mgce.experiments.paper.result import Result
from mgce.experiments.paper.specification import Specification
from mgce.experiments.store import Run

DATASETS = ("svhn", "cifar10", "fashion_mnist")
METHODS = ("mgce", "gce")
PENALTIES = (1e-3, 1e-4, 1e-5)
CAPTION = (
    "Percent; mean ± standard deviation over the seeds, at the epoch of best validation accuracy; clean labels. "
    "The paper does not say which β it takes here; ours is 1.4, as in its figures. Below: every cell that differs "
    "from the paper's by more than two standard deviations, of the larger one of the two, ours and the paper's."
)


def plan(options: Options) -> list[Specification]:
    """Plan a run for each data set, lambda_0, seed and method."""
    members = [(method, BETA) for method in options.methods if method in METHODS]
    return plan_images(options, DATASETS, members, penalties=PENALTIES)


def render(runs: Sequence[Run]) -> Result | None:
    """Give a row for each data set, lambda_0 and method; None without runs of several lambda_0."""
    records = [r for r in image_records(runs) if r["noise"] == 0 and r["beta"] == BETA]
    found = {r["dataset"] for r in records if r["l1"] != PENALTY and r["dataset"] not in NATURALLY_NOISY}
    rows = [
        _row([r for r in records if (r["dataset"], r["l1"], r["method"]) == (dataset, l1, method)], dataset, l1, method)
        for dataset in ordered(found, DATASETS)
        for l1 in PENALTIES
        for method in METHODS
    ]
    if not rows:
        return None
    notes: dict[str, str] = {}
    for row in rows:
        where = f"{row['dataset']}, λ_0 = {row['lambda_0']:g}, {row['method']}, validation accuracy"
        sentence = difference(where, row["validation_accuracy"], row["paper_validation_accuracy"])
        if sentence is not None:
            notes[f"{row['dataset']}/{row['lambda_0']:g}/{row['method']}/validation_accuracy"] = sentence
    title = "Table 2: the weight of the L1 penalty"
    numbers = list(map(_flat, rows))
    compared = sum(
        row["validation_accuracy"] is not None and row["paper_validation_accuracy"] is not None for row in rows
    )
    return Result("table2", title, CAPTION, list(map(_cells, rows)), numbers, notes=notes, words=3, compared=compared)


def _row(records: Sequence[dict[str, Any]], dataset: str, l1: float, method: str) -> dict[str, Any]:
    """Give a row: our accuracies and the paper's as pairs of mean and standard deviation, None where there is none."""
    published = published_row("table2", dataset, method, lambda_0=l1)
    return {
        "dataset": dataset,
        "lambda_0": l1,
        "method": method,
        "seeds": len(records),
        "validation_accuracy": percent([record["validation_accuracy"] for record in records]),
        "paper_validation_accuracy": tuple(published["validation_accuracy"]) if published else None,
        "accuracy": percent([record["accuracy"] for record in records]),
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Give a row for a program, with a column each for mean and standard deviation."""
    flat = dict(row)
    for name in ("validation_accuracy", "paper_validation_accuracy", "accuracy"):
        flat[name], flat[f"{name}_std"] = row[name] or (None, None)
    return flat


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """Give a row for a reader."""
    return {
        "dataset": row["dataset"],
        "λ_0": f"{row['lambda_0']:g}",
        "method": row["method"],
        "seeds": str(row["seeds"]),
        "validation accuracy": show(row["validation_accuracy"]),
        "paper's": show(row["paper_validation_accuracy"]),
        "test accuracy": show(row["accuracy"]),
    }
