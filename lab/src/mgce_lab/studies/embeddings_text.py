"""Heads on texts as 300 numbers, TF-IDF and singular vectors: the models of `mgce_lab.studies.embeddings` on banking77.

`python -m mgce_lab.studies.embeddings_text --data-dir DATA` fits three disjoint sets of 3,200 training questions, 77
classes, to right labels and to labels of which 20 % or 40 % are wrong by symmetric noise. The 3,080 test questions have
right labels. Each fit is a line of `results/embeddings/texts/SET.jsonl`; a run that is stopped goes on. Tables are
printed.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table
from mgce_lab.studies import embedding_models
from mgce_lab.studies.embedding_models import OURS, Split, cleaned, difference, line_of, logistic, tuned

RECORDS = Path(__file__).parents[4] / "results" / "embeddings" / "texts"
ROWS, SETS, COMPONENTS = 3200, 3, 300
NOISES = {"right": 0.0, "sym20": 0.2, "sym40": 0.4}
# Standardised, these rows have shorter means than those of pictures: the best C is larger, and must lie inside.
PENALTIES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)
BOOSTING = "boosting, 50 components"  # 77 trees a step, for a quarter of an hour: set 1 alone
MODELS: dict[str, Callable[[], Any]] = {
    **embedding_models.MODELS,
    "logistic regression": lambda: tuned(logistic(), C=list(PENALTIES)),
    "CleanLearning": lambda: cleaned(PENALTIES),
}
JUDGES = {"logistic regression": MODELS["logistic regression"](), "LDA, Ledoit-Wolf": MODELS["LDA, Ledoit-Wolf"]()}


def main() -> None:
    """Fit what is not there yet, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.embeddings_text", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder of text/banking77-train.csv, to fit")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--sets", type=int, nargs="+", default=list(range(1, SETS + 1)))
    options = parser.parse_args()
    if options.data_dir is not None:
        torch.set_num_threads(1)
        for number in options.sets:
            _run(options, number)
    print(section())


def _run(options: argparse.Namespace, number: int) -> None:
    lines = Lines(RECORDS / f"{number}.jsonl", "set", "noise", "model")
    for name in options.models if number == 1 else [name for name in options.models if name != BOOSTING]:
        for noise in NOISES:
            cell = {"set": number, "noise": noise, "model": name}
            if cell not in lines:
                split = drawn(options.data_dir, number, noise)
                lines.add(cell | line_of(MODELS[name], JUDGES, name, split), unseen=["wrong"])


def drawn(data_dir: Path, number: int, noise: str) -> Split:
    """Return one set: questions as numbers, reduced without their labels, and the labels under a noise."""
    words, labels = _read(data_dir, "train")
    order = np.random.default_rng(0).permutation(len(words))[(number - 1) * ROWS : number * ROWS]
    test_words, test_labels = _read(data_dir, "test")
    train_words = [words[row] for row in order]
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2).fit(train_words)
    reduced = TruncatedSVD(COMPONENTS, random_state=0).fit(vectorizer.transform(train_words))
    train, test = (
        reduced.transform(vectorizer.transform(part)).astype(np.float32) for part in (train_words, test_words)
    )
    names, right_test = np.unique(test_labels, return_inverse=True)
    right = np.searchsorted(names, np.array(labels)[order])
    return Split(train, symmetric(right, len(names), number, NOISES[noise]), right, test, right_test)


def symmetric(right: NDArray[np.int64], k: int, number: int, rate: float) -> NDArray[np.int64]:
    """Return labels of which a share is wrong, each of the other classes as probable as the next."""
    rng = np.random.default_rng([number, round(100 * rate)])
    return np.where(rng.random(len(right)) < rate, (right + rng.integers(1, k, len(right))) % k, right)


def _read(data_dir: Path, part: str) -> tuple[list[str], list[str]]:
    with (data_dir / "text" / f"banking77-{part}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["category"] for row in rows]


def records() -> list[dict[str, Any]]:
    """Return the lines that are there."""
    return [json.loads(line) for path in sorted(RECORDS.glob("*.jsonl")) for line in path.read_text().splitlines()]


def section() -> str:
    """Return the tables as Markdown; "" before there are results."""
    lines = records()
    cells = {(line["noise"], line["model"], line["set"]): line for line in lines}
    sets = sorted({line["set"] for line in lines})
    if not sets:
        return ""
    names = [name for name in MODELS if any(line["model"] == name for line in lines)]
    header = ["model", *("right labels" if rate == 0 else f"symmetric {100 * rate:.0f} %" for rate in NOISES.values())]

    def cell(name: str, noise: str, key: str, digits: str) -> str:
        found = [line[key] for line in lines if (line["model"], line["noise"]) == (name, noise) and key in line]
        return format(np.mean(found), digits).rstrip("%") if found else ""

    measured = {name: len({line["set"] for line in lines if line["model"] == name}) for name in names}
    whole = [name for name in names if measured[name] == len(sets)]

    def of_sets(name: str) -> str:
        return name if name in whole else f"{name} ({measured[name]} of {len(sets)} sets)"

    def rows(key: str, digits: str, shown: Sequence[str], noises: Sequence[str]) -> list[list[str]]:
        return [[of_sets(name), *(cell(name, noise, key, digits) for noise in noises)] for name in shown]

    def seconds(name: str) -> str:
        return format(np.mean([line["seconds"] for line in lines if line["model"] == name]), ".1f")

    paired = [[label, *difference(cells, sets, noise, whole)] for label, noise in zip(header[1:], NOISES, strict=True)]
    parts = [
        "## Texts",
        f"Percent right on the test questions of banking77. Training sets of {ROWS:,} questions: {len(sets)}.\n"
        "Features are TF-IDF, reduced by singular values without the labels.",
        table(
            [*header, "seconds"],
            [
                [*row, seconds(name)]
                for name, row in zip(names, rows("accuracy", ".1%", names, list(NOISES)), strict=True)
            ],
        ),
        f"`{OURS}` minus the best of the baselines that were measured on all training sets, in points:",
        table(["labels", "best baseline", "difference", "interval"], paired),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
