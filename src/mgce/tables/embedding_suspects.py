"""Find labels that are likely wrong from features of any model, or from probabilities out of fold: one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce import _validation
from mgce._arrays import FloatArray, IntArray, as_probs
from mgce.estimators.base import sorted_classes
from mgce.estimators.embedding import MGCEEmbeddingClassifier
from mgce.tables.suspects import judgement


@dataclass(frozen=True)
class Suspects:
    """Given labels, ranked by how probable it is that they are wrong.

    Attributes:
        order: indices of all n rows, the most suspect label first. If you have time to check m, check the first m.
        score: estimated probability that the label of each row is wrong, shape (n,).
        suggested: the most probable class of each row, shape (n,).
        is_issue: whether confident learning considers the label wrong, shape (n,).
    """

    order: IntArray
    score: FloatArray
    suggested: NDArray[Any]
    is_issue: NDArray[np.bool_]


def find_suspects(rows: Any, labels: Any, *, given: str = "features", random_state: Any = None) -> Suspects:
    r"""Rank labels by how probable it is that they are wrong, from features or from probabilities.

    .. math:: \text{score}_i = 1 - \frac{q_{i y_i} T_{y_i y_i}}{\sum_c q_{ic}\, T_{c y_i}}

    T is the noise matrix and q the probabilities of the right classes, both estimated from probabilities of the noisy
    labels: see :func:`mgce.tables.suspects.judge`. For features these are `oof_proba_` of a
    :class:`mgce.MGCEEmbeddingClassifier`, so no row is judged by a model that was fitted to its label.

    Args:
        rows: features, shape (n, d), or probabilities, shape (n, k), with columns in the order of the sorted labels.
            Probabilities must come from a model that was not fitted to the row, as by
            :func:`sklearn.model_selection.cross_val_predict`.
        labels: the labels in doubt, shape (n,), of at least 2 classes.
        given: what `rows` are: `"features"` or `"probs"`.
        random_state: seed of the folds, for features.

    Returns:
        The ranking, with suggested labels.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.9, 0.1]])
        >>> suspects = find_suspects(probs, ["ant", "ant", "bee", "bee"], given="probs")
        >>> suspects.order.tolist(), str(suspects.suggested[3])
        ([3, 2, 1, 0], 'ant')

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    if given not in ("features", "probs"):
        raise ValueError(_validation.expected("given", "'features' or 'probs'", given))
    if given == "features":
        model = MGCEEmbeddingClassifier(random_state=random_state).fit(rows, labels)
        probs, classes, target = model.oof_proba_, model.classes_, model._label_indices(labels, len(model.oof_proba_))
    else:
        classes, target = sorted_classes(np.asarray(labels))
        probs = as_probs(rows, "rows")
        if probs.shape != (len(target), len(classes)):
            what = f"of shape ({len(target)}, {len(classes)}), a row for each label and a column for each class"
            raise ValueError(_validation.expected("rows", what, probs.shape))
    found = judgement(probs, target.astype(np.int64))
    return Suspects(found.order(), found.wrong, classes[found.suggested], found.is_issue)
