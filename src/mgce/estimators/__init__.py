"""Classifiers for noisy labels with the interface of scikit-learn; `save` and `load` keep them in files."""

from mgce.estimators.boosting import MGCEBoostingClassifier
from mgce.estimators.consensus_classifier import ConsensusClassifier
from mgce.estimators.correction import LabelCorrectionClassifier
from mgce.estimators.embedding import MGCEEmbeddingClassifier
from mgce.estimators.forest import MGCEForestClassifier
from mgce.estimators.fourier import MGCEFourierClassifier
from mgce.estimators.linear import MGCEClassifier
from mgce.estimators.linear_cv import MGCEClassifierCV
from mgce.estimators.mlp import MGCEMLPClassifier
from mgce.estimators.persistence import load, save
from mgce.estimators.suspects import find_suspects

__all__ = [
    "ConsensusClassifier",
    "LabelCorrectionClassifier",
    "MGCEBoostingClassifier",
    "MGCEClassifier",
    "MGCEClassifierCV",
    "MGCEEmbeddingClassifier",
    "MGCEForestClassifier",
    "MGCEFourierClassifier",
    "MGCEMLPClassifier",
    "find_suspects",
    "load",
    "save",
]
