"""Make the random generators of noise, orders and changes of images from the one seed of an experiment."""

from __future__ import annotations

import torch

from mgce._seeds import derived_seed


def derived_generator(seed: int, purpose: str, *key: int) -> torch.Generator:
    """Return a generator on the CPU with the seed that :func:`derived_seed` returns for the same arguments."""
    return torch.Generator().manual_seed(derived_seed(seed, purpose, *key))
