"""Classifiers for noisy labels with the interface of scikit-learn; `save` and `load` keep them in files."""

from mgce.estimators.consensus_classifier import ConsensusClassifier
from mgce.estimators.correction import LabelCorrectionClassifier
from mgce.estimators.embedding import MGCEEmbeddingClassifier
from mgce.estimators.forest import MGCEForestClassifier
from mgce.estimators.linear import MGCEClassifier
from mgce.estimators.persistence import load, save
from mgce.estimators.suspects import find_suspects

__all__ = [
    "ConsensusClassifier",
    "LabelCorrectionClassifier",
    "MGCEClassifier",
    "MGCEEmbeddingClassifier",
    "MGCEForestClassifier",
    "find_suspects",
    "load",
    "save",
]
