"""Certificates of the parts of a sample: each class, each predicted class, each group of a column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mgce import _validation
from mgce.linear.arrays import as_array
from mgce.risk.certificate import RiskCertificate, certify
from mgce.risk.sample import UNSEEN

LABEL, PREDICTION = "label", "prediction"
OF_NOISE = ("noise_rate", "noise", "transition", "audit")


def certify_each(target: Any, probs: Any, by: Any, **options: Any) -> dict[Any, RiskCertificate]:
    r"""Bound the errors on each part of a distribution, all at once.

    .. math:: P\big(\exists g: \text{error given } g > U_g\big) \le \sum_g \delta / G = \delta

    for the G parts of which there are examples. How many examples a part has is random, but given the parts of all
    examples its own are independent draws of it, whatever their number.

    Args:
        target: labels in 0..k-1, shape (n,); -1 is a label that is none of the classes.
        probs: the classifier's probabilities, shape (n, k).
        by: `"label"` for the error given the right class, `"prediction"` for that given the predicted class, or the
            name of each example's part, shape (n,), which must not depend on its label.
        options: those of :func:`~mgce.certify`; `delta`, 0.05 by default, is that of all parts together.

    Returns:
        The certificate of each part by its name, in order; the confidence of each is `1 - delta / G`.

    Raises:
        ValueError: if an option is out of range, or with `by="label"` any noise of the labels is stated, since the
            given label then does not tell the part.

    Example:
        >>> target, probs = np.array([0, 1] * 500), np.array([[0.9, 0.1], [0.4, 0.6]] * 500)
        >>> parts = certify_each(target, probs, "label", bounds=["randomized"])
        >>> {part: round(certificate.randomized_error, 3) for part, certificate in parts.items()}
        {0: 0.109, 1: 0.406}

    Reference: :func:`~mgce.certify`, and the union of the probabilities of failure.
    """
    y, h = as_array(target, "target"), as_array(probs, "probs")
    delta = options.pop("delta", 0.05)
    clusters = options.pop("groups", None)
    if isinstance(by, str) and by == LABEL and any(name in options for name in OF_NOISE):
        raise ValueError(_validation.expected("by", "another than 'label' where labels may be wrong", by))
    names = _parts(by, y, h)
    found = [name for name in np.unique(names).tolist() if not (isinstance(by, str) and by == LABEL and name == UNSEEN)]
    parts = {}
    for name in found:
        rows = names == name
        own = None if clusters is None else np.asarray(clusters)[rows]
        certificate = certify(y[rows], h[rows], delta=delta / len(found), groups=own, **options)
        clauses = ("all of this holds in each part by itself", *certificate.assumptions)
        parts[name] = replace(certificate, assumptions=clauses)
    return parts


def _parts(by: Any, y: Any, h: Any) -> Any:
    """Give the name of the part of each example, shape (n,)."""
    if isinstance(by, str):
        _validation.check_choice("by", by, (LABEL, PREDICTION))
        return y.astype(np.int64) if by == LABEL else h.argmax(1)
    names = np.asarray(by)
    if names.shape != y.shape:
        raise ValueError(_validation.expected("by", f"of shape {y.shape}, one name for each row", names.shape))
    return names
