"""The estimators' results as a page of the documentation; every number in it was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mgce_lab.engine.markdown import machine_line, table

FIT_TIMES = Path("results/estimators/fit_times.json")
PAGE = Path("docs/lab/estimators.md")


def render(fit_times: dict[str, Any]) -> str:
    """Return the page as Markdown, of the results of `mgce_lab.studies.fit_times`."""
    parts = [
        "# Estimators, measured",
        "This page supports [Estimators](../estimators.md). Accuracies are on [the page of the suite](suite.md).",
        "Times are medians; the estimators took turns. The second table is about all rows of the data set letter. "
        "`python -m mgce_lab.studies.fit_times` measures again.",
        machine_line(fit_times["machine"]),
        _growth(fit_times["growth"]),
        _linear(fit_times["linear"]),
    ]
    return "\n\n".join(parts) + "\n"


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
    """Write the page from the results that were saved last."""
    PAGE.write_text(render(json.loads(FIT_TIMES.read_text())))


if __name__ == "__main__":
    main()
