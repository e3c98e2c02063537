"""Judge the labels of a table, by trees of a forest or heads that were not fitted to the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray
from mgce.desk.tables.candidates import forest, judges
from mgce.desk.tables.choice import Choice
from mgce.estimators import MGCEForestClassifier
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import completed


def judge(
    X: NDArray[Any],
    target: IntArray,
    train: IntArray,
    seed: int,
    jobs: int = 1,
    fitted: Sequence[Any] = (),
    *,
    weight: FloatArray | None = None,
    first: IntArray | None = None,
    classes: NDArray[Any] | None = None,
) -> DoubtfulLabels:
    r"""Estimate how probably the given label of every row is wrong, by trees that were not fitted to the row.

    The forest is fitted to the training rows. Probabilities of a training row come from its out-of-bag trees, that is,
    the trees whose bootstrap sample does not contain the row. Probabilities of all other rows come from all trees.

    The share of wrong labels is estimated from the probabilities of fully grown trees, for which the estimate was made.
    Up to `JUDGED_ROWS` rows, all else comes from trees with larger leaves, which rank labels better.

    How probabilities judge a label says :func:`mgce.labels.doubtful.doubtful_labels`.

    Args:
        X: features of all rows, shape (n, d): n rows, d features.
        target: given labels, shape (n,), in 0..k-1 for k classes.
        train: indices of the training rows.
        seed: seed of the forest.
        jobs: number of trees grown at once; -1 for one on each core.
        fitted: models that were fitted to the training rows with this seed. If one is a forest, no new forest of fully
            grown trees is grown.
        weight: weights of the training rows, shape (number of training rows,); None if all are equal.
        first: for each row, the index of the row that represents all copies of the row, shape (n,). Only the
            representing row may be a training row. All copies get its probabilities, so no copy is judged by trees
            fitted to another copy.
        classes: the classes by index, shape (k,); None for 0 to k-1.
    """
    trees = next((model for model in fitted if isinstance(model, MGCEForestClassifier)), None)
    if trees is None:
        trees = forest(len(train), seed, jobs).fit(X[train], target[train], weight)
    weak = judges(len(train), seed, jobs)
    grown = _unseen(trees, X, train)
    probs = grown if weak is None else _unseen(weak.fit(X[train], target[train], weight), X, train)
    if first is not None:
        grown, probs = grown[first], probs[first]
    return doubtful_labels(probs, target, classes=classes, first=first, X=X, of_share=grown, source="forest")


def judge_by_head(
    choice: Choice, X: NDArray[Any], target: NDArray[np.int64], train: NDArray[np.int64], first: NDArray[np.int64]
) -> DoubtfulLabels:
    """Judge the label of each row by a head that was not fitted to it: of its fold, or of all training rows.

    Args:
        choice: what :func:`mgce.desk.tables.choice.choose_head` returned.
        X: features of all rows, shape (n, d).
        target: given labels, shape (n,).
        train: indices of the training rows.
        first: for each row, the index of the row that represents all its copies, shape (n,).
    """
    assert choice.trial.probs is not None
    probs = completed(choice.trial.probs, train, len(X), lambda others: choice.fitted.predict_proba(X[others]))
    classes = choice.fitted.classes_
    return doubtful_labels(probs[first], target, classes=classes, first=first, X=X, source=choice.trial.model)


def _unseen(trees: MGCEForestClassifier, X: NDArray[Any], train: IntArray) -> FloatArray:
    """Return the probabilities of all rows by trees that were not fitted to the row, shape (n, k)."""
    in_every_bag = np.isnan(trees.oob_decision_function_[:, :1])  # no out-of-bag tree: all classes equally probable
    known = np.where(in_every_bag, 1 / len(trees.classes_), trees.oob_decision_function_)
    return completed(known, train, len(X), lambda others: trees.tree_proba(X[others]))
