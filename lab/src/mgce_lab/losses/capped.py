r"""Define MGCE with an upper limit on the loss of each row."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce._messages import expected
from mgce.link.probs import normalized_logits
from mgce.losses.functional import mgce_loss
from mgce.losses.modules import GCE, MinimaxLink
from mgce.losses.records import NamedLoss, Number
from mgce.losses.scored import Wanted
from mgce.losses.scored_module import ScoredLoss, by_scores
from mgce.numerics.root import DEFAULT_BETA, LARGEST_BETA, expm1


def capped_mgce_scores(logits: Tensor, wanted: Wanted, beta: float, threshold: float) -> Tensor:
    r"""Compute MGCE with an upper limit on the loss of each row: a probability below a threshold t is replaced by t.

    .. math:: \ell(f, y) = \beta \big(1 - \max(h_y, t)^{1/\beta}\big)
        = \min\big(\beta (1 - t^{1/\beta}), -f_y - \varphi_\beta(f)\big)

    with h the minimax probabilities of the logits (:func:`minimax_probs`) and phi their normalizer
    (:func:`normalizer`). This is the :func:`alpha_loss` of h. The loss lies in [0, beta (1 - t^(1 / beta))]. With t = 0
    and beta = 1 it is symmetric: its sum over all classes is constant. With t = 0 and beta = inf it is cross-entropy,
    and convex in the logits. A row whose label has a probability below the threshold has no gradient. So train with
    :func:`mgce_loss` first, until few rows with right labels are below the threshold.

    Reference: paper, equations (3) and (14); Zhang and Sabuncu, 2018, section 3.3, for the threshold.
    """
    number = _validation.check_beta(beta)
    if isinstance(number, Tensor):
        raise TypeError(expected("beta", "one number for all rows", f"a tensor of shape {tuple(number.shape)}"))
    if number >= LARGEST_BETA:
        scores = wanted.of(F.log_softmax(logits, wanted.dim))
    elif wanted.target is None:
        scores = normalized_logits(logits, beta=number, dim=wanted.dim)
    else:  # the fused kernel gives the loss of the label
        scores = -mgce_loss(logits, wanted.target, None, wanted.ignore_index, "none", beta=number)
    one = scores.new_ones(())  # this factor keeps the value of beta out of a compiled graph
    if threshold > 0:
        least = math.log(threshold) * one
        least = least if number >= LARGEST_BETA else number * expm1(least / number)
    else:
        least = -number * one if number <= torch.finfo(scores.dtype).max else -math.inf * one
    return torch.where(scores < least, least, scores)


class _WithMinimaxLink(ScoredLoss):
    """The base class of the module, whose link is not softmax."""

    beta: Any

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits into the minimax probabilities, with the `beta` and the `dim` of the loss."""
        return MinimaxLink(beta=self.beta, dim=self.dim)

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return two kinds of probabilities of logits: minimax h to predict with, and calibrated worst-case p."""
        return self.link.both(logits)


CappedMGCELoss = by_scores(
    "CappedMGCELoss",
    capped_mgce_scores,
    ("beta=2.0, threshold=0.5", "0.5858"),
    base=_WithMinimaxLink,
    beta=Number(DEFAULT_BETA, "in [1, inf], one number for all rows."),
    threshold=Number(
        0.0,
        "t, in [0, 1]. With t >= 1/2 a row has a gradient only if its label has a larger h than all other classes "
        "together.",
        0,
        1,
    ),
)
MGCE_CAP = NamedLoss(
    "mgce+cap",
    CappedMGCELoss,
    r"$\min(\beta, -f_y - \varphi_\beta(f))$",
    fixed={"threshold": 0.0},
    bounded=True,
    claims=GCE.claims,
)
# A row counts as long as its label has at least half of the probability: no other class can have as much.
_HALF, _AS = {"threshold": 0.5}, "a variant of ours, as Zhang, Sabuncu 2018 do with GCE"
MGCE_TRUNC = NamedLoss(
    "mgce+trunc",
    CappedMGCELoss,
    r"$\beta (1 - \max(h_y, t)^{1/\beta})$, h the minimax probabilities, `threshold` = t",
    changed=_HALF,
    bounded=True,
    claims={"bounded": "if t > 0 or beta < inf"},
    source=_AS,
)
CE_TRUNC = NamedLoss(
    "ce+trunc",
    CappedMGCELoss,
    r"$-\log \max(p_y, t)$, `threshold` = t",
    fixed={"beta": math.inf},
    changed=_HALF,
    bounded=True,
    claims={"bounded": "if t > 0"},
    source=_AS,
)
NAMED = (MGCE_CAP, MGCE_TRUNC, CE_TRUNC)
