"""Minimax generalized cross-entropy: a convex, noise-robust drop-in for cross-entropy."""

from importlib import import_module
from types import ModuleType

from mgce import functional
from mgce.losses.modules import GCELoss, MGCELoss, MinimaxLink

__version__ = "0.1.0"
__all__ = ["GCELoss", "MGCELoss", "MinimaxLink", "functional", "metrics", "noise"]


def __getattr__(name: str) -> ModuleType:
    # Imported when used: `import mgce` is to cost little more than `import torch`.
    if name in ("metrics", "noise"):
        return import_module(f"mgce.{name}")
    raise AttributeError(f"module 'mgce' has no attribute {name!r}")
