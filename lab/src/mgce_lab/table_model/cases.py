"""Tables on which the transformer was expected to fail: `python -m mgce_lab.table_model.cases --data-dir DATA`.

Word counts of questions to a bank, 1,280 embedding columns of CIFAR-10, and 5,000 rows of letters, each with right and
with wrong labels, beside a forest and logistic regression that folds tuned. Each finished cell is a line of
`results/table-model/cases.jsonl`: a run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer

from mgce_lab.data import load
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table
from mgce_lab.table_model.measure import MOST_CLASSES, WEIGHTS, Split, corrupted, named, timed

RESULTS = Path("results/table-model/cases.jsonl")
NOISES = (("symmetric", 0.0), ("symmetric", 0.2), ("pair", 0.4))
BAGS, TEST = 4, 1_000
METHODS = {"transformer": named(WEIGHTS, BAGS), "forest": "forest", "logistic regression": "logistic"}


def main() -> None:
    """Measure what has no result yet."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.table_model.cases", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of text/, embeddings/ and uci/")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of solvers that did not converge
    lines = Lines(RESULTS, "case", "noise", "rate", "method")
    given = argparse.Namespace(weights=[WEIGHTS], bags=BAGS)
    for method in options.methods:
        for case, split in CASES.items():
            data = split(options.data_dir)
            for noise, rate in NOISES:
                cell = {"case": case, "noise": noise, "rate": rate, "method": method}
                if cell not in lines:
                    labels = corrupted(data.X, data.right, MOST_CLASSES, noise, rate, 0)
                    sizes = {"rows": len(data.X), "columns": data.X.shape[1]}
                    lines.add(cell | sizes | timed(METHODS[method], given, data, labels, 0))


def _counts(data_dir: Path) -> Split:
    parts = []
    for part in ("train", "test"):
        with (data_dir / "text" / f"banking77-{part}.csv").open(encoding="utf-8") as file:
            rows = [*csv.DictReader(file)]
        names = sorted({row["category"] for row in rows})[:MOST_CLASSES]
        known = [(row["text"], names.index(row["category"])) for row in rows if row["category"] in names]
        parts.append([known[place] for place in np.random.default_rng(0).permutation(len(known))[:TEST]])
    counts = CountVectorizer(min_df=2).fit([text for text, _ in parts[0]])
    X, X_test = (counts.transform([text for text, _ in part]).toarray().astype(float) for part in parts)
    return _split(X, X_test, *(np.array([label for _, label in part]) for part in parts))


def _embeddings(data_dir: Path) -> Split:
    with np.load(data_dir / "embeddings" / "train-0-6000.npz") as data:
        X, y = data["x"].astype(float), data["y"]
    return _split(X[:1_000], X[1_000 : 1_000 + TEST], y[:1_000], y[1_000 : 1_000 + TEST])


def _letters(data_dir: Path) -> Split:
    data = load("letter")
    codes = np.unique(data.target, return_inverse=True)[1]
    kept = np.random.default_rng(0).permutation(np.flatnonzero(codes < MOST_CLASSES))[: 5_000 + TEST]
    X, y = np.asarray(data.features, dtype=float)[kept], codes[kept]
    return _split(X[:5_000], X[5_000:], y[:5_000], y[5_000:])


def _split(X: Any, X_test: Any, y: Any, y_test: Any) -> Split:
    both = torch.from_numpy(np.concatenate([X, X_test]))
    return Split(X, X_test, both, torch.zeros(X.shape[1], dtype=torch.bool), y, y_test)


CASES: dict[str, Callable[[Path], Split]] = {
    "word counts": _counts,
    "embeddings": _embeddings,
    "letters": _letters,
}


def render(records: list[dict[str, Any]]) -> str:
    """Return the table of the page: accuracy, and average precision of suspects in brackets."""
    found = {(r["case"], r["method"], r["noise"], r["rate"]): r for r in records}
    rows = []
    for case in CASES:
        for method in METHODS:
            cells = [found.get((case, method, *noise)) for noise in NOISES]
            own = [cell for cell in cells if cell]
            if own:
                size = f"{own[0]['rows']:,} x {own[0]['columns']:,}"
                seconds = f"{np.mean([cell['seconds'] for cell in own]):.0f}"
                rows.append([f"{case}, {size}: {method}", *map(_shown, cells), seconds])
    heads = ["right labels", *(f"{noise} {rate:.0%}".replace("%", " %") for noise, rate in NOISES[1:])]
    return table(["", *heads, "seconds"], rows) + "\n"


def _shown(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return ""
    return f"{100 * cell['accuracy']:.1f}" + (f" ({100 * cell['ap']:.1f})" if "ap" in cell else "")


if __name__ == "__main__":
    main()
