"""Find the class to which each row confidently belongs, by confident learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import ROUNDED


def confident_labels(probs: NDArray[np.floating[Any]], target: NDArray[np.int64]) -> NDArray[np.int64]:
    r"""Return the class to which each row confidently belongs, which may differ from the given label.

    The threshold of a class j is the mean of its probability over the :math:`n_j` rows with the given label j,

    .. math:: t_j = \frac{1}{n_j} \sum_{i: y_i = j} p_{ij}.

    Row i confidently belongs to class j if :math:`p_{ij} \ge t_j`. If a row confidently belongs to several classes, the
    most probable of them is returned. If it belongs to none, the given label is returned. Classes that the model
    predicts with high probability have a high threshold.

    Args:
        probs: class probabilities, shape (n, k): n rows, k classes, predicted for each row by a model that was not
            trained on it.
        target: given labels, shape (n,), in 0..k-1.

    Returns:
        Classes in 0..k-1, shape (n,).

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.9, 0.1]])
        >>> confident_labels(probs, np.array([0, 0, 1, 1]))  # the last is surer of class 0 than the rows labelled so
        array([0, 0, 1, 0])

    Reference: Northcutt, Jiang and Chuang, Confident learning, 2021.
    """
    confident = confident_probs(probs, target)
    return np.where(confident.max(1) > 0, confident.argmax(1), target)


def confident_probs(probs: NDArray[np.floating[Any]], target: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probabilities that reach their class's threshold of :func:`confident_labels`, -1 for others, (n, k).

    Args:
        probs: class probabilities, shape (n, k).
        target: given labels, shape (n,), in 0..k-1.
    """
    # A class that no row is labelled with has no threshold, and no row belongs to it.
    thresholds = [probs[target == j, j].mean() if (target == j).any() else np.inf for j in range(probs.shape[1])]
    # If all rows of a label are alike, their mean equals each up to rounding. cleanlab has the same tolerance.
    return np.where(probs >= np.array(thresholds) - ROUNDED, probs, -1.0)
