"""Minimax generalized cross-entropy: a convex, noise-robust replacement for cross-entropy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; `as` says that it is public
    from mgce import datasets as datasets
    from mgce import estimators as estimators
    from mgce import functional as functional
    from mgce import labels as labels
    from mgce import loop as loop
    from mgce import metrics as metrics
    from mgce import noise as noise
    from mgce import risk as risk
    from mgce import sets as sets
    from mgce.estimators import ConsensusClassifier as ConsensusClassifier
    from mgce.estimators import MGCEBoostingClassifier as MGCEBoostingClassifier
    from mgce.estimators import MGCEClassifier as MGCEClassifier
    from mgce.estimators import MGCEClassifierCV as MGCEClassifierCV
    from mgce.estimators import MGCEEmbeddingClassifier as MGCEEmbeddingClassifier
    from mgce.estimators import MGCEForestClassifier as MGCEForestClassifier
    from mgce.estimators import MGCEFourierClassifier as MGCEFourierClassifier
    from mgce.estimators import MGCEMLPClassifier as MGCEMLPClassifier
    from mgce.estimators import MGCEVotingClassifier as MGCEVotingClassifier
    from mgce.estimators import find_suspects as find_suspects
    from mgce.kernels.proof import prove_kernel as prove_kernel
    from mgce.labels import find_consensus as find_consensus
    from mgce.loop import IndexedDataset as IndexedDataset
    from mgce.loop import ModelKeeper as ModelKeeper
    from mgce.loop import choose_recipe as choose_recipe
    from mgce.losses.asymmetric import AGCELoss as AGCELoss
    from mgce.losses.asymmetric import AMSELoss as AMSELoss
    from mgce.losses.bootstrapped import SoftBootstrapLoss as SoftBootstrapLoss
    from mgce.losses.capped import CappedMGCELoss as CappedMGCELoss
    from mgce.losses.clipped import LogitClip as LogitClip
    from mgce.losses.early_learning import ELRLoss as ELRLoss
    from mgce.losses.forward import ForwardCorrection as ForwardCorrection
    from mgce.losses.learned_forward import LearnedForwardCorrection as LearnedForwardCorrection
    from mgce.losses.modules import GCELoss as GCELoss
    from mgce.losses.modules import LinearMGCELoss as LinearMGCELoss
    from mgce.losses.modules import MGCELoss as MGCELoss
    from mgce.losses.modules import MinimaxLink as MinimaxLink
    from mgce.losses.multi_label import MultiLabelLoss as MultiLabelLoss
    from mgce.losses.normalized import NCELoss as NCELoss
    from mgce.losses.normalized import NNCELoss as NNCELoss
    from mgce.losses.presets import robust_loss as robust_loss
    from mgce.losses.reweighted import EpsilonSoftmaxLoss as EpsilonSoftmaxLoss
    from mgce.losses.reweighted import FocalLoss as FocalLoss
    from mgce.losses.reweighted import TaylorCELoss as TaylorCELoss
    from mgce.losses.scale import LogitScale as LogitScale
    from mgce.losses.self_adaptive import SelfAdaptiveLoss as SelfAdaptiveLoss
    from mgce.losses.sums import SumLoss as SumLoss
    from mgce.losses.symmetric import RCELoss as RCELoss
    from mgce.losses.symmetric import UnhingedLoss as UnhingedLoss
    from mgce.losses.temperature import TemperatureScaling as TemperatureScaling
    from mgce.losses.tempered import BiTemperedLoss as BiTemperedLoss
    from mgce.losses.tempered import TemperedSoftmax as TemperedSoftmax
    from mgce.losses.trimmed import TrimmedLoss as TrimmedLoss
    from mgce.risk import RiskCertificate as RiskCertificate
    from mgce.risk import certify as certify

__version__ = "0.2.0"
_ROOMS = ("datasets", "estimators", "functional", "labels", "loop", "metrics", "noise", "risk", "sets")
_NAMES = {  # by the module that defines them
    "mgce.estimators": (
        "ConsensusClassifier",
        "MGCEBoostingClassifier",
        "MGCEClassifier",
        "MGCEClassifierCV",
        "MGCEEmbeddingClassifier",
        "MGCEForestClassifier",
        "MGCEFourierClassifier",
        "MGCEMLPClassifier",
        "MGCEVotingClassifier",
        "find_suspects",
    ),
    "mgce.kernels.proof": ("prove_kernel",),
    "mgce.labels": ("find_consensus",),
    "mgce.loop": ("IndexedDataset", "ModelKeeper", "choose_recipe"),
    "mgce.losses.asymmetric": ("AGCELoss", "AMSELoss"),
    "mgce.losses.bootstrapped": ("SoftBootstrapLoss",),
    "mgce.losses.capped": ("CappedMGCELoss",),
    "mgce.losses.clipped": ("LogitClip",),
    "mgce.losses.early_learning": ("ELRLoss",),
    "mgce.losses.forward": ("ForwardCorrection",),
    "mgce.losses.learned_forward": ("LearnedForwardCorrection",),
    "mgce.losses.modules": ("GCELoss", "LinearMGCELoss", "MGCELoss", "MinimaxLink"),
    "mgce.losses.multi_label": ("MultiLabelLoss",),
    "mgce.losses.normalized": ("NCELoss", "NNCELoss"),
    "mgce.losses.presets": ("robust_loss",),
    "mgce.losses.reweighted": ("EpsilonSoftmaxLoss", "FocalLoss", "TaylorCELoss"),
    "mgce.losses.scale": ("LogitScale",),
    "mgce.losses.self_adaptive": ("SelfAdaptiveLoss",),
    "mgce.losses.sums": ("SumLoss",),
    "mgce.losses.symmetric": ("RCELoss", "UnhingedLoss"),
    "mgce.losses.temperature": ("TemperatureScaling",),
    "mgce.losses.tempered": ("BiTemperedLoss", "TemperedSoftmax"),
    "mgce.losses.trimmed": ("TrimmedLoss",),
    "mgce.risk": ("RiskCertificate", "certify"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = sorted((*_ROOMS, *_HOMES))


def __getattr__(name: str) -> Any:
    # Imported when used: `import mgce` costs next to nothing, and `mgce --help` does not wait for torch.
    if name in _ROOMS:
        return import_module(f"mgce.{name}")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module 'mgce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
