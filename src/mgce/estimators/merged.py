"""Merge classifiers that were fitted to separate chunks of one table into one classifier of the same kind."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgce.estimators.correction import LabelCorrectionClassifier
from mgce.estimators.embedding import MGCEEmbeddingClassifier
from mgce.estimators.forest import SELECTION_TREES, MGCEForestClassifier
from mgce.estimators.linear import MGCEClassifier
from mgce.estimators.trees import Trees

MERGEABLE = (LabelCorrectionClassifier, MGCEEmbeddingClassifier, MGCEForestClassifier, MGCEClassifier)


def for_chunk(model: Any, first: Any, n_chunks: int) -> Any:
    """Return an unfitted model for one of several chunks.

    The returned model uses the random features, or the directions of embeddings, of `first`: means of coefficients need
    the same features. Its forests have fewer trees, since the trees of all chunks become one forest.

    Args:
        model: an unfitted classifier, one of `MERGEABLE`.
        first: the same classifier, fitted to some rows.
        n_chunks: number of chunks.
    """
    found = copy.copy(model)
    if isinstance(model, MGCEEmbeddingClassifier):
        found.follows_ = first
    elif isinstance(model, LabelCorrectionClassifier | MGCEForestClassifier):
        n_trees = share_of_trees(model, n_chunks)
        found.n_estimators = max(min(SELECTION_TREES, model.n_estimators), n_trees)
        if isinstance(model, LabelCorrectionClassifier):
            found.follows_ = first, n_trees
    return found


def share_of_trees(model: Any, n_chunks: int) -> int:
    """Return how many trees of each chunk's forest become part of the merged forest."""
    return -(-int(model.n_estimators) // n_chunks)


def merged(models: Sequence[Any], n_trees: int = 0) -> Any:
    """Return one classifier: the first `n_trees` trees of each model as one forest, and means of all coefficients.

    Args:
        models: fitted models made by :func:`for_chunk`, of one class of `MERGEABLE` and with the same labels.
        n_trees: number of trees to keep of each model.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> parts = [MGCEClassifier().fit(X[start::2], y[start::2]) for start in (0, 1)]
        >>> bool(np.allclose(merged(parts).coef_, (parts[0].coef_ + parts[1].coef_) / 2))
        True
    """
    found = copy.copy(models[0])

    def mean(name: str, of: Sequence[Any] = models) -> Any:
        return np.mean([getattr(model, name) for model in of], axis=0)

    if isinstance(found, MGCEEmbeddingClassifier):
        found.head_ = {name: l2 for model in reversed(models) for name, l2 in model.head_.items()}
        heads = {name: [model for model in models if name in model.head_] for name in found.head_}
        for part in ("coefs_", "intercepts_"):
            each = [
                np.mean([getattr(one, part)[[*one.head_].index(name)] for one in of], 0) for name, of in heads.items()
            ]
            setattr(found, part, np.stack(each).astype(np.float32))
        found.noise_matrix_ = mean("noise_matrix_")
    elif isinstance(found, MGCEClassifier):
        found.coef_, found.intercept_ = mean("coef_"), mean("intercept_")
    else:
        found.trees_ = Trees.of_forests([model.trees_ for model in models], n_trees)
        found.least_prob_ = 1 / sum(1 / model.least_prob_ for model in models)
        if isinstance(found, LabelCorrectionClassifier):
            found.transition_ = mean("transition_")
            found.ridge_ = copy.copy(found.ridge_)
            for part in ("coef_", "intercept_"):
                setattr(found.ridge_, part, mean(part, [model.ridge_ for model in models]))
        found.scale_ = float(mean("scale_"))
    for name in found._of_training:
        found.__dict__.pop(name, None)  # of rows of the first chunk alone
    return found
