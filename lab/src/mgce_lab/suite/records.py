"""What each model does on each cell: `python -m mgce_lab.suite.records --cache FOLDER` writes a line for each cell.

The lines hold figures alone, no row of a table. `results/suite` keeps a file for each list and number of rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from mgce.labels.doubtful import doubtful_labels
from mgce_lab.suite.cache import Cached, cached
from mgce_lab.suite.choice import RESULTS, check_readable
from mgce_lab.suite.opponents import ENTRANTS, OPPONENTS, OURS
from mgce_lab.suite.rankings import margin, not_given
from mgce_lab.suite.tables import LISTS

VOTE = "soft vote"  # of the forest and the SVM
LEAST = 1e-3  # of a probability in the log-loss: an SVM's zero would decide the mean of all cells
EDGES = (0, 0.05, 0.2, 0.5, 0.7, 0.8, 0.9, 1.01)  # of stated probabilities that a label is wrong
BINS = 15  # of the expected calibration error, as elsewhere


def record_of(cell: Cached) -> dict[str, Any]:
    """Return the figures of a cell: by model, by score, and of the stated probabilities."""
    k = cell.own[OURS].shape[1]
    new = {name: cell.new[name].astype(np.float64) for name in ENTRANTS}
    new[VOTE] = (new["forest"] + new["svm"]) / 2
    found: dict[str, Any] = {"table": cell.table, "kind": cell.kind, "rate": cell.rate, "classes": k}
    found["rows"] = len(cell.given)
    found["models"] = {name: _of_model(probs, cell.test) for name, probs in new.items()}
    for name, seconds in cell.seconds.items():
        found["models"][name]["seconds"] = round(seconds, 2)
    wrong = cell.given != cell.right
    judged = doubtful_labels(cell.own[OURS].astype(np.float64), cell.given)
    if wrong.any():
        scores = {OURS: judged.wrong}
        for name in OPPONENTS:
            own = cell.own[name].astype(np.float64)
            scores |= {f"{name}, 1 - p": not_given(own, cell.given), f"{name}, margin": margin(own, cell.given)}
        found["precision"] = {
            name: round(100 * float(average_precision_score(wrong, score)), 2) for name, score in scores.items()
        }
    stated = [(judged.wrong >= low) & (judged.wrong < high) for low, high in itertools.pairwise(EDGES)]
    found["stated"] = [[int(some.sum()), int(wrong[some].sum())] for some in stated]
    found["share"] = {"wrong": int(wrong.sum()), "issues": int(judged.is_issue.sum())}
    found["share"]["left"] = int(wrong[~judged.is_issue].sum())
    found["share"]["told"] = round(float(judged.wrong[~judged.is_issue].sum()), 1)
    found["share"]["estimate"] = round(float(judged.wrong.sum()), 1)
    found["share"]["upper"] = round(judged.share.upper, 4) if judged.share else None
    return found


def _of_model(probs: Any, right: Any) -> dict[str, float]:
    rows = np.arange(len(right))
    p = probs / np.maximum(probs.sum(1, keepdims=True), LEAST)
    hit = p.argmax(1) == right
    confidence = p.max(1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.abs(np.bincount(bins, confidence - hit, BINS)).sum() / len(right)
    return {
        "accuracy": round(100 * float(hit.mean()), 2),
        "balanced": round(100 * float(np.mean([hit[right == label].mean() for label in np.unique(right)])), 2),
        "log_loss": round(float(-np.log(np.maximum(p[rows, right], LEAST)).mean()), 4),
        "ece": round(100 * float(gaps), 2),
    }


def main() -> None:
    """Write the records of the cells that are there."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.suite.records", description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of the files of `mgce_lab.suite.cache`")
    parser.add_argument("--list", choices=list(LISTS), default="choosing")
    parser.add_argument("--size", type=int, default=1000, help="training rows")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    check_readable(options.list)
    cells = cached(options.cache, options.size, options.seed, LISTS[options.list])
    lines = [json.dumps(record_of(cell)) for cell in cells]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{options.list}-{options.size}.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} cells")


if __name__ == "__main__":
    main()
