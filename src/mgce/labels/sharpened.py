"""Sharpen the class probabilities of a model that states less than its predictions are worth."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from scipy.stats import chi2

from mgce._arrays import FloatArray, IntArray

LEAST = 1e-6  # probability of a class: as in `correction`, a label of probability zero would decide alone
TOO_EVEN = 0.001  # level of the test that probabilities are too even, as of the test in `correction`
DIGITS = 2  # of the power: further ones depend on the order of the rows
MOST = 64.0  # power: strongly regularised linear models and shallow forests needed 2 to 15 on seven tables


def sharpened(probs: FloatArray, target: IntArray) -> FloatArray:
    r"""Return probabilities to the power that fits the given labels best, if the labels say that it is above 1.

    .. math:: p'_{iy} \propto p_{iy}^a, \qquad a = \operatorname{argmax}_{a \ge 1} \sum_i \log p'_{i y_i}

    Shallow trees and strongly regularised models often predict the right class with a low probability. A wrong label
    then looks possible, and no label is more probably wrong than right. A likelihood-ratio test compares the power with
    1. If the test does not refute the power 1, or if probabilities are too sure, they are returned unchanged.

    Args:
        probs: p, shape (n, k), by a model that was not fitted to the row.
        target: given labels y, shape (n,), in 0..k-1.

    Example:
        >>> target = np.repeat([0, 1], [95, 5])
        >>> sharpened(np.repeat([[0.6, 0.4]], 100, axis=0), target)[0].round(2)
        array([0.95, 0.05])

    Reference: Guo et al., On calibration of modern neural networks, 2017, section 4.2 (the power is one over their
    temperature).
    """
    scores, rows = np.log(np.maximum(probs, LEAST)), np.arange(len(target))

    def loss(log_power: float) -> float:
        f = np.exp(log_power) * scores
        return float((np.logaddexp.reduce(f, axis=1) - f[rows, target]).sum())

    if (probs * scores).sum() >= scores[rows, target].sum():  # the slope at 1: a larger power fits worse
        return probs
    best = minimize_scalar(loss, bounds=(0, np.log(MOST)), method="bounded")
    if 2 * (loss(0.0) - best.fun) <= chi2.isf(TOO_EVEN, 1):
        return probs
    return np.asarray(softmax(round(float(np.exp(best.x)), DIGITS) * scores, axis=1))
