"""Minimax generalized cross-entropy: a convex, noise-robust drop-in for cross-entropy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mgce import functional
from mgce.losses.asymmetric import AGCELoss, AMSELoss
from mgce.losses.capped import CappedMGCELoss
from mgce.losses.modules import GCELoss, LinearMGCELoss, MGCELoss, MinimaxLink
from mgce.losses.normalized import NCELoss, NNCELoss
from mgce.losses.presets import robust_loss
from mgce.losses.reweighted import EpsilonSoftmaxLoss, FocalLoss, TaylorCELoss
from mgce.losses.scale import LogitScale
from mgce.losses.symmetric import RCELoss, UnhingedLoss
from mgce.losses.temperature import TemperatureScaling
from mgce.losses.tempered import BiTemperedLoss, TemperedSoftmax
from mgce.losses.wrappers import ForwardCorrection, LogitClip, SumLoss

if TYPE_CHECKING:
    from mgce import datasets, estimators, metrics, noise, risk, sets
    from mgce.estimators import (
        MGCEClassifier,
        MGCEClassifierCV,
        MGCEForestClassifier,
        MGCEFourierClassifier,
        MGCEMLPClassifier,
    )
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
    "MGCEClassifier",
    "MGCEClassifierCV",
    "MGCEForestClassifier",
    "MGCEFourierClassifier",
    "MGCELoss",
    "MGCEMLPClassifier",
    "MinimaxLink",
    "NCELoss",
    "NNCELoss",
    "RCELoss",
    "RiskCertificate",
    "SumLoss",
    "TaylorCELoss",
    "TemperatureScaling",
    "TemperedSoftmax",
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


def __getattr__(name: str) -> Any:
    # Imported when used: `import mgce` is to cost little more than `import torch`.
    if name in ("datasets", "estimators", "metrics", "noise", "risk", "sets"):
        return import_module(f"mgce.{name}")
    if name in ("RiskCertificate", "certify"):
        return getattr(import_module("mgce.risk"), name)
    if name.startswith("MGCE") and name in __all__:  # the losses of that beginning are imported above
        return getattr(import_module("mgce.estimators"), name)
    raise AttributeError(f"module 'mgce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
