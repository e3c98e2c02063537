"""Simulate label noise by transition matrices, and estimate the share of wrong labels."""

from mgce.noise.corruption import CorruptedLabels, corrupt
from mgce.noise.instances import corrupt_by_features
from mgce.noise.share import NoiseShare, noise_share
from mgce.noise.transition import asymmetric, inverse_noise_matrix, pair_flip, symmetric

__all__ = [
    "CorruptedLabels",
    "NoiseShare",
    "asymmetric",
    "corrupt",
    "corrupt_by_features",
    "inverse_noise_matrix",
    "noise_share",
    "pair_flip",
    "symmetric",
]
