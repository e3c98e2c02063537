# Written by `python tests/losses_stub.py`: what type checkers see.
from torch import Tensor

from mgce.losses.bootstrapped import SoftBootstrapLoss as SoftBootstrapLoss
from mgce.losses.clipped import LogitClip as LogitClip
from mgce.losses.early_learning import ELRLoss as ELRLoss
from mgce.losses.forward import ForwardCorrection as ForwardCorrection
from mgce.losses.learned_forward import LearnedForwardCorrection as LearnedForwardCorrection
from mgce.losses.modules import GCELoss as GCELoss
from mgce.losses.modules import LinearMGCELoss as LinearMGCELoss
from mgce.losses.modules import MGCELoss as MGCELoss
from mgce.losses.modules import MinimaxLink as MinimaxLink
from mgce.losses.multi_label import MultiLabelLoss as MultiLabelLoss
from mgce.losses.presets import preset as preset
from mgce.losses.presets import robust_loss as robust_loss
from mgce.losses.scale import LogitScale as LogitScale
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import SumLoss as SumLoss
from mgce.losses.symmetric import _WithKernel
from mgce.losses.temperature import TemperatureScaling as TemperatureScaling
from mgce.losses.trimmed import TrimmedLoss as TrimmedLoss
from mgce.losses.zoo.capped import _WithMinimaxLink
from mgce.losses.zoo.self_adaptive import SelfAdaptiveLoss as SelfAdaptiveLoss
from mgce.losses.zoo.tempered import TemperedSoftmax as TemperedSoftmax
from mgce.losses.zoo.tempered import _WithTemperedLink

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

class AMSELoss(ScoredLoss):
    c: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        c: float = 30.0,
        dim: int | None = None,
    ) -> None: ...

class BiTemperedLoss(_WithTemperedLink):
    t1: float
    t2: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        t1: float = 0.8,
        t2: float = 1.2,
        dim: int | None = None,
    ) -> None: ...

class CappedMGCELoss(_WithMinimaxLink):
    beta: float
    threshold: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        beta: float = 1.4,
        threshold: float = 0.0,
        dim: int | None = None,
    ) -> None: ...

class EpsilonSoftmaxLoss(ScoredLoss):
    m: float
    floor: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        m: float = 100000.0,
        floor: float = 1e-08,
        dim: int | None = None,
    ) -> None: ...

class FocalLoss(ScoredLoss):
    gamma: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        gamma: float = 0.5,
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

class NNCELoss(ScoredLoss):
    floor: float
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        floor: float = 1e-07,
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

class TaylorCELoss(ScoredLoss):
    order: int
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        order: int = 2,
        dim: int | None = None,
    ) -> None: ...

class UnhingedLoss(ScoredLoss):
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
def amse_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    c: float = 30.0,
    dim: int | None = None,
) -> Tensor: ...
def bi_tempered_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    t1: float = 0.8,
    t2: float = 1.2,
    dim: int | None = None,
) -> Tensor: ...
def capped_mgce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: float = 1.4,
    threshold: float = 0.0,
    dim: int | None = None,
) -> Tensor: ...
def epsilon_softmax_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    m: float = 100000.0,
    floor: float = 1e-08,
    dim: int | None = None,
) -> Tensor: ...
def focal_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    gamma: float = 0.5,
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
def nnce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    floor: float = 1e-07,
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
def taylor_ce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    order: int = 2,
    dim: int | None = None,
) -> Tensor: ...
def unhinged_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    dim: int | None = None,
) -> Tensor: ...
