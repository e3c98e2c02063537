r"""Define variants of cross-entropy: the focal loss, Taylor cross-entropy and the loss of epsilon-softmax.

Poly-1 changes the weight of the first term of the Taylor series of cross-entropy. Poly-1 is the sum of cross-entropy
and :math:`\epsilon` times MAE (mean absolute error), so :class:`mgce.SumLoss` computes it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce.kernels.options import LossOptions
from mgce.losses.base import python_number
from mgce.losses.modules import CE, MAE
from mgce.losses.named import NamedLoss, Presets
from mgce.losses.scored import expm1, scored_loss
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import sum_of
from mgce.losses.wanted import Wanted

LARGEST_ORDER = 10_000  # each costs a multiplication: far more than anybody uses, and still less than a second
DEFAULT_GAMMA = 0.5  # what comparisons under label noise use; its authors use 2 for detection
DEFAULT_ORDER = 2  # the least of the 2 to 6 that its authors try
DEFAULT_M = 1e5  # published for CIFAR-10
DEFAULT_FLOOR = 1e-8  # where its authors clamp


def focal_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    gamma: float = DEFAULT_GAMMA,
    dim: int | None = None,
) -> Tensor:
    r"""Compute the focal loss: cross-entropy with a smaller weight for rows whose label is already probable.

    .. math:: \ell(f, y) = -(1 - p_y)^\gamma \log p_y, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, inf) and is unbounded. It is not symmetric: its sum over all classes varies. It is convex in
    the logits only at gamma = 0, where it is cross-entropy.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        gamma: in [0, 1e30].
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> focal_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), gamma=2.0)
        tensor(0.7019)

    Reference: Lin et al., Focal loss for dense object detection, 2017.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(lambda f, wanted: _focal(f, wanted, gamma), input, target, weight, options, dim)


def _focal(logits: Tensor, wanted: Wanted, gamma: float) -> Tensor:
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    _validation.check_number("gamma", gamma, 0, 1e30)  # well below the largest number of float32
    # At p = 0 the factor is 1, and at p = 1, where it has no derivative, the loss and its derivatives are 0.
    inside = (log_p < 0) & (log_p > -torch.inf)
    safe = torch.where(inside, log_p, -1)
    return torch.where(inside, (-expm1(safe)) ** gamma * safe, torch.where(log_p == 0, 0, log_p))


def taylor_ce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    order: int = DEFAULT_ORDER,
    dim: int | None = None,
) -> Tensor:
    r"""Compute Taylor cross-entropy: the Taylor series of -log at 1, cut after `order` terms.

    .. math:: \ell(f, y) = \sum_{i=1}^{t} \frac{(1 - p_y)^i}{i}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, 1 + 1/2 + ... + 1/t], with t the `order`. It is symmetric (its sum over all classes is
    constant) only at t = 1, where it is MAE (mean absolute error). It is not convex in the logits. As t grows it
    increases to cross-entropy.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        order: integer t from 1 to 10,000.
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> taylor_ce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.9983)

    Reference: Feng et al., Can cross entropy loss be robust to label noise?, 2020.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(lambda f, wanted: _taylor_ce(f, wanted, order), input, target, weight, options, dim)


def _taylor_ce(logits: Tensor, wanted: Wanted, order: int) -> Tensor:
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    _validation.check_count("order", order)
    if order > LARGEST_ORDER:
        raise ValueError(_validation.expected("order", f"at most {LARGEST_ORDER}", order))
    rest = -expm1(log_p)
    total = torch.zeros_like(rest)
    for i in range(order, 0, -1):
        total = rest * (1 / i + total)
    return -total


def epsilon_softmax_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    m: float = DEFAULT_M,
    floor: float = DEFAULT_FLOOR,
    dim: int | None = None,
) -> Tensor:
    r"""Compute CE_eps, the cross-entropy of softmax after adding m to the most probable class and normalizing.

    .. math:: \ell(f, y) = -\log \max\Big(\frac{p_y + m\,[y = \arg\max f]}{m + 1}, \mathrm{floor}\Big),
              \qquad p = \mathrm{softmax}(f)

    where [y = argmax f] is 1 if the label y has the largest logit, else 0. The loss lies in [0, -log floor]. It is
    neither symmetric (its sum over all classes is not constant) nor convex. It is not continuous in the logits: it
    jumps by about log m where the most probable class changes. If classes tie, `torch.argmax` chooses one of them. If y
    is not the most probable class, the loss is constant below p_y = (m + 1) floor, 0.001 by default.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        m: at least 0; 0 gives cross-entropy with probabilities of at least `floor`.
        floor: the least probability, in (0, 0.5].
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> epsilon_softmax_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), m=10.0)
        tensor(3.7112)

    Reference: Wang et al., Epsilon-softmax: approximating one-hot vectors for mitigating label noise, 2024.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(lambda f, wanted: _epsilon_softmax(f, wanted, m, floor), input, target, weight, options, dim)


def _epsilon_softmax(logits: Tensor, wanted: Wanted, m: float, floor: float) -> Tensor:
    _validation.check_number("m", m, 0)
    _validation.check_number("floor", floor, 0, 0.5, above=True)
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    leader = logits.argmax(wanted.dim, wanted.keepdim)  # of logits, since a small lead is lost to rounding in log_p
    leads = wanted.are(leader, log_p)
    lead = torch.log1p(expm1(torch.where(leads, log_p, 0)) / (m + 1))
    return torch.where(leads, lead, log_p - math.log1p(m)).clamp(min=math.log(floor))


class FocalLoss(ScoredLoss):
    r"""The focal loss: cross-entropy with a smaller weight for rows whose label is already probable.

    .. math:: \ell(f, y) = -(1 - p_y)^\gamma \log p_y, \qquad p = \mathrm{softmax}(f)

    The loss is unbounded. Its sum over all classes is not constant (the loss is not symmetric). It is convex in the
    logits only at gamma = 0, where it is cross-entropy.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        gamma: in [0, 1e30].
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> FocalLoss(gamma=2.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.7019)

    Reference: Lin et al., Focal loss for dense object detection, 2017.
    """

    function = staticmethod(focal_loss)
    own = ("gamma",)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        gamma: float = DEFAULT_GAMMA,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.gamma = python_number(gamma)
        self.check()


class TaylorCELoss(ScoredLoss):
    r"""Taylor cross-entropy: the Taylor series of -log at 1, cut after `order` terms.

    .. math:: \ell(f, y) = \sum_{i=1}^{t} \frac{(1 - p_y)^i}{i}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, 1 + 1/2 + ... + 1/t], with t the `order`. It is symmetric (its sum over all classes is
    constant) only at t = 1, where it is MAE (mean absolute error). It is not convex in the logits.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        order: integer t from 1 to 10,000.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> TaylorCELoss(order=2)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.9983)

    Reference: Feng et al., Can cross entropy loss be robust to label noise?, 2020.
    """

    function = staticmethod(taylor_ce_loss)
    own = ("order",)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        order: int = DEFAULT_ORDER,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.order = python_number(order)
        self.check()


class EpsilonSoftmaxLoss(ScoredLoss):
    r"""CE_eps: the cross-entropy of softmax after adding m to the most probable class and normalizing.

    .. math:: \ell(f, y) = -\log \max\Big(\frac{p_y + m\,[y = \arg\max f]}{m + 1}, \mathrm{floor}\Big),
              \qquad p = \mathrm{softmax}(f)

    where [y = argmax f] is 1 if the label y has the largest logit, else 0. The loss lies in [0, -log floor]. It is not
    symmetric: its sum over all classes is not constant. It is neither convex nor continuous in the logits: it jumps
    where the most probable class changes.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        m: at least 0; 0 gives cross-entropy with probabilities of at least `floor`.
        floor: the least probability, in (0, 0.5].
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> EpsilonSoftmaxLoss(m=10.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(3.7112)

    Reference: Wang et al., Epsilon-softmax: approximating one-hot vectors for mitigating label noise, 2024.
    """

    function = staticmethod(epsilon_softmax_loss)
    own = ("m", "floor")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        m: float = DEFAULT_M,
        floor: float = DEFAULT_FLOOR,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.m, self.floor = python_number(m), python_number(floor)
        self.check()


CE_EPS = NamedLoss(
    "ce_eps",
    EpsilonSoftmaxLoss,
    r"$-\log \frac{p_y + m [y = \arg\max f]}{m + 1}$",
    order=14,
    bounded=True,
    source="Wang et al. 2024",
)
# Its MAE is 2 (1 - p_y), so that the second weight here is twice the paper's. Asymmetric noise is in the public
# configuration alone.
_CE_EPS_MAE = Presets(
    {
        "cifar10": {"weights": (0.01, 10.0), "m": 1e5},
        "cifar100": {"weights": (0.1, 2.0), "m": 1e4},
        "webvision": {"weights": (0.015, 0.6), "m": 1e3},
    },
    {
        ("cifar10", "asymmetric"): {0.0: {}, 0.4: {"weights": (0.02, 10.0), "m": 1e3}},
        ("cifar100", "symmetric"): {
            0.0: {},
            0.2: {"weights": (0.05, 2.0)},
            0.4: {"weights": (0.03, 2.0)},
            0.6: {"weights": (0.0125, 2.0)},  # .00125 in the public configuration
            0.8: {"weights": (0.0075, 2.0)},
        },
        ("cifar100", "asymmetric"): {
            0.0: {},
            0.1: {"weights": (0.015, 2.0), "m": 1e2},
            0.2: {"weights": (0.007, 2.0), "m": 1e2},
            0.3: {"weights": (0.005, 2.0), "m": 1e2},
            0.4: {"weights": (0.004, 2.0), "m": 1e2},
        },
    },
    source="Wang et al. 2024, and https://github.com/cswjl/eps-softmax",
)
FOCAL = NamedLoss(
    "focal",
    FocalLoss,
    r"$-(1 - p_y)^\gamma \log p_y$",
    order=19,
    claims={"convex": "at gamma = 0"},
    source="Lin et al. 2017",
)
TAYLOR_CE = NamedLoss(
    "taylor-ce",
    TaylorCELoss,
    r"$\sum_{i \le t} (1 - p_y)^i / i$, `order` = t",
    order=20,
    bounded=True,
    claims={"symmetric": "at order = 1"},
    source="Feng et al. 2020",
)
POLY_1 = sum_of(
    "poly-1",
    CE,
    MAE,
    formula=r"CE + $\epsilon$ MAE, `weights` = $1, \epsilon$",
    order=21,
    convex=True,
    claims={"convex": r"if $\lvert\epsilon\rvert \le 1$"},
    source="Leng et al. 2022",
)
CE_EPS_MAE = sum_of("ce_eps+mae", CE_EPS, MAE, order=15, source="Wang et al. 2024", presets=_CE_EPS_MAE)
NAMED = (CE_EPS, CE_EPS_MAE, FOCAL, TAYLOR_CE, POLY_1)
