"""The losses of the members of an ensemble: the value and the gradient of all of them, in few calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from mgce._validation import check_beta, check_choice
from mgce.losses.functional import gce_loss, mgce_loss

FAMILIES = ("mgce", "gce")


@dataclass(frozen=True)
class MemberLoss:
    """The loss of one member: its family, `"mgce"` or `"gce"`, and beta in [1, inf].

    Both are cross-entropy at beta = inf. At beta = 1, MGCE is the convex minimax MAE and GCE the MAE of softmax.
    """

    family: str
    beta: float

    def __post_init__(self) -> None:
        check_choice("family", self.family, FAMILIES)
        check_beta(self.beta)


class MemberLosses:
    """The losses of M members, which see the same rows and differ in nothing else.

    Neighbours in the list of losses share one call where they can: members of MGCE with the same beta, since a fused
    kernel takes one beta, and all members of GCE.
    """

    def __init__(self, losses: Sequence[MemberLoss], device: torch.device) -> None:
        self._members: list[int] = []  # how many neighbours each call serves
        self._calls: list[Callable[[Tensor, Tensor], Tensor]] = []
        for beta, run in groupby(losses, key=lambda member: member.beta if member.family == "mgce" else None):
            betas = [member.beta for member in run]
            self._members.append(len(betas))
            if beta is None:
                self._calls.append(functools.partial(_gce, betas=torch.tensor(betas, device=device)))
            else:
                self._calls.append(functools.partial(mgce_loss, reduction="none", beta=beta))

    def __call__(self, logits: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        r"""Compute the loss :math:`\sum_i w_i \ell(f_i, y_i)` of every network.

        Args:
            logits: f, shape (M*G, n, k), as `EnsembleMLP.layers` gives them: member m of group g is number `m * G + g`.
            target: class indices y, shape (G, n).
            weight: weight w of every row, shape (G, n).

        Returns:
            The loss of every network, shape (M*G), and its gradient with respect to the logits, shape (M*G, n, k).
        """
        groups, k = target.shape[0], logits.shape[-1]
        leaves, losses, weights = [], [], []
        parts = torch.split(logits, [groups * members for members in self._members])
        for members, call, part in zip(self._members, self._calls, parts, strict=True):
            leaves.append(part.detach().reshape(-1, k).requires_grad_())
            with torch.enable_grad():
                losses.append(call(leaves[-1], target.expand(members, *target.shape).reshape(-1)))
            weights.append(weight.expand(members, *weight.shape).reshape(-1))
        grad = torch.cat(torch.autograd.grad(losses, leaves, weights)).view_as(logits)
        loss = (torch.cat(losses).detach() * torch.cat(weights)).view(logits.shape[:2]).sum(1)
        return loss, grad


def _gce(logits: Tensor, target: Tensor, betas: Tensor) -> Tensor:
    rows = betas.repeat_interleave(len(target) // len(betas))  # the beta of each row; members have equally many rows
    return gce_loss(logits, target, reduction="none", beta=rows)
