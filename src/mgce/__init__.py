"""Minimax generalized cross-entropy: a convex, noise-robust replacement for cross-entropy.

Public are the names that docs/api.md lists; all others may change in any version.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; `as` says that it is public
    from mgce import estimators as estimators
    from mgce import functional as functional
    from mgce import labels as labels
    from mgce import loop as loop
    from mgce import losses as losses
    from mgce import metrics as metrics
    from mgce import noise as noise
    from mgce import risk as risk
    from mgce import sets as sets
    from mgce.estimators import ConsensusClassifier as ConsensusClassifier
    from mgce.estimators import MGCEClassifier as MGCEClassifier
    from mgce.estimators import MGCEEmbeddingClassifier as MGCEEmbeddingClassifier
    from mgce.estimators import find_suspects as find_suspects
    from mgce.kernels.proof import prove_kernel as prove_kernel
    from mgce.labels import find_consensus as find_consensus
    from mgce.loop import IndexedDataset as IndexedDataset
    from mgce.loop import ModelKeeper as ModelKeeper
    from mgce.loop import choose_recipe as choose_recipe
    from mgce.losses.early_learning import ELRLoss as ELRLoss
    from mgce.losses.early_learning import SoftBootstrapLoss as SoftBootstrapLoss
    from mgce.losses.forward import ForwardCorrection as ForwardCorrection
    from mgce.losses.learned_forward import LearnedForwardCorrection as LearnedForwardCorrection
    from mgce.losses.modules import GCELoss as GCELoss
    from mgce.losses.modules import LinearMGCELoss as LinearMGCELoss
    from mgce.losses.modules import MGCELoss as MGCELoss
    from mgce.losses.multi_label import MultiLabelLoss as MultiLabelLoss
    from mgce.losses.presets import robust_loss as robust_loss
    from mgce.losses.trimmed import TrimmedLoss as TrimmedLoss
    from mgce.risk import certify as certify

__version__ = "0.3.0"
_ROOMS = ("estimators", "functional", "labels", "loop", "losses", "metrics", "noise", "risk", "sets")
_NAMES = {  # by the module that defines them; every other public name is in its room
    "mgce.estimators": ("ConsensusClassifier", "MGCEClassifier", "MGCEEmbeddingClassifier", "find_suspects"),
    "mgce.kernels.proof": ("prove_kernel",),
    "mgce.labels": ("find_consensus",),
    "mgce.loop": ("IndexedDataset", "ModelKeeper", "choose_recipe"),
    "mgce.losses.early_learning": ("ELRLoss", "SoftBootstrapLoss"),
    "mgce.losses.forward": ("ForwardCorrection",),
    "mgce.losses.learned_forward": ("LearnedForwardCorrection",),
    "mgce.losses.modules": ("GCELoss", "LinearMGCELoss", "MGCELoss"),
    "mgce.losses.multi_label": ("MultiLabelLoss",),
    "mgce.losses.presets": ("robust_loss",),
    "mgce.losses.trimmed": ("TrimmedLoss",),
    "mgce.risk": ("certify",),
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
