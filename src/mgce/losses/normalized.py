r"""Define normalized losses: a loss divided by its sum over all classes, which makes the sum constant (symmetric)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce.kernels.options import LossOptions
from mgce.losses.base import python_number
from mgce.losses.modules import MAE, MGCE
from mgce.losses.named import NamedLoss, Presets
from mgce.losses.scored import scored_loss
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import sum_of
from mgce.losses.symmetric import RCE
from mgce.losses.wanted import Wanted

DEFAULT_FLOOR = 1e-7  # where its authors clamp


def nce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    dim: int | None = None,
) -> Tensor:
    r"""Compute normalized cross-entropy, the first ("active") term of active-passive losses such as NCE + RCE.

    .. math:: \ell(f, y) = \frac{\log p_y}{\sum_j \log p_j}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, 1]. It is symmetric: its sum over the classes is 1. It is not convex in the logits. A class of
    logit -inf is left out of the sum, and its own loss is the limit 1. If all other classes are masked, the loss is
    the limit 0.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`.

    Example:
        >>> nce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.8074)

    Reference: Ma et al., Normalized loss functions for deep learning with noisy labels, 2020.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(_nce, input, target, weight, options, dim)


def _nce(logits: Tensor, wanted: Wanted) -> Tensor:
    log_p = F.log_softmax(logits, wanted.dim)
    total = torch.where(log_p == -torch.inf, 0, log_p).sum(wanted.dim, wanted.keepdim)
    alone = total == 0  # one class, of log-probability 0: the numerator is 0 as well
    own = wanted.of(log_p)
    masked = own == -torch.inf
    return torch.where(masked, -1, torch.where(masked, 0, own) / torch.where(alone, 1, -total))


def nnce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    floor: float = DEFAULT_FLOOR,
    dim: int | None = None,
) -> Tensor:
    r"""Compute normalized negative cross-entropy, the second ("passive") term of the loss ANL-CE.

    .. math:: \ell(f, y) = 1 - \frac{A + \log p_y}{\sum_j (A + \log p_j)}, \qquad A = -\log \mathrm{floor}

    with p = softmax(f), where each probability below `floor` is replaced by `floor`. The loss lies in [0, 1]. It is
    symmetric: its sum over the k classes is k - 1. It is not convex in the logits.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        floor: the least probability, in (0, 1 / k); at 1 / k the loss could be 0 / 0. A class with a probability below
            `floor` has the loss 1, which does not depend on its own logit.
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> nnce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.5163)

    Reference: Ye et al., Active negative loss functions for learning with noisy labels, 2023.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(lambda f, wanted: _nnce(f, wanted, floor), input, target, weight, options, dim)


def _nnce(logits: Tensor, wanted: Wanted, floor: float) -> Tensor:
    log_p = F.log_softmax(logits, wanted.dim)
    _validation.check_number("floor", floor, 0, 0.5, above=True)
    k = log_p.shape[wanted.dim]
    if floor * k >= 1:
        raise ValueError(_validation.expected("floor", f"below 1 / {k}, for so many classes", floor))
    least = math.log(floor)
    lifted = (log_p - least).clamp(min=0)
    return wanted.of(lifted) / lifted.sum(wanted.dim, wanted.keepdim) - 1


class NCELoss(ScoredLoss):
    r"""Normalized cross-entropy: the first ("active") term of active-passive losses such as NCE + RCE.

    .. math:: \ell(f, y) = \frac{\log p_y}{\sum_j \log p_j}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, 1]. It is symmetric: its sum over the classes is 1. It is not convex in the logits.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> NCELoss()(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.8074)

    Reference: Ma et al., Normalized loss functions for deep learning with noisy labels, 2020.
    """

    function = staticmethod(nce_loss)


class NNCELoss(ScoredLoss):
    r"""Normalized negative cross-entropy: the second ("passive") term of the loss ANL-CE.

    .. math:: \ell(f, y) = 1 - \frac{A + \log p_y}{\sum_j (A + \log p_j)}, \qquad A = -\log \mathrm{floor}

    with p = softmax(f), where each probability below `floor` is replaced by `floor`. The loss lies in [0, 1]. It is
    symmetric: its sum over the k classes is k - 1. It is not convex in the logits.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        floor: the least probability, in (0, 1 / k); a class with a smaller probability has the loss 1.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> NNCELoss(floor=1e-7)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.5163)

    Reference: Ye et al., Active negative loss functions for learning with noisy labels, 2023.
    """

    function = staticmethod(nnce_loss)
    own = ("floor",)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        floor: float = DEFAULT_FLOOR,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.floor = python_number(floor)
        self.check()


NCE = NamedLoss(
    "nce",
    NCELoss,
    r"$\log p_y / \sum_j \log p_j$",
    order=7,
    bounded=True,
    symmetric=True,
    source="Ma et al. 2020",
)
NNCE = NamedLoss(  # which no paper compares alone
    "nnce",
    NNCELoss,
    r"$1 - \frac{A + \log p_y}{\sum_j (A + \log p_j)}$, `floor` = $e^{-A}$",
    bounded=True,
    symmetric=True,
)
_APL = {
    "mnist": {"weights": (1.0, 10.0)},
    "cifar10": {"weights": (1.0, 1.0)},
    "cifar100": {"weights": (10.0, 0.1)},
}
_NCE_RCE = Presets({**_APL, "webvision": {"weights": (50.0, 0.1)}})
# The L1 penalty of ANL-CE is of the network's parameters, not of its logits: it is the trainer's.
_ANL_CE = Presets(
    {
        "mnist": {"weights": (1.0, 1.0)},
        "cifar10": {"weights": (5.0, 5.0)},
        "cifar100": {"weights": (10.0, 1.0)},
        "webvision": {"weights": (20.0, 1.0)},
    }
)
NAMED = (
    NCE,
    sum_of("nce+rce", NCE, RCE, order=8, source="Ma et al. 2020", presets=_NCE_RCE),
    sum_of("nce+mae", NCE, MAE, order=9, source="Ma et al. 2020", presets=Presets(_APL)),
    sum_of(
        "anl-ce",
        NCE,
        NNCE,
        formula=f"NCE + NNCE, NNCE: {NNCE.formula}",
        order=12,
        source="Ye et al. 2023",
        presets=_ANL_CE,
    ),
    sum_of("mgce+nce", MGCE, NCE, order=25),
)
