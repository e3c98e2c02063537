"""Losses of logits and targets, as modules: `from mgce.losses import SumLoss`. Their functions are in `functional`."""

from importlib import import_module
from typing import Any

_NAMES = {  # by the module that defines them
    "early_learning": ("ELRLoss", "SoftBootstrapLoss"),
    "forward": ("ForwardCorrection",),
    "learned_forward": ("LearnedForwardCorrection",),
    "modules": ("GCELoss", "LinearMGCELoss", "MGCELoss", "MinimaxLink"),
    "multi_label": ("MultiLabelLoss",),
    "presets": ("preset", "robust_loss"),
    "sums": ("SumLoss",),
    "temperature": ("LogitScale", "TemperatureScaling"),
    "trimmed": ("TrimmedLoss",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
# The modules that are made from scores. Their functions are here too: `agce_loss`.
_MADE = ("AGCELoss", "NCELoss", "RCELoss")
__all__ = sorted((*_HOMES, *_MADE))


def __getattr__(name: str) -> Any:
    # Imported when used: who imports one module of losses waits for no other.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name.endswith(("Loss", "_loss")):  # and no file, which `from mgce.losses import scored` asks for too
        made = import_module(f"{__name__}.presets").MADE
        if name in made and made[name].__module__ == __name__:
            return made[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
