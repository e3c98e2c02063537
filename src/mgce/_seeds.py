"""Derive the seeds of noise, splits, weights and other random steps from the one seed of an experiment."""

from __future__ import annotations

import numpy as np


def derived_seed(seed: int, purpose: str, *key: int) -> int:
    """Return a seed in [0, 2**32) that depends only on the arguments, so that different purposes get different seeds.

    Args:
        seed: the seed of the experiment.
        purpose: a word such as "noise", "split" or "weights".
        key: numbers that distinguish several uses for one purpose, such as the epoch and the step.

    Example:
        >>> derived_seed(0, "noise"), derived_seed(0, "split"), derived_seed(1, "noise")
        (2282558785, 3028512182, 2457104669)
    """
    entropy = np.random.SeedSequence([seed, *purpose.encode(), *key])
    return int(entropy.generate_state(1, np.uint32)[0])
