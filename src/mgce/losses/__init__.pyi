# Written by `python tests/losses_stub.py`: what type checkers see.
from torch import Tensor

from mgce.losses.active_passive import _WithKernel
from mgce.losses.early_learning import ELRLoss as ELRLoss
from mgce.losses.early_learning import SoftBootstrapLoss as SoftBootstrapLoss
from mgce.losses.forward import ForwardCorrection as ForwardCorrection
from mgce.losses.learned_forward import LearnedForwardCorrection as LearnedForwardCorrection
from mgce.losses.modules import GCELoss as GCELoss
from mgce.losses.modules import LinearMGCELoss as LinearMGCELoss
from mgce.losses.modules import MGCELoss as MGCELoss
from mgce.losses.modules import MinimaxLink as MinimaxLink
from mgce.losses.multi_label import MultiLabelLoss as MultiLabelLoss
from mgce.losses.presets import preset as preset
from mgce.losses.presets import robust_loss as robust_loss
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import SumLoss as SumLoss
from mgce.losses.temperature import LogitScale as LogitScale
from mgce.losses.temperature import TemperatureScaling as TemperatureScaling
from mgce.losses.trimmed import TrimmedLoss as TrimmedLoss

__all__: list[str]

class AGCELoss(ScoredLoss):
    a: float
    q: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        a: float = 0.6,
        q: float = 0.6,
        dim: int | None = None,
    ) -> None: ...

class NCELoss(ScoredLoss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        dim: int | None = None,
    ) -> None: ...

class RCELoss(_WithKernel):
    log_zero: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        log_zero: float = -9.210340371976182,
        dim: int | None = None,
    ) -> None: ...

def agce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    a: float = 0.6,
    q: float = 0.6,
    dim: int | None = None,
) -> Tensor: ...
def nce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    dim: int | None = None,
) -> Tensor: ...
def rce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    log_zero: float = -9.210340371976182,
    dim: int | None = None,
) -> Tensor: ...
