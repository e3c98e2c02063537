"""Make a table of ten classes with eight annotators: four good, two lazy, and two of whom one copies the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CLASSES, COLUMNS, ROWS, LABELS = 10, 20, 1000, 3
KINDS = ("good",) * 4 + ("lazy",) * 2 + ("first", "copies")
COPIED = 0.95  # share of the labels of `first` that its neighbour copies; the others are right


def made_table(seed: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return features, right classes, labels (-1 for none, three a row), and the accuracy of each annotator.

    Good annotators are wrong on 5 to 20 % of rows, mostly in one of the three nearest classes. Lazy annotators are
    wrong on 45 to 65 %, half of the time by saying the first class.
    """
    rng = np.random.default_rng(seed)
    right = rng.integers(CLASSES, size=ROWS)
    means = rng.normal(size=(CLASSES, COLUMNS)) * 1.13
    features = means[right] + 1.6 * rng.normal(size=(ROWS, COLUMNS))
    near = np.argsort(np.square(means[:, None] - means[None]).sum(2), axis=1)[:, 1:4]
    every = np.empty((ROWS, len(KINDS)), np.int64)
    for j, kind in enumerate(KINDS):
        if kind == "copies":
            every[:, j] = np.where(rng.random(ROWS) < COPIED, every[:, j - 1], right)
            continue
        rate = {"good": rng.uniform(0.05, 0.2), "lazy": rng.uniform(0.45, 0.65), "first": 0.4}[kind]
        any_other = (right + rng.integers(1, CLASSES, size=ROWS)) % CLASSES
        first_class = np.where(right == 0, 1, 0)
        near_one = near[right, rng.integers(3, size=ROWS)]
        half = rng.random(ROWS) < 0.5
        wrong = np.where(half, any_other, first_class if kind == "lazy" else near_one)
        every[:, j] = np.where(rng.random(ROWS) < rate, wrong, right)
    given = np.full_like(every, -1)
    for row in range(ROWS):
        some = rng.permutation(len(KINDS))[:LABELS]
        given[row, some] = every[row, some]
    return features, right, given, np.asarray((every == right[:, None]).mean(0))
