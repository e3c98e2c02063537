"""Find labels that are likely wrong from features of any model, or from probabilities out of fold: one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from mgce import _validation
from mgce._arrays import FloatArray, IntArray, as_probs, sorted_classes
from mgce.estimators.embedding import MGCEEmbeddingClassifier
from mgce.labels.share import NoiseShare
from mgce.labels.suspects import judgement


@dataclass(frozen=True)
class Suspects:
    """Given labels, ranked by how probable it is that they are wrong.

    Attributes:
        order: indices of all n rows, the most suspect label first. If you have time to check m, check the first m.
        score: estimated probability that the label of each row is wrong, shape (n,).
        suggested: the most probable class of each row, shape (n,).
        is_issue: whether confident learning considers the label wrong, shape (n,).
        classes: the k classes, sorted.
        share: the share of wrong labels: an interval where the data support its assumption, elsewhere a range from 0.
        share_by_label: the estimated share of wrong labels among the rows that are given each class, shape (k,): the
            mean of their `score`. It has no interval, and is too large where the model often errs.
    """

    order: IntArray
    score: FloatArray
    suggested: NDArray[Any]
    is_issue: NDArray[np.bool_]
    classes: NDArray[Any]
    share: NoiseShare
    share_by_label: FloatArray


Train = Callable[[IntArray, IntArray], Any]  # from rows to train on and others to the others' probabilities


def find_suspects(
    rows: Any, labels: Any, *, given: str = "features", n_folds: int = 3, random_state: Any = None
) -> Suspects:
    r"""Rank labels by how probable it is that they are wrong, from features or from probabilities.

    .. math:: \text{score}_i = 1 - \frac{q_{i y_i} T_{y_i y_i}}{\sum_c q_{ic}\, T_{c y_i}}

    T is the noise matrix and q the probabilities of the right classes, both estimated from probabilities of the noisy
    labels: see :func:`mgce.labels.suspects.judgement`. For features these are `oof_proba_` of a
    :class:`mgce.MGCEEmbeddingClassifier`, so no row is judged by a model that was fitted to its label.

    Args:
        rows: one of three.
            Features, shape (n, d), of any model.
            Probabilities, shape (n, k), with columns in the order of the sorted labels. They must come from a model
            that was not fitted to the row, as by :func:`sklearn.model_selection.cross_val_predict`.
            A function that trains a model of your own. It is called with the indices of rows to train on and of other
            rows, and returns class probabilities of the other rows, such as `criterion.link(model(x[others]))`.
        labels: the labels in doubt, shape (n,), of at least 2 classes.
        given: what `rows` are, if they are no function: `"features"` or `"probs"`.
        n_folds: number of trainings by a function; each leaves out another part of the rows.
        random_state: seed of the folds, for features and functions.

    Returns:
        The ranking, with suggested labels.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.9, 0.1]])
        >>> suspects = find_suspects(probs, ["ant", "ant", "bee", "bee"], given="probs")
        >>> suspects.order.tolist(), str(suspects.suggested[3])
        ([3, 2, 1, 0], 'ant')
        >>> suspects.share_by_label.round(2)
        array([0.  , 0.51])

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    classes, target = sorted_classes(np.asarray(labels))
    if callable(rows):
        probs = out_of_fold(rows, target, len(classes), n_folds, random_state)
    elif given not in ("features", "probs"):
        raise ValueError(_validation.expected("given", "'features' or 'probs'", given))
    elif given == "features":
        model = MGCEEmbeddingClassifier(random_state=random_state).fit(rows, labels)
        probs = model.oof_proba_
    else:
        probs = as_probs(rows, "rows")
        if probs.shape != (len(target), len(classes)):
            what = f"of shape ({len(target)}, {len(classes)}), a row for each label and a column for each class"
            raise ValueError(_validation.expected("rows", what, probs.shape))
    found = judgement(probs, target.astype(np.int64))
    by_label = np.bincount(target, found.wrong) / np.bincount(target)
    return Suspects(
        found.order(), found.wrong, classes[found.suggested], found.is_issue, classes, found.share, by_label
    )


def out_of_fold(train: Train, target: IntArray, n_classes: int, n_folds: int, random_state: Any) -> FloatArray:
    """Return for each row the probabilities of a model that was trained without it, shape (n, k).

    Args:
        train: function that trains on rows and returns the probabilities of others: see :func:`find_suspects`.
        target: the given labels, shape (n,), in 0..n_classes-1.
        n_classes: number k of classes.
        n_folds: number of trainings, at least 2.
        random_state: seed of the folds.

    Raises:
        ValueError: if a training returns no such probabilities.
    """
    _validation.check_count("n_folds", n_folds, 2)
    probs = np.empty((len(target), n_classes))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
    for others, held_out in folds.split(target, target):
        found = as_probs(train(others, held_out), "rows")
        if found.shape != (len(held_out), n_classes):
            what = f"a function that returns probabilities of shape ({len(held_out)}, {n_classes}) here"
            raise ValueError(_validation.expected("rows", what, found.shape))
        probs[held_out] = found
    return probs
