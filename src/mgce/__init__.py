"""Minimax generalized cross-entropy: a convex, noise-robust drop-in for cross-entropy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mgce import functional
from mgce.losses.modules import GCELoss, LinearMGCELoss, MGCELoss, MinimaxLink

if TYPE_CHECKING:
    from mgce.risk import RiskCertificate, certify

__version__ = "0.1.0"
__all__ = [
    "GCELoss",
    "LinearMGCELoss",
    "MGCELoss",
    "MinimaxLink",
    "RiskCertificate",
    "certify",
    "functional",
    "metrics",
    "noise",
    "risk",
]


def __getattr__(name: str) -> Any:
    # Imported when used: `import mgce` is to cost little more than `import torch`.
    if name in ("metrics", "noise", "risk"):
        return import_module(f"mgce.{name}")
    if name in ("RiskCertificate", "certify"):
        return getattr(import_module("mgce.risk"), name)
    raise AttributeError(f"module 'mgce' has no attribute {name!r}")
