"""Doubtful labels: which are wrong, how many, of what kind, and what several annotators say of them."""

from mgce.labels.consensus import Consensus, find_consensus
from mgce.labels.doubtful import DoubtfulLabels
from mgce.labels.share import NoiseShare, noise_share

__all__ = ["Consensus", "DoubtfulLabels", "NoiseShare", "find_consensus", "noise_share"]
