"""Simulate label noise by transition matrices."""

from mgce.noise.corruption import CorruptedLabels as CorruptedLabels
from mgce.noise.corruption import asymmetric as asymmetric
from mgce.noise.corruption import corrupt as corrupt
from mgce.noise.corruption import corrupt_by_features as corrupt_by_features
from mgce.noise.corruption import inverse_noise_matrix as inverse_noise_matrix
from mgce.noise.corruption import pair_flip as pair_flip
from mgce.noise.corruption import symmetric as symmetric

__all__ = sorted(name for name, value in globals().items() if callable(value) and not name.startswith("_"))
