"""Plan and render Table 2: validation accuracy on clean images for several weights lambda_0 of the L1 penalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgce_lab.engine.methods import CHOOSING
from mgce_lab.engine.result import Result
from mgce_lab.engine.significance import Summary
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.engine.summary import percent, show
from mgce_lab.paper.agreement import agreement, judge, notes_of
from mgce_lab.paper.comparison import TEST, ordered
from mgce_lab.paper.images import PENALTY, image_records, plan_images, settings_of
from mgce_lab.paper.plan import BETA, Options
from mgce_lab.paper.published import published_row

DATASETS = ("svhn", "cifar10", "fashion_mnist")
PENALTIES = (1e-3, 1e-4, 1e-5)
CAPTION = (
    "Percent; mean ± standard deviation over the seeds, at the epoch of best validation accuracy; clean labels. "
    f"The paper does not say which β it takes here; ours is 1.4, as in its figures. {TEST}"
)


def plan(options: Options) -> list[Specification]:
    """Plan a run for each data set, weight of the L1 penalty, seed, and each of MGCE and GCE."""
    members = [(method, BETA) for method in options.methods if method in CHOOSING]
    return plan_images(options, DATASETS, members, penalties=PENALTIES)


def render(runs: Sequence[Run]) -> Result | None:
    """Render a row for each data set, weight of the L1 penalty and method.

    Data sets on which only the usual weight was run are left out. Return None if no data set remains.
    """
    records = [r for r in image_records(runs) if r["noise_rate"] == 0 and r["beta"] == BETA and r["for_tables"]]
    found = {r["dataset"] for r in records if r["l1"] != PENALTY}
    rows = [
        _row([r for r in records if (r["dataset"], r["l1"], r["method"]) == (dataset, l1, method)], dataset, l1, method)
        for dataset in ordered(found, DATASETS)
        for l1 in PENALTIES
        for method in CHOOSING
    ]
    if not rows:
        return None
    verdicts = {}
    for row in rows:
        where = f"{row['dataset']}, λ_0 = {row['l1']:g}, {row['method']}, validation accuracy"
        pair = row["validation_accuracy"]
        ours = None if pair is None else Summary(pair[0], pair[1], row["seeds"])
        verdict = judge(where, ours, row["paper_validation_accuracy"])
        if verdict is not None and not row["short"]:
            verdicts[f"{row['dataset']}/{row['l1']:g}/{row['method']}/validation_accuracy"] = verdict
    title = f"Table 2: the weight of the L1 penalty ({settings_of([r for r in records if r['dataset'] in found])})"
    cells, numbers = list(map(_cells, rows)), list(map(_flat, rows))
    sentence = f"Table 2: {agreement(verdicts)}." if verdicts else ""
    return Result("table2", title, CAPTION, cells, numbers, notes=notes_of(verdicts), words=3, agreement=sentence)


def _row(records: Sequence[dict[str, Any]], dataset: str, l1: float, method: str) -> dict[str, Any]:
    """Return a row with our accuracies and the paper's, as pairs of mean and standard deviation; None if missing."""
    published = published_row("table2", dataset, method, l1=l1)
    return {
        "dataset": dataset,
        "l1": l1,
        "method": method,
        "seeds": len(records),
        "setting": settings_of(records),
        "short": any(record["short"] for record in records),
        "validation_accuracy": percent([record["validation_accuracy"] for record in records]),
        "paper_validation_accuracy": tuple(published["validation_accuracy"]) if published else None,
        "accuracy": percent([record["accuracy"] for record in records]),
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for programs, with means and standard deviations in separate columns."""
    flat = dict(row)
    for name in ("validation_accuracy", "paper_validation_accuracy", "accuracy"):
        flat[name], flat[f"{name}_std"] = row[name] or (None, None)
    return flat


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """Return a row for readers, with rounded numbers as text."""
    return {
        "dataset": row["dataset"],
        "λ_0": f"{row['l1']:g}",
        "method": row["method"],
        "seeds": str(row["seeds"]),
        "network": row["setting"],
        "validation accuracy": show(row["validation_accuracy"]),
        "paper's": show(row["paper_validation_accuracy"]),
        "test accuracy": show(row["accuracy"]),
    }
