r"""Asymmetric losses: minimised by the most probable label of a mixture, as long as it is probable enough."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mgce import _validation
from mgce._validation import expected
from mgce.losses.named import NamedLoss, Presets
from mgce.losses.normalized import NCE
from mgce.losses.scored import expm1, loss_of_log_prob, loss_of_log_probs
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import sum_of
from mgce.losses.wanted import Wanted

LEAST = 1e-30  # a number of float32, well above its smallest: log(a + p) is finite at p = 0, and so is 1 / q
LARGEST = math.log(1e38)  # of float32


@loss_of_log_prob
def agce_loss(log_p: Tensor, *, a: float = 0.6, q: float = 0.6) -> Tensor:
    r"""Compute asymmetric generalized cross-entropy.

    .. math:: \ell(f, y) = \frac{(a + 1)^q - (a + p_y)^q}{q}, \qquad p = \mathrm{softmax}(f)

    In [0, ((a + 1)^q - a^q) / q]; symmetric at q = 1 only, where it is MAE; not convex in the logits. At a = 0 it would
    be :func:`gce_loss` with `beta=1 / q`.

    Hyperparameters:
        a: at least 1e-30.
        q: at least 1e-30, and (a + 1)^q at most 1e38, the size of numbers in float32. Both defaults are those published
            for CIFAR-10 and CIFAR-100.

    Example:
        >>> agce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.6777)

    Reference: Zhou et al., Asymmetric loss functions for learning with noisy labels, 2021.
    """
    _validation.check_number("a", a, LEAST)
    _validation.check_number("q", q, LEAST)
    if q * math.log1p(a) > LARGEST:
        raise ValueError(expected("q", f"such that (a + 1)^q is at most 1e38, with a = {a:g}", q))
    scale: float = (a + 1) ** q / q
    # log((a + p) / (a + 1)) from 1 - p, which keeps its digits near p = 1 and, where a is at least 1, everywhere.
    near = torch.log1p(expm1(log_p if a >= 1 else log_p.clamp(min=-1)) / (a + 1))
    if a < 1:
        far = torch.log(a + log_p.exp()) - math.log1p(a)
        near = torch.where(log_p > -1, near, far)
    return scale * expm1(q * near)


@loss_of_log_probs
def amse_loss(log_p: Tensor, wanted: Wanted, *, c: float = 30.0) -> Tensor:
    r"""Compute the asymmetric mean square error, the passive part of the joint asymmetric loss JAL-CE.

    .. math:: \ell(f, y) = \frac1k \sum_j (p_j - c\,[j = y])^2, \qquad p = \mathrm{softmax}(f)

    In [(c - 1)^2 / k, (c^2 + 1) / k] for c >= 1; not symmetric, the sum over the classes varies by 1 - 1/k; not convex
    in the logits. A class of logit -inf is left out of the mean, and so of k.

    Hyperparameters:
        c: in [1, 1e18], what p_y is drawn to; 1 is the mean square error. The default is that published for CIFAR-10.

    Example:
        >>> amse_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), c=1.0)
        tensor(0.5344)

    Reference: Wang et al., Joint asymmetric loss for learning with noisy labels, 2025.
    """
    _validation.check_number("c", c, 1, 1e18)  # its square is finite in float32
    p, on = log_p.exp(), log_p != -torch.inf
    own = wanted.of(p)
    others = ((p * p).sum(wanted.dim, wanted.keepdim) - own * own).clamp(min=0)
    return -(others + (own - c) ** 2) / on.sum(wanted.dim, wanted.keepdim)


class AGCELoss(ScoredLoss):
    """Asymmetric generalized cross-entropy as a module; :func:`mgce.functional.agce_loss` has the equation."""

    function = staticmethod(agce_loss)


class AMSELoss(ScoredLoss):
    """Asymmetric mean square error as a module; :func:`mgce.functional.amse_loss` has the equation and `c`."""

    function = staticmethod(amse_loss)


AGCE = NamedLoss(
    "agce",
    AGCELoss,
    "$((a + 1)^q - (a + p_y)^q) / q$",
    order=10,
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
AMSE = NamedLoss("amse", AMSELoss, r"$\frac1k \sum_j (p_j - c [j = y])^2$", bounded=True)  # not compared alone
_NCE_AGCE = Presets(
    {
        "mnist": {"weights": (0.0, 1.0), "a": 4.0, "q": 0.2},
        "cifar10": {"weights": (1.0, 4.0), "a": 6.0, "q": 1.5},
        "cifar100": {"weights": (10.0, 0.1), "a": 1.8, "q": 3.0},
        "webvision": {"weights": (50.0, 0.1), "a": 2.5, "q": 3.0},
    }
)
# The L1 penalty of JAL-CE is of the network's parameters, not of its logits: it is the trainer's.
_JAL_CE = Presets(
    {
        "cifar10": {"weights": (1.0, 1.0), "c": 30.0},
        "cifar100": {"weights": (5.0, 1.0), "c": 20.0},
        "webvision": {"weights": (50.0, 1.0), "c": 30.0},
    }
)
NAMED = (
    AGCE,
    sum_of("nce+agce", NCE, AGCE, order=11, claims=AGCE.claims, source="Zhou et al. 2021", presets=_NCE_AGCE),
    sum_of(
        "jal-ce",
        NCE,
        AMSE,
        formula=f"NCE + AMSE, AMSE: {AMSE.formula}",
        order=13,
        source="Wang et al. 2025",
        presets=_JAL_CE,
    ),
)
