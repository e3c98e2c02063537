"""Define losses that are symmetric or normalized, and their sums: RCE, NCE, AGCE, SCE and NCE + AGCE.

Reverse cross-entropy (RCE) is symmetric: its sum over all classes is the same for every row of logits. Symmetric noise
then does not move the minimiser of its mean. But alone it learns slowly, and underfits with many classes. Cross-entropy
learns fast, and memorises wrong labels. SCE weighs the two: `robust_loss("sce", "cifar10")`.

NCE is "active": it raises the probability of the label. AGCE is "passive": it also lowers the probabilities of the
other classes. NCE + AGCE keeps a large network from memorising, also with more than 40 % wrong labels. It underfits
with many classes. Its weights are published for data sets: `robust_loss("nce+agce", "cifar10")`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce._messages import expected
from mgce.kernels.options import SoftmaxTerms
from mgce.losses.modules import CE, MAE
from mgce.losses.records import NamedLoss, Number, Presets
from mgce.losses.scored import Wanted, expm1
from mgce.losses.scored_module import ScoredLoss, by_scores
from mgce.losses.sums import sum_of

LARGEST_A = 1e30  # well within the range of float32


def rce_scores(logits: Tensor, wanted: Wanted, log_zero: float) -> Tensor:
    r"""Compute reverse cross-entropy: the mean absolute error times a number A that replaces -log 0.

    .. math:: \ell(f, y) = -\sum_j p_j \log [j = y] = A (1 - p_y), \qquad p = \mathrm{softmax}(f), \quad A = -\log 0

    where [j = y] is 1 if class j is the label y, else 0. The loss lies in [0, A]. It is symmetric: its sum over the k
    classes is A (k - 1). It is not convex in the logits. Against class probabilities q it is
    :math:`\sum_y q_y \ell(f, y)`, as for every loss of this package, and not :math:`-\sum_j p_j \log q_j`.

    Reference: Wang et al., Symmetric cross entropy for robust learning with noisy labels, 2019.
    """
    if log_zero == 0:
        raise ValueError(expected("log_zero", "below 0", log_zero))
    return -log_zero * expm1(wanted.of(F.log_softmax(logits, wanted.dim)))


class _WithKernel(ScoredLoss):
    """The base class of `RCELoss`, for which there is a kernel."""

    @staticmethod
    def terms_of(**own: Any) -> SoftmaxTerms | None:
        """Return the `SoftmaxTerms` of the loss for its kernel; None if `log_zero` has to be checked first."""
        log_zero = own["log_zero"]
        is_checked = type(log_zero) is float and -LARGEST_A <= log_zero < 0
        return SoftmaxTerms(0.0, -log_zero, 1.0) if is_checked else None


RCE = NamedLoss(
    "rce",
    by_scores(
        "RCELoss",
        rce_scores,
        ("log_zero=-4", "2.9242"),
        base=_WithKernel,
        log_zero=Number(
            math.log(1e-4),  # with which the published results were computed
            "-A, the number that replaces log 0, in [-1e30, 0). Papers write -4, but their results were computed with "
            "log 1e-4 = -9.21, the default.",
            -LARGEST_A,
            0,
        ),
    ),
    "$A (1 - p_y)$, `log_zero` = -A",
    bounded=True,
    symmetric=True,
    source="Wang et al. 2019",
)
SCE = sum_of(
    "sce",
    CE,
    RCE,
    claims={"convex": r"if $w_2 A \le w_1$"},
    source="Wang et al. 2019",
    presets=Presets(
        {
            "mnist": {"weights": (0.01, 1.0)},
            "cifar10": {"weights": (0.1, 1.0)},
            "cifar100": {"weights": (6.0, 0.1)},
            "webvision": {"weights": (10.0, 1.0)},
        },
        source="Ma et al. 2020",
    ),
    recommended=True,
)


LEAST = 1e-30  # a number of float32, well above its smallest: log(a + p) is finite at p = 0, and so is 1 / q
LARGEST = math.log(1e38)  # of float32


def nce_scores(logits: Tensor, wanted: Wanted) -> Tensor:
    r"""Compute normalized cross-entropy, the first ("active") term of active-passive losses such as NCE + RCE.

    .. math:: \ell(f, y) = \frac{\log p_y}{\sum_j \log p_j}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, 1]. It is symmetric: its sum over the classes is 1. It is not convex in the logits. A class of
    logit -inf is left out of the sum, and its own loss is the limit 1. If all other classes are masked, the loss is
    the limit 0.

    Reference: Ma et al., Normalized loss functions for deep learning with noisy labels, 2020.
    """
    log_p = F.log_softmax(logits, wanted.dim)
    total = torch.where(log_p == -torch.inf, 0, log_p).sum(wanted.dim, wanted.keepdim)
    alone = total == 0  # one class, of log-probability 0: the numerator is 0 as well
    own = wanted.of(log_p)
    masked = own == -torch.inf
    return torch.where(masked, -1, torch.where(masked, 0, own) / torch.where(alone, 1, -total))


def agce_scores(logits: Tensor, wanted: Wanted, a: float, q: float) -> Tensor:
    r"""Compute asymmetric generalized cross-entropy; its mean is least where a clearly most probable label gets p = 1.

    .. math:: \ell(f, y) = \frac{(a + 1)^q - (a + p_y)^q}{q}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, ((a + 1)^q - a^q) / q]. It is not convex in the logits. Its sum over all classes is constant
    (the loss is symmetric) only at q = 1, where it is MAE (mean absolute error). At a = 0, which is not allowed, it
    would be :func:`gce_loss` with `beta=1 / q`.

    Reference: Zhou et al., Asymmetric loss functions for learning with noisy labels, 2021.
    """
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    if q * math.log1p(a) > LARGEST:
        raise ValueError(expected("q", f"such that (a + 1)^q is at most 1e38, with a = {a:g}", q))
    scale: float = (a + 1) ** q / q
    # log((a + p) / (a + 1)) from 1 - p, which keeps its digits near p = 1 and, where a is at least 1, everywhere.
    near = torch.log1p(expm1(log_p if a >= 1 else log_p.clamp(min=-1)) / (a + 1))
    if a < 1:
        far = torch.log(a + log_p.exp()) - math.log1p(a)
        near = torch.where(log_p > -1, near, far)
    return scale * expm1(q * near)


NCE = NamedLoss(
    "nce",
    by_scores("NCELoss", nce_scores, ("", "0.8074")),
    r"$\log p_y / \sum_j \log p_j$",
    bounded=True,
    symmetric=True,
    source="Ma et al. 2020",
)
AGCE = NamedLoss(
    "agce",
    by_scores(
        "AGCELoss",
        agce_scores,
        ("a=0.6, q=0.6", "0.6777"),
        a=Number(0.6, "at least 1e-30.", LEAST),  # both published for CIFAR-10 and CIFAR-100
        q=Number(0.6, "at least 1e-30, and (a + 1)^q at most 1e38, the size of numbers in float32.", LEAST),
    ),
    "$((a + 1)^q - (a + p_y)^q) / q$",
    bounded=True,
    claims={"symmetric": "at q = 1"},
    source="Zhou et al. 2021",
    presets=Presets(
        {
            "mnist": {"a": 4.0, "q": 0.2},
            "cifar10": {"a": 0.6, "q": 0.6},
            "cifar100": {"a": 0.6, "q": 0.6},
            "webvision": {"a": 1e-5, "q": 0.5},
        }
    ),
)
_APL = {"mnist": {"weights": (1.0, 10.0)}, "cifar10": {"weights": (1.0, 1.0)}, "cifar100": {"weights": (10.0, 0.1)}}
NCE_AGCE = sum_of(
    "nce+agce",
    NCE,
    AGCE,
    claims=AGCE.claims,
    source="Zhou et al. 2021",
    presets=Presets(
        {
            "mnist": {"weights": (0.0, 1.0), "a": 4.0, "q": 0.2},
            "cifar10": {"weights": (1.0, 4.0), "a": 6.0, "q": 1.5},
            "cifar100": {"weights": (10.0, 0.1), "a": 1.8, "q": 3.0},
            "webvision": {"weights": (50.0, 0.1), "a": 2.5, "q": 3.0},
        }
    ),
    recommended=True,
)
NCE_MAE = sum_of("nce+mae", NCE, MAE, source="Ma et al. 2020", presets=Presets(_APL))
_WEBVISION = {"webvision": {"weights": (50.0, 0.1)}}
NCE_RCE = sum_of("nce+rce", NCE, RCE, source="Ma et al. 2020", presets=Presets({**_APL, **_WEBVISION}))
NAMED = (RCE, SCE, NCE, AGCE, NCE_AGCE, NCE_RCE, NCE_MAE)
