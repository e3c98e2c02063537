"""Rank the rows of a table by how little a model that has not seen them believes their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from mgce import functional

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Suspect:
    """A row whose label may be wrong."""

    row: str  # its name, or its number from 1
    given: str  # the label that it has
    suggested: str  # the label that the model would give it
    h_given: float  # minimax probability of the given label
    p_given: float  # worst-case probability of the given label
    loss: float  # margin loss of the given label, by which suspects are ranked


def margins(classifier: Any, X: Any) -> FloatArray:
    """Give the margins of a classifier, shape (n, k); for two classes (0, f), as nothing but differences counts."""
    f = np.asarray(classifier.decision_function(X), dtype=np.float64)
    return f if f.ndim == 2 else np.stack([np.zeros_like(f), f], axis=1)


def cross_validated_margins(
    estimator: Any, X: Any, y: NDArray[Any], splitter: Any, on_fit: Callable[[str], None]
) -> FloatArray:
    """Give each row the margins of a fit to the other folds, shape (n, k)."""
    f = np.empty((len(y), len(np.unique(y))))
    for train, test in splitter.split(X, y):
        on_fit("Judging the labels")
        f[test] = margins(clone(estimator).fit(X[train], y[train]), X[test])
    return f


def rank(
    f: FloatArray,  # (n, k)
    target: IntArray,  # (n,)
    beta: float,
    classes: Sequence[str],
    names: Sequence[str],
    limit: int,
) -> list[Suspect]:
    """Give the rows of largest margin loss that the model would label otherwise, at most `limit`, the largest first."""
    logits, own = torch.from_numpy(f), torch.from_numpy(target)
    loss = functional.mgce_loss(logits, own, reduction="none", beta=beta).numpy()
    h = functional.minimax_probs(logits, beta=beta).numpy()
    p = functional.worst_case_probs(logits, beta=beta).numpy()
    suggested = f.argmax(1)
    order = [row for row in np.argsort(-loss, kind="stable").tolist() if suggested[row] != target[row]][:limit]
    return [
        Suspect(
            row=names[row],
            given=classes[target[row]],
            suggested=classes[suggested[row]],
            h_given=float(h[row, target[row]]),
            p_given=float(p[row, target[row]]),
            loss=float(loss[row]),
        )
        for row in order
    ]
