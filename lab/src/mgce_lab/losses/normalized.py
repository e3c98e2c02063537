"""Define sums of active and passive losses that no page recommends: ANL-CE, JAL-CE, and sums with MGCE."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional as F

from mgce._messages import expected
from mgce.losses.active_passive import NCE, RCE, SCE
from mgce.losses.modules import MGCE
from mgce.losses.records import NamedLoss, Number, Presets
from mgce.losses.scored import Wanted
from mgce.losses.scored_module import by_scores
from mgce.losses.sums import sum_of


def nnce_scores(logits: Tensor, wanted: Wanted, floor: float) -> Tensor:
    r"""Compute normalized negative cross-entropy, the second ("passive") term of the loss ANL-CE.

    .. math:: \ell(f, y) = 1 - \frac{A + \log p_y}{\sum_j (A + \log p_j)}, \qquad A = -\log \mathrm{floor}

    with p = softmax(f), where each probability below `floor` is replaced by `floor`. The loss lies in [0, 1]. It is
    symmetric: its sum over the k classes is k - 1. It is not convex in the logits.

    Reference: Ye et al., Active negative loss functions for learning with noisy labels, 2023.
    """
    log_p = F.log_softmax(logits, wanted.dim)
    k = log_p.shape[wanted.dim]
    if floor * k >= 1:
        raise ValueError(expected("floor", f"below 1 / {k}, for so many classes", floor))
    lifted = (log_p - math.log(floor)).clamp(min=0)
    return wanted.of(lifted) / lifted.sum(wanted.dim, wanted.keepdim) - 1


def amse_scores(logits: Tensor, wanted: Wanted, c: float) -> Tensor:
    r"""Compute the asymmetric mean square error, the second term of the joint asymmetric loss JAL-CE.

    .. math:: \ell(f, y) = \frac1k \sum_j (p_j - c\,[j = y])^2, \qquad p = \mathrm{softmax}(f)

    with k classes; [j = y] is 1 if class j is the label y, else 0. The loss lies in [(c - 1)^2 / k, (c^2 + 1) / k] for
    c >= 1. It is not symmetric: its sum over the classes varies by 1 - 1/k. It is not convex in the logits. A class of
    logit -inf is left out of the mean, and k does not count it.

    Reference: Wang et al., Joint asymmetric loss for learning with noisy labels, 2025.
    """
    log_p = F.log_softmax(logits, wanted.dim)
    p = log_p.exp()
    own = wanted.of(p)
    others = ((p * p).sum(wanted.dim, wanted.keepdim) - own * own).clamp(min=0)
    return -(others + (own - c) ** 2) / (log_p != -math.inf).sum(wanted.dim, wanted.keepdim)


# No paper compares the two alone.
NNCE = NamedLoss(
    "nnce",
    by_scores(
        "NNCELoss",
        nnce_scores,
        ("", "0.5163"),
        floor=Number(
            1e-7,  # where its authors clamp
            "the least probability, in (0, 1 / k); at 1 / k the loss could be 0 / 0. A class with a probability below "
            "`floor` has the loss 1, which does not depend on its own logit.",
            0,
            0.5,
            above=True,
        ),
    ),
    r"$1 - \frac{A + \log p_y}{\sum_j (A + \log p_j)}$, `floor` = $e^{-A}$",
    bounded=True,
    symmetric=True,
)
AMSE = NamedLoss(
    "amse",
    by_scores(
        "AMSELoss",
        amse_scores,
        ("c=1.0", "0.5344"),
        # Published for CIFAR-10; the square of the largest is finite in float32.
        c=Number(30.0, "the target value of p_y, in [1, 1e18]; 1 gives the mean square error.", 1, 1e18),
    ),
    r"$\frac1k \sum_j (p_j - c [j = y])^2$",
    bounded=True,
)
# The L1 penalty of both sums is of the network's parameters, not of its logits: it is the trainer's.
_ANL_CE = Presets(
    {
        "mnist": {"weights": (1.0, 1.0)},
        "cifar10": {"weights": (5.0, 5.0)},
        "cifar100": {"weights": (10.0, 1.0)},
        "webvision": {"weights": (20.0, 1.0)},
    }
)
_JAL_CE = Presets(
    {
        "cifar10": {"weights": (1.0, 1.0), "c": 30.0},
        "cifar100": {"weights": (5.0, 1.0), "c": 20.0},
        "webvision": {"weights": (50.0, 1.0), "c": 30.0},
    }
)


def _with_nce(name: str, loss: NamedLoss, source: str, presets: Presets) -> NamedLoss:
    word = loss.name.upper()
    formula = f"NCE + {word}, {word}: {loss.formula}"
    return sum_of(name, NCE, loss, formula=formula, source=source, presets=presets)


NAMED = (
    _with_nce("anl-ce", NNCE, "Ye et al. 2023", _ANL_CE),
    _with_nce("jal-ce", AMSE, "Wang et al. 2025", _JAL_CE),
    sum_of("mgce+rce", MGCE, RCE, presets=SCE.presets),  # SCE with MGCE for its cross-entropy
    sum_of("mgce+nce", MGCE, NCE),
)
