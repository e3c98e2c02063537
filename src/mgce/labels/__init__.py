"""Doubtful labels: which are wrong, how many, of what kind, and what several annotators say of them."""

from mgce.labels.chance_agreement import Agreement, agreement
from mgce.labels.consensus import Consensus, find_consensus
from mgce.labels.doubtful import DoubtfulLabels
from mgce.labels.share import NoiseShare, noise_share

__all__ = ["Agreement", "Consensus", "DoubtfulLabels", "NoiseShare", "agreement", "find_consensus", "noise_share"]
