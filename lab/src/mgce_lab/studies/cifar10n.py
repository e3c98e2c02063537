"""The labels that people gave to CIFAR-10's training set, and models that learnt from some of them.

It is read from frozen features, files `train-FROM-TO-128.npz` with arrays x and y in a folder EMBEDDINGS, and from
`CIFAR-10_human.pt` in a folder CIFARN. Models see the labels that people gave to the first 6,000 rows. All later rows
are the world: samples of it are drawn with replacement; rates, T and true errors are its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

IntArray = NDArray[np.int64]
LABELS = {"worst": "worse_label", "random": "random_label1", "aggregate": "aggre_label"}
MODELS: dict[str, Callable[[], Any]] = {
    "LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "logistic": lambda: LogisticRegression(C=1e-3, max_iter=200),
    "neighbours": lambda: KNeighborsClassifier(50),
}
TRAINED = 6000  # rows from which the models learn
HELD_OUT = 3000  # rows of a sample


def command(name: str, description: str | None, only: str, what: str) -> argparse.ArgumentParser:
    """Return the parser of a benchmark: the two folders, and the option to measure nothing.

    Args:
        name: of the benchmark's module.
        description: what it does.
        only: the option.
        what: what is made anew with the option.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("embeddings", type=Path, nargs="?")
    parser.add_argument("cifarn", type=Path, nargs="?")
    parser.add_argument(only, action="store_true", help=f"only {what} anew")
    return parser


def world(embeddings: Path, cifarn: Path, labels: str, model: str) -> tuple[IntArray, IntArray, Any]:
    """Return the right and given labels of all rows that a model has not seen, and its probabilities."""
    x, y = features(embeddings)
    human = torch.load(cifarn / "CIFAR-10_human.pt", weights_only=False)
    given = np.asarray(human[LABELS[labels]]).astype(np.int64)[: y.size]
    scale = StandardScaler().fit(x[:TRAINED])
    fitted = MODELS[model]().fit(scale.transform(x[:TRAINED]), given[:TRAINED])
    return y[TRAINED:], given[TRAINED:], fitted.predict_proba(scale.transform(x[TRAINED:]))


def features(folder: Path) -> tuple[NDArray[np.float32], IntArray]:
    """Return the features and right labels of all rows, from the first one on."""
    files = sorted(folder.glob("train-*-128.npz"), key=lambda path: int(path.name.split("-")[1]))
    parts = [np.load(path) for path in files]
    x, y = (np.concatenate([part[name] for part in parts]) for name in ("x", "y"))
    return x.astype(np.float32), y.astype(np.int64)


def true_transition(right: IntArray, given: IntArray, k: int) -> Any:
    """Return T: how often each label was given to the rows of each class."""
    counts = np.zeros((k, k))
    np.add.at(counts, (right, given), 1)
    return counts / counts.sum(1, keepdims=True)
