"""Label noise: transition matrices, and labels corrupted with a generator that is passed in."""

from mgce.noise.corruption import CorruptedLabels, corrupt
from mgce.noise.transition import asymmetric, pair_flip, symmetric

__all__ = ["CorruptedLabels", "asymmetric", "corrupt", "pair_flip", "symmetric"]
