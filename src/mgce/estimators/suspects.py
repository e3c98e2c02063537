"""Find labels that are likely wrong, from features, from out-of-fold probabilities, or by a function that trains."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgce._arrays import as_probs_of, sorted_classes
from mgce._messages import expected
from mgce.estimators.embedding import MGCEEmbeddingClassifier
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import checked_train, out_of_fold, stratified_folds


def find_suspects(
    rows: Any, labels: Any, *, given: str = "features", n_folds: int = 3, random_state: Any = None
) -> DoubtfulLabels:
    r"""Rank labels by how probable it is that they are wrong, from features or from probabilities.

    .. math:: \text{wrong}_i = c \Big(1 - \frac{q_{i y_i} T_{y_i y_i}}{\sum_c q_{ic}\, T_{c y_i}}\Big)

    T is the noise matrix and q the probabilities of the right classes, both estimated from probabilities of the noisy
    labels: see :func:`mgce.labels.correction.correct`. :func:`mgce.labels.doubtful.doubtful_labels` explains the factor
    c, and sharpens probabilities that are too even. For features, the probabilities are `oof_proba_` of a
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
        The labels with the probability that each is wrong, their order and suggested labels.

    Raises:
        ValueError: if an argument is not as described.

    Example:
        >>> probs = np.array([[0.99, 0.01], [0.8, 0.2], [0.2, 0.8], [0.01, 0.99]] * 50)
        >>> labels = ["ant", "ant", "bee", "bee"] * 50
        >>> labels[3::20] = ["ant"] * 10
        >>> suspects = find_suspects(probs, labels, given="probs")
        >>> sorted(suspects.order[:10].tolist()) == list(range(3, 200, 20)), str(suspects.suggested[3])
        (True, 'bee')

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    classes, target = sorted_classes(np.asarray(labels))
    if callable(rows):
        parts = stratified_folds(target, n_folds, random_state)
        probs = out_of_fold(checked_train(rows, len(classes)), parts, (len(target), len(classes)))
    elif given not in ("features", "probs"):
        raise ValueError(expected("given", "'features' or 'probs'", given))
    elif given == "features":
        model = MGCEEmbeddingClassifier(random_state=random_state).fit(rows, labels)
        probs = model.oof_proba_
    else:
        probs = as_probs_of(rows, "rows", len(target), len(classes))
    source = "function" if callable(rows) else given
    return doubtful_labels(probs, target.astype(np.int64), classes=classes, source=source)
