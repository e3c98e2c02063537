"""Made annotators whose errors are known, and a calibrated prior of the right classes."""

import numpy as np

K = 4


def made(n, rates, seed=0, copies=None, asked=None):
    """Return right classes and labels of annotators who err with these rates; `copies` repeats one."""
    rng = np.random.default_rng(seed)
    right = rng.integers(K, size=n)
    labels = np.stack([np.where(rng.random(n) < rate, (right + rng.integers(1, K, n)) % K, right) for rate in rates], 1)
    if copies is not None:
        labels = np.concatenate([labels, labels[:, [copies]]], 1)
    if asked is not None:
        out = np.argsort(rng.random(labels.shape), axis=1) >= asked
        labels[out] = -1
    return right, labels


def prior(right, sure, seed=1):
    """Return calibrated probabilities: the largest is `sure`, and it is that of the right class as often."""
    rng = np.random.default_rng(seed)
    top = np.where(rng.random(len(right)) < sure, right, (right + rng.integers(1, K, len(right))) % K)
    probs = np.full((len(right), K), (1 - sure) / (K - 1))
    probs[np.arange(len(right)), top] = sure
    return probs
