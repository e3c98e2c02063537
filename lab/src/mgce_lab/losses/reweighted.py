r"""Define variants of cross-entropy: the focal loss, Taylor cross-entropy and the loss of epsilon-softmax.

Poly-1 changes the weight of the first term of the Taylor series of cross-entropy. Poly-1 is the sum of cross-entropy
and :math:`\epsilon` times MAE (mean absolute error), so :class:`mgce.losses.SumLoss` computes it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce.losses.modules import CE, MAE
from mgce.losses.records import NamedLoss, Number, Presets
from mgce.losses.scored import Wanted, expm1
from mgce.losses.scored_module import by_scores
from mgce.losses.sums import sum_of


def focal_scores(logits: Tensor, wanted: Wanted, gamma: float) -> Tensor:
    r"""Compute the focal loss: cross-entropy with a smaller weight for rows whose label is already probable.

    .. math:: \ell(f, y) = -(1 - p_y)^\gamma \log p_y, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, inf) and is unbounded. It is not symmetric: its sum over all classes varies. It is convex in
    the logits only at gamma = 0, where it is cross-entropy.

    Reference: Lin et al., Focal loss for dense object detection, 2017.
    """
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    # At p = 0 the factor is 1, and at p = 1, where it has no derivative, the loss and its derivatives are 0.
    inside = (log_p < 0) & (log_p > -torch.inf)
    safe = torch.where(inside, log_p, -1)
    return torch.where(inside, (-expm1(safe)) ** gamma * safe, torch.where(log_p == 0, 0, log_p))


def taylor_ce_scores(logits: Tensor, wanted: Wanted, order: int) -> Tensor:
    r"""Compute Taylor cross-entropy: the Taylor series of -log at 1, cut after `order` terms.

    .. math:: \ell(f, y) = \sum_{i=1}^{t} \frac{(1 - p_y)^i}{i}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, 1 + 1/2 + ... + 1/t], with t the `order`. It is symmetric (its sum over all classes is
    constant) only at t = 1, where it is MAE (mean absolute error). It is not convex in the logits. As t grows it
    increases to cross-entropy.

    Reference: Feng et al., Can cross entropy loss be robust to label noise?, 2020.
    """
    rest = -expm1(wanted.of(F.log_softmax(logits, wanted.dim)))
    total = torch.zeros_like(rest)
    for i in range(order, 0, -1):
        total = rest * (1 / i + total)
    return -total


def epsilon_softmax_scores(logits: Tensor, wanted: Wanted, m: float, floor: float) -> Tensor:
    r"""Compute CE_eps, the cross-entropy of softmax after adding m to the most probable class and normalizing.

    .. math:: \ell(f, y) = -\log \max\Big(\frac{p_y + m\,[y = \arg\max f]}{m + 1}, \mathrm{floor}\Big),
              \qquad p = \mathrm{softmax}(f)

    where [y = argmax f] is 1 if the label y has the largest logit, else 0. The loss lies in [0, -log floor]. It is
    neither symmetric (its sum over all classes is not constant) nor convex. It is not continuous in the logits: it
    jumps by about log m where the most probable class changes. If classes tie, `torch.argmax` chooses one of them. If y
    is not the most probable class, the loss is constant below p_y = (m + 1) floor, 0.001 by default.

    Reference: Wang et al., Epsilon-softmax: approximating one-hot vectors for mitigating label noise, 2024.
    """
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    leader = logits.argmax(wanted.dim, wanted.keepdim)  # of logits, since a small lead is lost to rounding in log_p
    leads = wanted.are(leader, log_p)
    lead = torch.log1p(expm1(torch.where(leads, log_p, 0)) / (m + 1))
    return torch.where(leads, lead, log_p - math.log1p(m)).clamp(min=math.log(floor))


CE_EPS = NamedLoss(
    "ce_eps",
    by_scores(
        "EpsilonSoftmaxLoss",
        epsilon_softmax_scores,
        ("m=10.0", "3.7112"),
        # Published for CIFAR-10, and where its authors clamp.
        m=Number(1e5, "at least 0; 0 gives cross-entropy with probabilities of at least `floor`.", 0),
        floor=Number(1e-8, "the least probability, in (0, 0.5].", 0, 0.5, above=True),
    ),
    r"$-\log \frac{p_y + m [y = \arg\max f]}{m + 1}$",
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
CE_EPS_MAE = sum_of("ce_eps+mae", CE_EPS, MAE, source="Wang et al. 2024", presets=_CE_EPS_MAE)
FOCAL = NamedLoss(
    "focal",
    by_scores(
        "FocalLoss",
        focal_scores,
        ("gamma=2.0", "0.7019"),
        # What comparisons under label noise use; its authors use 2 for detection. The largest is a number of float32.
        gamma=Number(0.5, "in [0, 1e30].", 0, 1e30),
    ),
    r"$-(1 - p_y)^\gamma \log p_y$",
    claims={"convex": "at gamma = 0"},
    source="Lin et al. 2017",
)
TAYLOR_CE = NamedLoss(
    "taylor-ce",
    by_scores(
        "TaylorCELoss",
        taylor_ce_scores,
        ("", "0.9983"),
        # The least of the 2 to 6 that its authors try. Each costs a multiplication: the most take less than a second.
        order=Number(2, "integer t from 1 to 10,000.", 1, 10_000),
    ),
    r"$\sum_{i \le t} (1 - p_y)^i / i$, `order` = t",
    bounded=True,
    claims={"symmetric": "at order = 1"},
    source="Feng et al. 2020",
)
POLY_1 = sum_of(
    "poly-1",
    CE,
    MAE,
    formula=r"CE + $\epsilon$ MAE, `weights` = $1, \epsilon$",
    convex=True,
    claims={"convex": r"if $\lvert\epsilon\rvert \le 1$"},
    source="Leng et al. 2022",
)
NAMED = (CE_EPS, CE_EPS_MAE, FOCAL, TAYLOR_CE, POLY_1)
