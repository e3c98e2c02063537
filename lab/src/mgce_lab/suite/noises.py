"""Wrong labels of the suite: none, symmetric, pair or one-sided, near a boundary, and by class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from mgce import noise

# Kind and rate. Two classes have one-sided noise in place of pair noise, which would be symmetric.
NOISES = (
    ("right", 0.0),
    ("symmetric", 0.2),
    ("symmetric", 0.4),
    ("pair", 0.4),
    ("linear", 0.25),
    ("trees", 0.25),
    ("by class", 0.25),
)
MOST = (
    0.45  # of the labels of a class that become one other class: from half on, the wrong label would be the right one
)


def wrong_labels(X: Any, right: Any, n_classes: int, kind: str, rate: float, seed: int) -> Any:
    """Return labels of which a share is wrong.

    Args:
        X: features as numbers, shape (n, d).
        right: right classes 0, 1, ..., shape (n,).
        n_classes: the number of classes.
        kind: `right`, `symmetric`, `pair`, `linear`, `trees` or `by class`.
        rate: share of wrong labels, about.
        seed: of the draws.
    """
    if kind == "right":
        return right.copy()
    if kind in ("linear", "trees"):
        return near_boundary(_probs(X, right, n_classes, kind, seed), right, rate, seed)
    transition = _transition(n_classes, kind, rate, seed)
    generator = torch.Generator().manual_seed(seed)
    return noise.corrupt(torch.from_numpy(right), transition, generator).labels.numpy()


def _transition(n_classes: int, kind: str, rate: float, seed: int) -> torch.Tensor:
    if kind == "symmetric":
        return noise.symmetric(n_classes, rate)
    if kind == "pair" and n_classes > 2:
        return noise.pair_flip(n_classes, rate)
    rng = np.random.default_rng([seed, n_classes])
    matrix = np.eye(n_classes)
    # One-sided: of two classes one keeps its labels. By class: rates from 0 to twice the mean, each to one other class.
    rates = rng.permutation(np.linspace(0, 2 * rate if kind == "by class" else rate, n_classes)).clip(max=MOST)
    for k, own in enumerate(rates):
        other = (k + rng.integers(1, n_classes)) % n_classes
        matrix[k, k], matrix[k, other] = 1 - own, own
    return torch.from_numpy(matrix)


def _probs(X: Any, right: Any, n_classes: int, kind: str, seed: int) -> Any:
    """Return probabilities of a model that knows the right labels; of a forest, by trees that have not seen the row."""
    probs = np.zeros((len(X), n_classes))
    if kind == "linear":
        model = LogisticRegression(C=0.1, max_iter=300).fit(X, right)
        probs[:, model.classes_] = model.predict_proba(X)
        return probs
    forest = RandomForestClassifier(min_samples_leaf=3, oob_score=True, random_state=seed).fit(X, right)
    probs[:, forest.classes_] = np.nan_to_num(forest.oob_decision_function_)
    return probs


def near_boundary(probs: Any, right: Any, rate: float, seed: int) -> Any:
    """Replace labels by the most probable other class, most often where two classes are nearly as probable.

    The probability of a wrong label falls from twice the rate, for the row whose two most probable classes are closest,
    evenly to zero.
    """
    ordered, generator = np.sort(probs, axis=1), np.random.default_rng(seed)
    rank = np.lexsort((generator.random(len(probs)), ordered[:, -1] - ordered[:, -2])).argsort()
    wrong = generator.random(len(probs)) < 2 * rate * (1 - (rank + 0.5) / len(probs))
    others = probs.copy()
    others[np.arange(len(probs)), right] = -1
    return np.where(wrong, others.argmax(1), right)
