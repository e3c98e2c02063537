"""Simulate label noise by transition matrices, or by the features of each row."""

from mgce.noise.corruption import (
    CorruptedLabels,
    asymmetric,
    corrupt,
    corrupt_by_features,
    inverse_noise_matrix,
    pair_flip,
    symmetric,
)

__all__ = [
    "CorruptedLabels",
    "asymmetric",
    "corrupt",
    "corrupt_by_features",
    "inverse_noise_matrix",
    "pair_flip",
    "symmetric",
]
