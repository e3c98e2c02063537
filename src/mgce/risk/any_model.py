"""Bound the errors of any fitted model that predicts classes: estimators, pipelines, searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import IntArray, one_hot
from mgce.risk.certificate import RiskCertificate, certify
from mgce.risk.sample import UNSEEN


def certify_model(model: Any, X: Any, y: Any, **options: Any) -> RiskCertificate:
    """Bound the errors of a fitted classifier from labelled rows it has never seen.

    If the model has `predict_proba` and `classes_`, as scikit-learn's pipelines and searches have, its probabilities
    are certified. If it has only `predict`, its predicted classes are certified.

    Args:
        model: the fitted classifier.
        X: rows that were not used for training, in a form that the model accepts.
        y: their labels, shape (n,). A label that the model does not know counts as an error.
        options: those of :func:`mgce.certify`.

    Returns:
        The certificate.

    Raises:
        TypeError: if the model has no `predict`.
        ValueError: if no label is known to the model, or an option is out of range.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> x = np.arange(1000)[:, None] / 1000
        >>> model = LogisticRegression(C=1e4).fit(x[::2], x[::2, 0] > 0.5)
        >>> round(certify_model(model, x[1::2], x[1::2, 0] > 0.5, bounds=["argmax"]).argmax_error, 3)
        0.009

    Reference: :func:`mgce.certify`.
    """
    if not hasattr(model, "predict"):
        raise TypeError(_validation.expected("model", "a fitted classifier with `predict`", type(model).__name__))
    labels = np.asarray(y)
    if hasattr(model, "predict_proba") and hasattr(model, "classes_"):
        classes, probs = np.asarray(model.classes_), np.asarray(model.predict_proba(X))
    else:
        predicted = np.asarray(model.predict(X))
        classes = np.unique(np.concatenate([predicted, labels])) if len(labels) else np.unique(predicted)
        probs = one_hot(np.searchsorted(classes, predicted).astype(np.int64), len(classes))
    target = label_indices(labels, classes, len(probs))
    if probs.shape[1] == 1:  # a model of one class gets a second one, which it never predicts
        probs = np.hstack([probs, np.zeros_like(probs)])
    return certify(target, probs, **options)


def label_indices(labels: Any, classes: Any, n: int, name: str = "y") -> IntArray:
    """Return the index of each of n labels among sorted classes, -1 if unknown; require at least one known label."""
    if labels.shape != (n,):
        raise ValueError(_validation.expected(name, f"of shape ({n},), one label for each row", labels.shape))
    places = {label: place for place, label in enumerate(classes.tolist())}
    found = np.array([places.get(label, UNSEEN) for label in labels.tolist()], dtype=np.int64)
    if (found == UNSEEN).all():
        some = ", ".join(map(repr, classes[:10].tolist()))
        what = f"labels of the classes that the model knows ({some}{', ...' * (len(classes) > 10)})"
        raise ValueError(_validation.expected(name, what, f"none of these; the first is {labels[0]!s}"))
    return found
