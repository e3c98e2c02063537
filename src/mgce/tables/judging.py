"""Judge the labels of a table, by trees of a forest that were not fitted to the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray, IntArray
from mgce.estimators import MGCEForestClassifier
from mgce.labels.suspects import Judgement, judgement
from mgce.tables.candidates import forest, judges


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
) -> Judgement:
    r"""Estimate how probably the given label of every row is wrong, by trees that were not fitted to the row.

    The forest is fitted to the training rows. Probabilities of a training row come from its out-of-bag trees, that is,
    the trees whose bootstrap sample does not contain the row. Probabilities of all other rows come from all trees.

    The share of wrong labels is estimated from the probabilities of fully grown trees, for which the estimate was made.
    Up to `JUDGED_ROWS` rows, all else comes from trees with larger leaves, which rank labels better.

    A row that confidently belongs to another class than its given label is an issue: see
    :func:`mgce.labels.confident.confident_labels`.

    Counting the rows by confident class and given label estimates the noise matrix T, whose entry (i, j) is the
    probability that a row of class i is given the label j. The forest has learnt class probabilities p from noisy
    labels. So p is about q T, where q are the probabilities of the right classes. Some steps of expectation
    maximisation estimate q. Bayes' rule then yields the probability that a label is wrong.

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

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    trees = next((model for model in fitted if isinstance(model, MGCEForestClassifier)), None)
    if trees is None:
        trees = forest(len(train), seed, jobs).fit(X[train], target[train], weight)
    weak = judges(len(train), seed, jobs)
    grown = _unseen(trees, X, train)
    probs = grown if weak is None else _unseen(weak.fit(X[train], target[train], weight), X, train)
    if first is not None:
        grown, probs = grown[first], probs[first]
    return judgement(probs, target, first, X, of_share=grown)


def _unseen(trees: MGCEForestClassifier, X: NDArray[Any], train: IntArray) -> FloatArray:
    """Return the probabilities of all rows by trees that were not fitted to the row, shape (n, k)."""
    probs = np.empty((len(X), len(trees.classes_)))
    in_every_bag = np.isnan(trees.oob_decision_function_[:, 0])  # no out-of-bag tree: all classes equally probable
    probs[train] = np.where(in_every_bag[:, None], 1 / probs.shape[1], trees.oob_decision_function_)
    held_out = np.setdiff1d(np.arange(len(X)), train)
    if held_out.size:
        probs[held_out] = trees.tree_proba(X[held_out])
    return probs
