"""`mgce fit` on tables with a column of text, beside logistic regression of TF-IDF: `mgce_lab.studies.unseen_text`.

The texts are questions to a bank, banking77 of Casanueva et al., "Efficient intent detection with dual sentence
encoders", 2020, under CC BY 4.0. `--data-dir` or `MGCE_DATA_DIR` names the folder that has text/banking77-train.csv and
text/banking77-test.csv, of PolyAI-LDN/task-specific-datasets. Its own labels are known to be a few percent wrong.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from cleanlab.classification import CleanLearning
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mgce_lab.studies.opponents import by_folds
from mgce_lab.studies.tables import TRAIN, Rows
from mgce_lab.studies.unseen import OURS, SEED, by_opponent, complete, ours
from mgce_lab.studies.unseen_tables import corrupted

RESULTS = Path("results/unseen/text.jsonl")
RATES = (0.0, 0.2, 0.4)  # of symmetric noise
TEXTS = ("ten intents", "ten intents, numbers", "two groups", "all 77 intents")
TRAIN_OF_ALL = 2_000  # rows for 77 classes: a thousand would be 13 of each
# A column of numbers has the mean of the row's class, drawn from a standard normal distribution, in half of the
# columns, and noise of this standard deviation: one alone tells little.
COLUMNS, SPREAD = 8, 2.0


def main() -> None:
    """Fit, measure, and write each result as it comes."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.unseen_text", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("MGCE_DATA_DIR"))
    parser.add_argument("--tables", nargs="+", default=TEXTS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    folder = Path(options.data_dir or ".", "text")
    if not (folder / "banking77-train.csv").exists():
        raise SystemExit(f"Skipped: no banking77-train.csv in {folder}. --data-dir names the folder that has text/.")
    warnings.simplefilter("ignore")  # of solvers that did not converge, and of classes too rare for the folds
    torch.set_num_threads(1)
    for name in options.tables:
        for rate in RATES:
            cell = {"table": name, "noise": "symmetric", "rate": rate, "seed": SEED}
            complete(cell, lambda: text_rows(name, rate, folder), METHODS, options.results)  # noqa: B023


def text_rows(name: str, rate: float, folder: Path) -> Rows:
    """Return training rows of which a share has wrong labels, and test rows with the labels as published."""
    train, test = (pd.read_csv(folder / f"banking77-{part}.csv") for part in ("train", "test"))
    generator = np.random.default_rng(SEED)
    if name.startswith("ten intents"):
        kept = generator.choice(np.unique(train["category"]), 10, replace=False)
        train, test = (part[part["category"].isin(kept)] for part in (train, test))
    train = train.sample(min(len(train), TRAIN_OF_ALL if name == "all 77 intents" else TRAIN), random_state=SEED)
    named = [part["category"] for part in (train, test)]
    if name == "two groups":
        named = [part.str.contains("card").map({True: "card", False: "other"}) for part in named]
    classes = np.unique(named[0])
    right, y_test = (np.searchsorted(classes, part) for part in named)
    X, X_test = (part[["text"]].reset_index(drop=True) for part in (train, test))
    if name.endswith("numbers"):
        means = generator.standard_normal((len(classes), COLUMNS)) * (np.arange(COLUMNS) % 2)
        for part, labels in ((X, right), (X_test, y_test)):
            part[[f"x{i}" for i in range(COLUMNS)]] = means[labels] + SPREAD * generator.standard_normal(
                (len(labels), COLUMNS)
            )
    y = corrupted(None, right, len(classes), "symmetric", rate, SEED)
    return Rows(X.assign(label=[f"{label:02d}" for label in y]), X, y, y != right, X_test, X_test, y_test)


def linear(X: Any, C: float = 1.0) -> Any:
    """Return logistic regression of TF-IDF and of numbers, not fitted."""
    numbers = [column for column in X.columns if column != "text"]
    features = ColumnTransformer([("text", TfidfVectorizer(), "text"), ("numbers", StandardScaler(), numbers)])
    return make_pipeline(features, LogisticRegression(C=C, max_iter=1000))


def by_c(X: Any, y: Any, seed: int) -> Any:
    """Choose C by noisy folds."""
    return by_folds(lambda _: linear(X), {"logisticregression__C": [0.1, 1, 10, 100]})(X, y, seed)


def clean_learning(X: Any, y: Any, seed: int) -> Any:
    """CleanLearning of what `by_c` chose."""
    chosen = by_c(X, y, seed)[-1].C
    return CleanLearning(linear(X, chosen), seed=seed).fit(X, y).clf


METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    OURS: ours,
    "TF-IDF, logistic regression": by_opponent(by_c),
    "CleanLearning of it": by_opponent(clean_learning),
}

if __name__ == "__main__":
    main()
