"""Classifiers for noisy labels with the interface of scikit-learn; `save` and `load` keep them in files."""

from mgce.estimators.consensus_classifier import ConsensusClassifier as ConsensusClassifier
from mgce.estimators.correction import LabelCorrectionClassifier as LabelCorrectionClassifier
from mgce.estimators.embedding import MGCEEmbeddingClassifier as MGCEEmbeddingClassifier
from mgce.estimators.forest import MGCEForestClassifier as MGCEForestClassifier
from mgce.estimators.linear import MGCEClassifier as MGCEClassifier
from mgce.estimators.persistence import load as load
from mgce.estimators.persistence import save as save
from mgce.estimators.suspects import find_suspects as find_suspects

__all__ = sorted(name for name, value in globals().items() if callable(value) and not name.startswith("_"))
