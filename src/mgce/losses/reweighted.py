r"""Cross-entropy with some of its terms changed: the focal factor, a cut Taylor series, a share for the leading class.

Poly-1, cross-entropy with another weight of the first term of the series, is the sum of cross-entropy and
:math:`\epsilon` times MAE: :class:`mgce.SumLoss`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce.losses.modules import CE, MAE
from mgce.losses.named import NamedLoss, Presets
from mgce.losses.scored import expm1, loss_of_log_prob, loss_of_logits
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import sum_of
from mgce.losses.wanted import Wanted

LARGEST_ORDER = 10_000  # each costs a multiplication: far more than anybody uses, and still less than a second


@loss_of_log_prob
def focal_loss(log_p: Tensor, *, gamma: float = 0.5) -> Tensor:
    r"""Compute the focal loss: cross-entropy that counts rows it is sure of less.

    .. math:: \ell(f, y) = -(1 - p_y)^\gamma \log p_y, \qquad p = \mathrm{softmax}(f)

    In [0, inf), unbounded; not symmetric; convex in the logits at gamma = 0 only, where it is cross-entropy.

    Hyperparameters:
        gamma: in [0, 1e30]. The default is what comparisons under label noise use; its authors use 2 for detection.

    Example:
        >>> focal_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), gamma=2.0)
        tensor(0.7019)

    Reference: Lin et al., Focal loss for dense object detection, 2017.
    """
    _validation.check_number("gamma", gamma, 0, 1e30)  # well below the largest number of float32
    # At p = 0 the factor is 1, and at p = 1, where it has no derivative, the loss and its derivatives are 0.
    inside = (log_p < 0) & (log_p > -torch.inf)
    safe = torch.where(inside, log_p, -1)
    return torch.where(inside, (-expm1(safe)) ** gamma * safe, torch.where(log_p == 0, 0, log_p))


@loss_of_log_prob
def taylor_ce_loss(log_p: Tensor, *, order: int = 2) -> Tensor:
    r"""Compute Taylor cross-entropy: the Taylor series of -log at 1, cut after `order` terms.

    .. math:: \ell(f, y) = \sum_{i=1}^{t} \frac{(1 - p_y)^i}{i}, \qquad p = \mathrm{softmax}(f)

    In [0, 1 + 1/2 + ... + 1/t]; symmetric at t = 1 only, where it is MAE; not convex in the logits. It grows to
    cross-entropy with t.

    Hyperparameters:
        order: integer t from 1 to 10,000; its authors try 2 to 6.

    Example:
        >>> taylor_ce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.9983)

    Reference: Feng et al., Can cross entropy loss be robust to label noise?, 2020.
    """
    _validation.check_count("order", order)
    if order > LARGEST_ORDER:
        raise ValueError(_validation.expected("order", f"at most {LARGEST_ORDER}", order))
    rest = -expm1(log_p)
    total = torch.zeros_like(rest)
    for i in range(order, 0, -1):
        total = rest * (1 / i + total)
    return -total


@loss_of_logits
def epsilon_softmax_loss(logits: Tensor, wanted: Wanted, *, m: float = 1e5, floor: float = 1e-8) -> Tensor:
    r"""Compute CE_eps, the cross-entropy of a softmax whose leading class is given m more.

    .. math:: \ell(f, y) = -\log \max\Big(\frac{p_y + m\,[y = \arg\max f]}{m + 1}, \mathrm{floor}\Big),
              \qquad p = \mathrm{softmax}(f)

    In [0, -log floor]; not symmetric; not convex, not even continuous in the logits: it jumps by about log m where
    another class takes the lead. Of classes that tie for the lead one has it, as `torch.argmax` chooses. Where y does
    not lead, the loss is flat below p_y = (m + 1) floor, 0.001 by default.

    Hyperparameters:
        m: at least 0; 0 is cross-entropy with p raised to `floor`.
        floor: in (0, 0.5], the least probability.

    Example:
        >>> epsilon_softmax_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), m=10.0)
        tensor(3.7112)

    Reference: Wang et al., Epsilon-softmax: approximating one-hot vectors for mitigating label noise, 2024.
    """
    _validation.check_number("m", m, 0)
    _validation.check_number("floor", floor, 0, 0.5, above=True)
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    leader = logits.argmax(wanted.dim, wanted.keepdim)  # of logits, since a small lead is lost to rounding in log_p
    leads = wanted.are(leader, log_p)
    lead = torch.log1p(expm1(torch.where(leads, log_p, 0)) / (m + 1))
    return torch.where(leads, lead, log_p - math.log1p(m)).clamp(min=math.log(floor))


class FocalLoss(ScoredLoss):
    """The focal loss as a module; :func:`mgce.functional.focal_loss` has the equation, the limits and `gamma`."""

    function = staticmethod(focal_loss)


class TaylorCELoss(ScoredLoss):
    """Taylor cross-entropy as a module; :func:`mgce.functional.taylor_ce_loss` has the equation and `order`."""

    function = staticmethod(taylor_ce_loss)


class EpsilonSoftmaxLoss(ScoredLoss):
    """CE_eps as a module; :func:`mgce.functional.epsilon_softmax_loss` has the equation and the limits."""

    function = staticmethod(epsilon_softmax_loss)


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
