"""Weaken the evidence of labels and classifier where they are wrong on the same rows, so that probabilities hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from mgce.labels.annotators import AnnotatorModel, transitions_of

MOST = 3.0  # correlation of evidence at which three sources say less than one alone: no more is looked for


def shared_evidence(model: AnnotatorModel) -> tuple[AnnotatorModel, float]:
    r"""Return the estimates with probabilities that hold if all sources are wrong on the same hard rows, and rho.

    .. math:: \tilde P_{ic} \propto P_{ic}^{1 / (1 + \rho (s_i - 1))}

    s are the sources of a row: its labels, and the classifier if there is one. P multiplies what they say, as if they
    erred independently. The divisor is Kish's design effect of s sources of equal correlation rho. The most probable
    class of each row stays the same. The matrices of the annotators are estimated anew from the new probabilities.

    Rho predicts left-out labels best: the other sources of the row and the matrix of the annotator predict each label.
    It is 0 if no row has two sources beside a label.

    Args:
        model: the estimates.

    Reference: Kish, Survey sampling, 1965.

    Example:
        >>> from mgce.labels.annotators import Annotations, annotator_model
        >>> rng = np.random.default_rng(0)
        >>> hard = rng.random((500, 1)) < 0.4  # on hard rows, half of the labels of all annotators are wrong
        >>> labels = np.where(hard & (rng.random((500, 4)) < 0.5), rng.integers(3, size=(500, 4)), 0)
        >>> labels = (labels + rng.integers(3, size=(500, 1))) % 3
        >>> found = annotator_model(Annotations.of(labels, 3))
        >>> weaker, rho = shared_evidence(found)
        >>> bool(rho > 0), bool(weaker.probs.max(1).mean() < found.probs.max(1).mean())
        (True, True)
    """
    annotations, weight = model.annotations, model.weight
    log_probs = np.log(np.maximum(model.probs, np.finfo(float).tiny))
    others = np.bincount(annotations.row, minlength=len(log_probs)) - (not model.has_classifier)  # s - 1
    own = np.log(model.transitions[annotations.annotator, :, annotations.label])
    without = log_probs[annotations.row] - weight[:, None] * own
    left = np.maximum(others[annotations.row] - 1, 0)

    def lack(rho: float) -> float:
        """Return minus the log likelihood of the left-out labels, with an exponential prior of rho of mean 1."""
        probs = log_softmax(without / (1 + rho * left)[:, None], axis=1)
        return float(rho - logsumexp(probs + own, axis=1).sum())

    best = float(minimize_scalar(lack, bounds=(0, MOST), method="bounded").x)
    rho = best if lack(best) < lack(0.0) else 0.0
    divisor = 1 + rho * np.maximum(others, 0)
    probs = np.asarray(softmax(log_probs / divisor[:, None], axis=1))
    transitions, pooled = transitions_of(annotations.matrix(), probs, annotations.shape)
    return replace(model, probs=probs, transitions=transitions, pooled=pooled), rho
