"""Certify a fitted model that predicts classes, or each part of a sample by itself: each class, each named group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mgce._arrays import IntArray, one_hot
from mgce._messages import check_choice, expected
from mgce.risk.certificate import RiskCertificate
from mgce.risk.certifying import Request, StatedNoise, certify, judge, sampled
from mgce.risk.sample import UNSEEN, Sample, checked_names, checked_probs, checked_target, cluster_indices


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
        raise TypeError(expected("model", "a fitted classifier with `predict`", type(model).__name__))
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
    """Return the index of each of n labels among the sorted classes, or -1; raise an error if no label is a class."""
    if labels.shape != (n,):
        raise ValueError(expected(name, f"of shape ({n},), one label for each row", labels.shape))
    places = {label: place for place, label in enumerate(classes.tolist())}
    found = np.array([places.get(label, UNSEEN) for label in labels.tolist()], dtype=np.int64)
    if (found == UNSEEN).all():
        some = ", ".join(map(repr, classes[:10].tolist()))
        what = f"labels of the classes that the model knows ({some}{', ...' * (len(classes) > 10)})"
        raise ValueError(expected(name, what, f"none of these; the first is {labels[0]!s}"))
    return found


LABEL, PREDICTION = "label", "prediction"


def certify_each(
    target: Any,  # (n,)
    probs: Any,  # (n, k)
    by: Any,
    *,
    delta: float = 0.05,
    bounds: Sequence[str] | None = None,
    beta: float | None = None,
    noise_rate: float | str = 0.0,
    noise_type: str = "symmetric",
    transition: Any = None,  # (k, k)
    checked: Any = None,
    checked_with: Any = None,  # (n,)
    groups: Any = None,  # (n,)
) -> dict[Any, RiskCertificate]:
    r"""Bound a classifier's errors on each part of the data, such as each class; all bounds hold at once.

    .. math:: P\big(\exists g: \text{error given } g > U_g\big) \le \sum_g \delta / G = \delta

    for the G parts g that have examples; U_g is the bound of part g. The number of examples of a part is random. Given
    this number, the examples of the part are independent draws from it.

    Args:
        target: labels in 0..k-1 for k classes, shape (n,); -1 is a label that is none of the classes.
        probs: the classifier's probabilities, shape (n, k).
        by: `"label"` for one part for each right class, `"prediction"` for one part for each predicted class, or the
            name of each example's part, shape (n,), which must not depend on its label.
        delta: probability in (0, 1) with which any bound of any part may be wrong.
        bounds: which bounds to compute, as in :func:`~mgce.certify`.
        beta: beta of the alpha-risk, or None for no bound on it.
        noise_rate: share of wrong labels in every part, as in :func:`~mgce.certify`.
        noise_type: `"symmetric"` or `"any"`.
        transition: matrix T of the probabilities that label y became z, shape (k, k), the same in every part.
        checked: right labels that were looked up, as in :func:`~mgce.certify`; rows are indices into the whole
            `target`.
        checked_with: how likely each row was looked up, relative to others, shape (n,), or None. Rows with one value
            are a group. In each part, the rows looked up in a group are a random choice of its rows there. `ratio` and
            `share` of :func:`stratified_upper` are those of all looks, also in a part with rows of one group alone.
        groups: name of the cluster of each example, shape (n,).

    Returns:
        The certificate of each part by its name, in order; the confidence of each is `1 - delta / G`.

    Raises:
        TypeError: if names in `by` or `groups` are of several types.
        ValueError: if an option is out of range, or a row has no name in `by` or `groups`. Also if `by="label"` and
            wrong labels are stated: the given label then does not determine the part.

    Example:
        >>> target, probs = np.array([0, 1] * 500), np.array([[0.9, 0.1], [0.4, 0.6]] * 500)
        >>> parts = certify_each(target, probs, "label", bounds=["randomized"])
        >>> {part: round(certificate.randomized_error, 3) for part, certificate in parts.items()}
        {0: 0.109, 1: 0.406}

    Reference: :func:`~mgce.certify`, and the union of the probabilities of failure.
    """
    h = checked_probs(probs)
    y = checked_target(target, *h.shape)
    stated = StatedNoise(noise_rate, noise_type, transition, checked is not None)
    if isinstance(by, str) and by == LABEL and stated.present:
        raise ValueError(expected("by", "another than 'label' where labels may be wrong", by))
    request = Request.of(h, bounds, beta, stated)
    names = _parts(by, y, h)
    if groups is not None:
        groups = checked_names(groups, len(y), "groups")
    whole = sampled(y, h, None if groups is None else cluster_indices(groups, len(y)), checked, checked_with)
    unique, part = np.unique(names, return_inverse=True)
    # NumPy's dates keep their type: `tolist` makes integers of those in nanoseconds.
    values = list(unique) if unique.dtype.kind in "mM" else unique.tolist()
    found = {name: i for i, name in enumerate(values) if not (isinstance(by, str) and name == UNSEEN)}
    parts = {}
    for name, i in found.items():
        rows = part == i
        clusters = None if groups is None else cluster_indices(groups[rows], int(rows.sum()))
        part_of = Sample(
            y[rows],
            h[rows],
            clusters,
            None if whole.right is None else whole.right[rows],
            None if whole.shared is None else whole.shared.of(rows),
        )
        certificate = judge(part_of, request, delta / len(found))
        clauses = ("all of this holds in each part by itself", *certificate.assumptions)
        parts[name] = replace(certificate, assumptions=clauses)
    return parts


def _parts(by: Any, y: Any, h: Any) -> Any:
    """Return for each example its part by `by`: its label y, its predicted class, or its entry in `by`; shape (n,)."""
    if isinstance(by, str):
        check_choice("by", by, (LABEL, PREDICTION))
        return y.astype(np.int64) if by == LABEL else h.argmax(1)
    return checked_names(by, len(y), "by")
