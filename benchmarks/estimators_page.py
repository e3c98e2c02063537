"""The estimators' results as a page of the documentation; every number in it was measured."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.markdown import machine_line, table

NOISY_TABLES, FIT_TIMES = Path("results/estimators/noisy_tables.jsonl"), Path("results/estimators/fit_times.json")
PAGE = Path("docs/estimators.md")


def render(noisy_tables: Sequence[dict[str, Any]], fit_times: dict[str, Any]) -> str:
    """Give the page as Markdown.

    Args:
        noisy_tables: the results of `benchmarks.noisy_tables`, those on a data set one after the other.
        fit_times: the results of `benchmarks.fit_times`.
    """
    parts = [
        "# Estimators",
        "## Tables with wrong labels",
        "40 % of the training labels are wrong, symmetrically; the test labels are right. Every estimator has the same "
        "rows and labels, in the settings of its library but for these: 1024 hidden units and early stopping for both "
        "multilayer perceptrons, 1000 iterations for LogisticRegression. Percent, mean ± standard deviation over the "
        "seeds; ECE is that of the top label; h: minimax, p: worst-case probabilities, which are calibrated for labels "
        "as noisy as those trained on. Median seconds of a fit, one after the other on two cores. "
        "`python -m benchmarks.noisy_tables` measures again.",
        f"Measured on: {noisy_tables[0]['machine']}.",
        *(_noisy(dataset, list(rows)) for dataset, rows in groupby(noisy_tables, key=lambda row: row["dataset"])),
        "## Time of fits",
        "On letter, 20,000 rows; contestants taking turns, medians. `python -m benchmarks.fit_times` measures again.",
        machine_line(fit_times["machine"]),
        _linear(fit_times["linear"]),
        _cross_validation(fit_times["cv"]),
        _batched(fit_times["batched"]),
    ]
    return "\n\n".join(parts) + "\n"


def _noisy(dataset: str, rows: list[dict[str, Any]]) -> str:
    names = dict.fromkeys(row["estimator"] for row in rows)
    lines = []
    for name in names:
        mine = [row for row in rows if row["estimator"] == name]
        seconds = statistics.median(row["seconds"] for row in mine)
        measures = [_percent([row[key] for row in mine if key in row]) for key in ("accuracy", "ece", "ece_p")]
        betas = sorted({float(row["beta"]) for row in mine if "beta" in row})
        chosen = " to ".join(f"{beta:g}" for beta in dict.fromkeys((betas[0], betas[-1]))) if betas else ""
        lines.append([f"`{name}`", chosen, *measures, f"{seconds:.1f}", str(len(mine))])
    header = [dataset, "beta", "accuracy", "ECE (h)", "ECE (p)", "seconds", "seeds"]
    accuracy = {n: statistics.fmean(row["accuracy"] for row in rows if row["estimator"] == n) for n in names}
    ranked = ", ".join(f"`{name}`" for name in sorted(accuracy, key=accuracy.__getitem__, reverse=True))
    return table(header, lines) + f"\n\nBy mean accuracy: {ranked}."


def _percent(values: list[float]) -> str:
    if not values:
        return ""
    deviation = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.2f}{deviation}"


def _linear(results: list[dict[str, Any]]) -> str:
    rows = []
    for result in results:
        seconds, iterations = result["seconds"], result["iterations"]
        saga = seconds["LogisticRegression"]
        for name, taken in seconds.items():
            shown = "L1 `LogisticRegression`, saga" if name == "LogisticRegression" else f"`MGCEClassifier`, {name}"
            rows.append([shown, f"{result['target']:g}", str(iterations[name]), f"{taken:.2f}", f"{taken / saga:.2f}"])
    text = (
        "Complete fits that end as near to the optimum of their own objective, relative; the mean penalty is the same."
    )
    return text + "\n\n" + table(["", "above the optimum", "iterations", "seconds", "over saga"], rows)


def _cross_validation(result: dict[str, Any]) -> str:
    seconds = result["seconds"]
    return (
        f'`MGCEMLPClassifier(beta="cv")` over {len(result["betas"])} betas, {result["epochs"]} epochs: '
        f"{seconds['all at once']:.2f} s; as many fits of one beta each: {seconds['eight fits']:.2f} s; ratio "
        f"{seconds['all at once'] / seconds['eight fits']:.2f}."
    )


def _batched(result: dict[str, Any]) -> str:
    seconds = result["seconds"]
    return (
        f"The {result['networks']} networks of a seed and a noise rate of Table 3, {result['epochs']} epochs: "
        f"{seconds['batched']:.2f} s in batches; {seconds['one at a time']:.2f} s one at a time with PyTorch's modules "
        f"and optimizer; {seconds['one at a time'] / seconds['batched']:.1f} times faster."
    )


def main() -> None:
    """Write the page from the results that were saved last, once both files are there."""
    if NOISY_TABLES.exists() and FIT_TIMES.exists():
        rows = [json.loads(line) for line in NOISY_TABLES.read_text().splitlines()]
        PAGE.write_text(render(rows, json.loads(FIT_TIMES.read_text())))


if __name__ == "__main__":
    main()
