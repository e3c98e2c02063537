"""Keep the losses that no page recommends, for comparison: one record and one function of scores each.

`scores(logits, wanted, **hyperparameters)` gives each class its score, minus the loss of its docstring.
:func:`mgce.losses.scored_module.by_scores` makes a function and a module of it. To import this package is to add its
losses to those of :func:`mgce.robust_loss`.
"""

from __future__ import annotations

from typing import Any

from mgce.losses import presets
from mgce.losses.presets import DATA as DATA
from mgce.losses.presets import LOSSES as LOSSES
from mgce.losses.presets import NAMED as NAMED
from mgce.losses.presets import preset as preset
from mgce.losses.presets import robust_loss as robust_loss
from mgce_lab.losses import capped, clipped, normalized, reweighted, tempered, unhinged
from mgce_lab.losses.clipped import LogitClip as LogitClip
from mgce_lab.losses.clipped import clip_logits as clip_logits
from mgce_lab.losses.self_adaptive import SelfAdaptiveLoss as SelfAdaptiveLoss
from mgce_lab.losses.tempered import TemperedSoftmax as TemperedSoftmax

_MODULES = (capped, clipped, normalized, reweighted, tempered, unhinged)
presets.add(_MODULES)
HERE = frozenset(loss.name for module in _MODULES for loss in module.NAMED)  # names that `robust_loss` learns from here
_MADE = {name: made for name, made in presets.MADE.items() if made.__module__ == __name__}
__all__ = sorted((*_MADE, "LogitClip", "SelfAdaptiveLoss", "TemperedSoftmax", "clip_logits"))


def __getattr__(name: str) -> Any:
    # The modules and functions that are made from scores: `FocalLoss`, `focal_loss`.
    if name in _MADE:
        return _MADE[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
