r"""Define the unhinged loss, the only loss of its kind that is convex and symmetric."""

from __future__ import annotations

import torch
from torch import Tensor

from mgce.losses.records import NamedLoss
from mgce.losses.scored import Wanted
from mgce.losses.scored_module import by_scores


def unhinged_scores(logits: Tensor, wanted: Wanted) -> Tensor:
    r"""Compute the unhinged loss: linear in the logits.

    .. math:: \ell(f, y) = 1 - f_y + \frac1k \sum_j f_j

    The loss is unbounded above and below: minimising it alone drives the logits to infinity. So bound the logits
    (:class:`mgce_lab.losses.LogitClip`) or penalise the weights of the network. It is convex, and symmetric: its sum
    over the k classes is k. No other permutation-invariant and monotone loss is both convex and symmetric (Lemire
    Paquin and Giguère, arXiv 2605.20347). A class of logit -inf is left out of the mean.

    Reference: van Rooyen, Menon and Williamson, Learning with symmetric label noise: the importance of being unhinged,
    2015, whose two classes have the logits (v, -v).
    """
    on = logits != -torch.inf
    # From the largest on: what all logits have in common would round their differences away.
    largest = logits.detach().amax(wanted.dim, keepdim=True)
    centred = logits - torch.where(largest.isfinite(), largest, 0)
    mean = torch.where(on, centred, 0).sum(wanted.dim, wanted.keepdim) / on.sum(wanted.dim, wanted.keepdim)
    return wanted.of(centred) - mean - 1


UNHINGED = NamedLoss(
    "unhinged",
    by_scores("UnhingedLoss", unhinged_scores, ("", "1.5000")),
    r"$1 - f_y + \frac1k \sum_j f_j$",
    symmetric=True,
    convex=True,
    claims={"bounded": "no, nor below"},
    source="van Rooyen et al. 2015",
)
NAMED = (UNHINGED,)
