"""How well scores of doubt rank wrong labels: `python -m mgce_lab.suite.rankings --cache FOLDER`.

A score is of the given labels and of probabilities out of fold. Average precision is in percent, a mean over tables.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from mgce.labels.doubtful import doubtful_labels
from mgce_lab.engine.markdown import table
from mgce_lab.suite.cache import Cached, cached
from mgce_lab.suite.opponents import ENTRANTS, TRANSFORMER
from mgce_lab.suite.tables import CHOOSING

Score = Callable[[Any, Any], Any]
# Whose probabilities are averaged.
SOURCES = {
    "forest": ("forest",),
    "SVM": ("svm",),
    "forest and SVM": ("forest", "svm"),
    "all three": ("forest", "svm", "logistic"),
    "the model of `mgce fit`": ("mgce",),
}


def not_given(probs: Any, given: Any) -> Any:
    """Return 1 minus the probability of the given label."""
    return 1 - probs[np.arange(len(given)), given]


def margin(probs: Any, given: Any) -> Any:
    """Return by how much the most probable other class is more probable than the given label."""
    rows, others = np.arange(len(given)), probs.copy()
    others[rows, given] = -1
    return others.max(1) - probs[rows, given]


def of_the_package(probs: Any, given: Any) -> Any:
    """Return a score with the order of `mgce.labels.DoubtfulLabels`."""
    labels = doubtful_labels(probs, given)
    score = np.empty(len(given))
    score[labels.order] = -np.arange(len(given))
    return score


SCORES: dict[str, Score] = {"mgce": of_the_package, "1 - p of the label": not_given, "margin": margin}


def precisions(
    cells: Iterable[Cached],
    scores: Mapping[str, Score] = SCORES,
    sources: Mapping[str, tuple[str, ...]] = SOURCES,
) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return the average precision of each source and score by the kind of noise, a number for each table."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        wrong = cell.given != cell.right
        if not wrong.any():
            continue
        for source, names in sources.items():
            probs = np.mean([cell.own[name] for name in names], axis=0, dtype=np.float64)
            probs /= probs.sum(1, keepdims=True)
            for name, score in scores.items():
                precision = average_precision_score(wrong, score(probs, cell.given))
                found[source, name][f"{cell.kind} {cell.rate:.0%}"].append(100 * float(precision))
    return {key: dict(by_kind) for key, by_kind in found.items()}


def render(found: Mapping[tuple[str, str], Mapping[str, list[float]]]) -> str:
    """Return means over tables as Markdown, with the number of tables in the first row."""
    kinds = list(next(iter(found.values())))
    counts = ["", "tables", *(str(len(next(iter(found.values()))[kind])) for kind in kinds), ""]
    rows = []
    for (source, name), by_kind in found.items():
        means = [float(np.mean(by_kind[kind])) for kind in kinds]
        rows.append([source, name, *(f"{mean:.1f}" for mean in means), f"{np.mean(means):.1f}"])
    return table(["probabilities", "score", *kinds, "mean"], [counts, *rows])


def main() -> None:
    """Print the table of the cells that are there."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.suite.rankings", description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of the files of `mgce_lab.suite.cache`")
    parser.add_argument("--size", type=int, default=1000, help="training rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--transformer", action="store_true", help="with the transformer, on the cells that it has")
    options = parser.parse_args()
    sources, entrants = SOURCES, ENTRANTS
    if options.transformer:
        sources, entrants = SOURCES | {TRANSFORMER: (TRANSFORMER,)}, (*ENTRANTS, TRANSFORMER)
    cells = cached(options.cache, options.size, options.seed, CHOOSING, entrants)
    print(render(precisions(cells, sources=sources)))


if __name__ == "__main__":
    main()
