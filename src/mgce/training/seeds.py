"""Seeds for every purpose, from the one seed of an experiment."""

from __future__ import annotations

import numpy as np
import torch


def derived_seed(seed: int, purpose: str, *key: int) -> int:
    """Return a seed in [0, 2**32) for each purpose and key, so that no two of them draw from one stream.

    It depends on nothing else: what seed 0 gives is the same whether or not there is a seed 1.

    Args:
        seed: that of the experiment.
        purpose: a word such as "noise", "split" or "weights".
        key: numbers that tell apart several uses for one purpose, such as the epoch and the step.

    Example:
        >>> derived_seed(0, "noise"), derived_seed(0, "split"), derived_seed(1, "noise")
        (2282558785, 3028512182, 2457104669)
    """
    entropy = np.random.SeedSequence([seed, *purpose.encode(), *key])
    return int(entropy.generate_state(1, np.uint32)[0])


def derived_generator(seed: int, purpose: str, *key: int) -> torch.Generator:
    """Return a generator on the CPU whose state is a function of the arguments."""
    return torch.Generator().manual_seed(derived_seed(seed, purpose, *key))
