"""The estimators' results as a page of the documentation; every number in it was measured."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import machine_line, table

NOISY_TABLES, FIT_TIMES = Path("results/estimators/noisy_tables.jsonl"), Path("results/estimators/fit_times.json")
PAGE = Path("docs/lab/estimators.md")


def render(noisy_tables: Sequence[dict[str, Any]], fit_times: dict[str, Any]) -> str:
    """Return the page as Markdown.

    Args:
        noisy_tables: the results of `mgce_lab.studies.noisy_tables`, those on a data set one after the other.
        fit_times: the results of `mgce_lab.studies.fit_times`.
    """
    parts = [
        "# Estimators, measured",
        "This page supports [Estimators](../estimators.md).",
        "## Tables with wrong labels",
        "Symmetric noise makes 40 % of the training labels wrong. Test labels are right. Each estimator has the "
        "defaults of its library. But both multilayer perceptrons use `1024` hidden units and early stopping, and "
        "`LogisticRegression` has `max_iter=1000`. Accuracies and expected calibration errors (ECE) are percentages, "
        "mean ± standard deviation over three seeds, by the [probabilities](../theory.md#two-probabilities) h or p. "
        "Seconds are of one fit on two cores. `python -m mgce_lab.studies.noisy_tables` measures again.",
        f"Measured on: `{noisy_tables[0]['machine']}`.",
        *(_noisy(dataset, list(rows)) for dataset, rows in groupby(noisy_tables, key=lambda row: row["dataset"])),
        "## Time of fits",
        "Times are medians, and estimators took turns. The second table is of all rows of letter. "
        "`python -m mgce_lab.studies.fit_times` measures again.",
        machine_line(fit_times["machine"]),
        _growth(fit_times["growth"]),
        _linear(fit_times["linear"]),
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
        lines.append([f"`{name}`", chosen, *measures, f"{seconds:.1f}"])
    header = [dataset, "beta", "accuracy", "ECE (h)", "ECE (p)", "seconds"]
    return table(header, lines)


def _percent(values: list[float]) -> str:
    if not values:
        return ""
    deviation = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.2f}{deviation}"


def _growth(results: list[dict[str, Any]]) -> str:
    rows = []
    for result in results[::3]:  # the smallest, and the most rows, features and classes
        logistic, ours = (result["seconds"][name] for name in ("LogisticRegression", "MGCEClassifier"))
        sizes = [f"{result[name]:,}" for name in ("n", "d", "k")]
        rows.append([*sizes, f"{logistic:.2f}", f"{ours:.2f}", f"{ours / logistic:.1f}"])
    text = "Simulated rows, a fifth with wrong labels: n rows, d features, k classes."
    header = ["n", "d", "k", "`LogisticRegression`, seconds", "`MGCEClassifier`, seconds", "ratio"]
    return text + "\n\n" + table(header, rows)


def _linear(results: list[dict[str, Any]]) -> str:
    rows = []
    for result in results[-1:]:  # the closest to the optimum
        seconds, iterations = result["seconds"], result["iterations"]
        saga = seconds["LogisticRegression"]
        for name, taken in seconds.items():
            shown = "L1 `LogisticRegression`, saga" if name == "LogisticRegression" else f"`MGCEClassifier`, {name}"
            rows.append([shown, f"{result['target']:g}", str(iterations[name]), f"{taken:.2f}", f"{taken / saga:.2f}"])
    text = "Linear models with an L1 penalty, each fitted to the same relative distance from its own optimum."
    return text + "\n\n" + table(["", "above the optimum", "iterations", "seconds", "over saga"], rows)


def main() -> None:
    """Write the page from the results that were saved last, once both files are there."""
    if NOISY_TABLES.exists() and FIT_TIMES.exists():
        rows = [json.loads(line) for line in NOISY_TABLES.read_text().splitlines()]
        PAGE.write_text(render(rows, json.loads(FIT_TIMES.read_text())))


if __name__ == "__main__":
    main()
