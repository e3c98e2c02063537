"""Minimax generalized cross-entropy: a convex, noise-robust drop-in for cross-entropy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgce import datasets, estimators, functional, metrics, noise, risk, sets
    from mgce.estimators import (
        MGCEBoostingClassifier,
        MGCEClassifier,
        MGCEClassifierCV,
        MGCEForestClassifier,
        MGCEFourierClassifier,
        MGCEMLPClassifier,
        MGCEVotingClassifier,
    )
    from mgce.losses.asymmetric import AGCELoss, AMSELoss
    from mgce.losses.capped import CappedMGCELoss
    from mgce.losses.clipped import LogitClip
    from mgce.losses.forward import ForwardCorrection
    from mgce.losses.modules import GCELoss, LinearMGCELoss, MGCELoss, MinimaxLink
    from mgce.losses.normalized import NCELoss, NNCELoss
    from mgce.losses.presets import robust_loss
    from mgce.losses.reweighted import EpsilonSoftmaxLoss, FocalLoss, TaylorCELoss
    from mgce.losses.scale import LogitScale
    from mgce.losses.sums import SumLoss
    from mgce.losses.symmetric import RCELoss, UnhingedLoss
    from mgce.losses.temperature import TemperatureScaling
    from mgce.losses.tempered import BiTemperedLoss, TemperedSoftmax
    from mgce.losses.trimmed import TrimmedLoss
    from mgce.risk import RiskCertificate, certify

__version__ = "0.2.0"
__all__ = [
    "AGCELoss",
    "AMSELoss",
    "BiTemperedLoss",
    "CappedMGCELoss",
    "EpsilonSoftmaxLoss",
    "FocalLoss",
    "ForwardCorrection",
    "GCELoss",
    "LinearMGCELoss",
    "LogitClip",
    "LogitScale",
    "MGCEBoostingClassifier",
    "MGCEClassifier",
    "MGCEClassifierCV",
    "MGCEForestClassifier",
    "MGCEFourierClassifier",
    "MGCELoss",
    "MGCEMLPClassifier",
    "MGCEVotingClassifier",
    "MinimaxLink",
    "NCELoss",
    "NNCELoss",
    "RCELoss",
    "RiskCertificate",
    "SumLoss",
    "TaylorCELoss",
    "TemperatureScaling",
    "TemperedSoftmax",
    "TrimmedLoss",
    "UnhingedLoss",
    "certify",
    "datasets",
    "estimators",
    "functional",
    "metrics",
    "noise",
    "risk",
    "robust_loss",
    "sets",
]


_ROOMS = ("datasets", "estimators", "functional", "metrics", "noise", "risk", "sets")
_HOMES = {
    "AGCELoss": "mgce.losses.asymmetric",
    "AMSELoss": "mgce.losses.asymmetric",
    "BiTemperedLoss": "mgce.losses.tempered",
    "CappedMGCELoss": "mgce.losses.capped",
    "certify": "mgce.risk",
    "EpsilonSoftmaxLoss": "mgce.losses.reweighted",
    "FocalLoss": "mgce.losses.reweighted",
    "ForwardCorrection": "mgce.losses.forward",
    "GCELoss": "mgce.losses.modules",
    "LinearMGCELoss": "mgce.losses.modules",
    "LogitClip": "mgce.losses.clipped",
    "LogitScale": "mgce.losses.scale",
    "MGCEBoostingClassifier": "mgce.estimators",
    "MGCEClassifier": "mgce.estimators",
    "MGCEClassifierCV": "mgce.estimators",
    "MGCEForestClassifier": "mgce.estimators",
    "MGCEFourierClassifier": "mgce.estimators",
    "MGCELoss": "mgce.losses.modules",
    "MGCEMLPClassifier": "mgce.estimators",
    "MGCEVotingClassifier": "mgce.estimators",
    "MinimaxLink": "mgce.losses.modules",
    "NCELoss": "mgce.losses.normalized",
    "NNCELoss": "mgce.losses.normalized",
    "RCELoss": "mgce.losses.symmetric",
    "RiskCertificate": "mgce.risk",
    "robust_loss": "mgce.losses.presets",
    "SumLoss": "mgce.losses.sums",
    "TaylorCELoss": "mgce.losses.reweighted",
    "TemperatureScaling": "mgce.losses.temperature",
    "TemperedSoftmax": "mgce.losses.tempered",
    "TrimmedLoss": "mgce.losses.trimmed",
    "UnhingedLoss": "mgce.losses.symmetric",
}


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
