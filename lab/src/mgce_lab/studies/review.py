"""The loop of `mgce review` with a person who knows the right labels: `python -m mgce_lab.studies.review`.

Rows of three public tables get wrong labels. The simulated person goes through the first 50, 100 and 200 rows of the
page, suspects and rows drawn at random in turn, and `mgce fit --checked` takes the decisions. Each result is a line in
results/review/loop.jsonl; the table of docs/lab/review.md is made of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from mgce import noise
from mgce.desk.files import preprocessor
from mgce.desk.review.decision_file import Decision
from mgce.desk.review.sheet import chosen
from mgce.desk.review.suspect_file import read_suspects
from mgce.desk.tables.fit import About, FitPlan, TableFit, run
from mgce.desk.tables.listing import suspects_csv
from mgce_lab.data import load
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table, write_between

RESULTS, PAGE = Path("results/review/loop.jsonl"), Path("docs/lab/review.md")
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
TABLES = ("digits", "letter", "adult")  # ten, 26 and two classes
RATE = 0.2
TRAIN, TEST = 1000, 1000  # rows, at most
CHECKED = (0, 50, 100, 200)
SHOWN = {
    "accuracy": "accuracy",
    "wrong_left": "wrong left",
    "wrong_left_at_most": "wrong left, at most",
    "error_at_most": "errors, at most",
    "width": "above the error",
}
MODEL = "forest"  # the quickest of the good ones: each cell fits four times


class Rows(NamedTuple):
    """Training rows with labels partly wrong, as a table and as numbers, and test rows with right labels."""

    frame: Any
    X: Any
    y: Any
    is_wrong: Any
    test_frame: Any
    X_test: Any
    y_test: Any


def main() -> None:
    """Measure what has no result yet, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.review", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of classes too rare for the folds
    torch.set_num_threads(1)
    lines = Lines(RESULTS, "table", "seed")
    for seed in range(options.seeds):
        for name in TABLES:
            if {"table": name, "seed": seed} in lines:
                continue
            rows, clean = (noisy_rows(name, "symmetric", rate, seed, options.data_dir) for rate in (RATE, 0.0))
            for record in list(measure(rows, _names(clean.y), seed)):
                lines.add({"table": name, "rate": RATE, "seed": seed, "model": MODEL, **record})
    write_page()


def measure(rows: Rows, right: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what is known after each number of checked rows, by the right label of each training row."""
    plan = FitPlan("label", seed=seed, model=MODEL)
    first = run(rows.frame, plan)
    decisions = _decided(first, right)
    for n in CHECKED:
        fit = run(rows.frame, plan, about=About(decisions=decisions[:n])) if n else first
        features = fit.model.columns.select(rows.test_frame)
        error, of_measured = (
            float(np.mean(model.predict(features).label != _names(rows.y_test))) for model in (fit.model, fit.measured)
        )
        labels = rows.frame["label"].to_numpy(dtype=str)
        if fit.checked is not None:
            labels[list(fit.checked.labels)] = [*fit.checked.labels.values()]
        found = fit.findings
        bound = None if found is None or found.error is None else found.error
        yield {
            "checked": n,
            "accuracy": round(1 - error, 5),
            "wrong_left": round(float((labels != right).mean()), 5),
            "wrong_left_at_most": None if found is None or found.left is None else round(found.left, 5),
            "held_out_checked": 0 if bound is None else bound.n,
            "error_at_most": None if bound is None else round(bound.upper, 5),
            "width": None if bound is None else round(bound.upper - of_measured, 5),
        }


def _names(labels: Any) -> Any:
    """Name classes as `noisy_rows` does."""
    return np.array([f"{label:02d}" for label in labels])


def _decided(fit: TableFit, right: Any) -> list[Decision]:
    """Return what a person who knows the right labels decides, in the order of the page."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.suspects.csv")
        path.write_bytes(suspects_csv(fit.judgement, fit.row_names, fit.listing))
        shown = chosen(read_suspects(path), most=5000, n_random=max(CHECKED))
    decisions = []
    for one in shown:
        each, label = one.suspect, str(right[int(one.suspect.name) - 1])
        what = "keep" if label == each.given else "suggestion" if label == each.alternative else "other"
        decisions.append(Decision(each.key, each.given, what, label, one.is_random, each.draw, each.draw_probability))
    return decisions


def write_page() -> None:
    """Write the table into the page."""
    write_between(PAGE, BEGIN, render([json.loads(line) for line in RESULTS.read_text().splitlines()]), END)
    print(f"Written to {PAGE}.")


def render(records: Sequence[dict[str, Any]]) -> str:
    """Return the table of the means over seeds, in percent, as Markdown."""
    lines = []
    for name in TABLES:
        for n in CHECKED:
            of = [record for record in records if (record["table"], record["checked"]) == (name, n)]
            lines.append([name, str(n), *(_mean(of, key) for key in SHOWN)])
    head = ["table", "checked", *SHOWN.values()]
    return table(head, lines) + "\n"


def _mean(records: Sequence[dict[str, Any]], key: str) -> str:
    values = [record[key] for record in records if record[key] is not None]
    return f"{100 * statistics.mean(values):.1f}" if values else ""


def noisy_rows(table: str, kind: str, rate: float, seed: int, data_dir: Path | None) -> Rows:
    """Draw training and test rows, and make training labels wrong at a rate."""
    data = load(table, data_dir=data_dir)
    k = len(data.classes)
    order = np.random.default_rng(seed).permutation(len(data.target))
    n_test = min(TEST, len(order) // 4)
    test, train = order[:n_test], order[n_test : n_test + TRAIN]
    transition = noise.symmetric(k, rate) if kind == "symmetric" else noise.pair_flip(k, rate)
    right = torch.from_numpy(data.target[train])
    y = noise.corrupt(right, transition, torch.Generator().manual_seed(seed)).labels.numpy()
    transform = preprocessor(data.features).fit(data.features.iloc[train])
    # Two digits, so that their order as text is that of the classes.
    frame = data.features.iloc[train].assign(label=[f"{label:02d}" for label in y]).reset_index(drop=True)
    X, X_test = (transform.transform(data.features.iloc[part]) for part in (train, test))
    return Rows(frame, X, y, y != right.numpy(), data.features.iloc[test], X_test, data.target[test])


if __name__ == "__main__":
    main()
