"""Estimate the noise matrix from class probabilities and noisy labels, by expectation maximisation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Each class counts this many rows besides its own, with all wrong labels equally probable. They keep a rare class from
# a noise matrix of two or three chance labels.
PRIOR_ROWS = 2
STEPS = 50  # after 20 steps no entry changes by more than .01 on features of CIFAR-10


def fitted_transition(
    probs: NDArray[np.floating], target: NDArray[np.int64], weight: NDArray[np.floating]
) -> NDArray[np.float64]:
    r"""Return the noise matrix T under which the noisy labels are most probable, given probabilities of the right ones.

    .. math:: \max_T\ \sum_i w_i \log \sum_c p_{ic}\, T_{c y_i}

    The maximisation starts at the counts of the most probable class against the noisy label. Each class keeps at least
    as many labels as it gives to any one other class.

    Args:
        probs: p, probabilities of the right class by a model that was not trained on the row, shape (n, k).
        target: noisy labels y, shape (n,), in 0..k-1.
        weight: w, shape (n,).

    Returns:
        T, shape (k, k): T[i, j] is the probability that class i is labelled j.

    Example:
        >>> probs, target = np.repeat([[1.0, 0.0], [0.0, 1.0]], 50, axis=0), np.repeat([0, 1, 0, 1], [40, 10, 0, 50])
        >>> fitted_transition(probs, target, np.ones(100)).round(1)
        array([[0.8, 0.2],
               [0. , 1. ]])

    Reference: Dempster, Laird and Rubin, Maximum likelihood from incomplete data via the EM algorithm, 1977.
    """
    k = probs.shape[1]
    labels = np.eye(k)[target] * weight[:, None]
    transition = _with_prior(np.eye(k)[probs.argmax(1)].T @ labels)
    for _ in range(STEPS):
        transition = _with_prior(right_class(probs, target, transition).T @ labels)
    return transition


def right_class(
    probs: NDArray[np.floating], target: NDArray[np.int64], transition: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""Return the probability of each right class, given the noisy label too: `p_ic T[c, y_i]`, divided by its sum.

    Args:
        probs: p, shape (n, k).
        target: noisy labels y, shape (n,).
        transition: T, shape (k, k), of positive entries.
    """
    joint = (probs + np.finfo(np.float64).tiny) * transition[:, target].T
    return np.asarray(joint / joint.sum(1, keepdims=True))


def even_noise(k: int, share: float) -> NDArray[np.float64]:
    """Return the noise matrix (k, k) of a share of wrong labels, in which all wrong labels are equally probable."""
    matrix = np.full((k, k), share / max(k - 1, 1))
    np.fill_diagonal(matrix, 1 - share)
    return matrix


def _with_prior(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the noise matrix of counts (k, k) and `PRIOR_ROWS` rows of even noise for each class.

    If a class would be given another label more often than its own, both get the mean of the two probabilities.
    """
    k, n = len(counts), counts.sum()
    share = min(max(1 - np.trace(counts) / n, 1 / n), 1 - 1 / k)  # no label is certain to be right
    smoothed = counts + PRIOR_ROWS * even_noise(k, share)
    noise = np.asarray(smoothed / smoothed.sum(1, keepdims=True))
    for own, row in enumerate(noise):
        others = np.where(np.arange(k) == own, -1.0, row)
        other = int(others.argmax())
        half = (row[own] + row[other]) / 2
        if row[other] > half:  # beyond, the two classes could be exchanged, and nothing in the labels says so
            row[own] = row[other] = half
    return noise
