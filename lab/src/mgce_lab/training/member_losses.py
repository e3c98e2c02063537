"""Compute the losses of all networks of an ensemble and their gradients in few calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from mgce._messages import check_choice, expected
from mgce._validation import check_beta
from mgce.losses.functional import gce_loss
from mgce.losses.presets import LOSSES, robust_loss
from mgce.losses.trimmed import RecentLosses, TrimmedLoss


@dataclass(frozen=True)
class MemberLoss:
    """The name and the hyperparameters of the loss of one network.

    Attributes:
        family: name of the loss, a key of `mgce.losses.presets.LOSSES`.
        beta: in [1, inf]; inf for a loss without beta. At inf, MGCE and GCE are cross-entropy. At 1, MGCE is the
            convex minimax MAE (mean absolute error) and GCE the MAE of softmax.
        options: the other hyperparameters, as for `robust_loss`.

    Raises:
        TypeError, ValueError: if there is no such loss, beta is out of range, or a beta is given for a loss without
            beta.
    """

    family: str
    beta: float = math.inf
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("family", self.family, tuple(LOSSES))
        check_beta(self.beta)
        if "beta" not in LOSSES[self.family].hyperparameters and self.beta != math.inf:
            raise ValueError(expected("beta", f"inf, as {self.family!r} has no beta", self.beta))

    def module(self, reduction: str = "mean") -> nn.Module:
        """Construct the loss module; its `link` turns logits into the probabilities to predict with."""
        beta: dict[str, Any] = {"beta": self.beta} if "beta" in LOSSES[self.family].hyperparameters else {}
        return robust_loss(self.family, reduction=reduction, **beta, **self.options)

    def link(self) -> nn.Module:
        """Construct the module that turns logits in double precision into the probabilities to predict with."""
        link = self.module().double().link
        assert isinstance(link, nn.Module)
        return link


class MemberLosses:
    """The losses of M networks that are trained on the same rows and differ only in the loss.

    Adjacent losses in the list are computed in one call if possible: all GCE losses, and other losses with equal
    hyperparameters, since a fused kernel accepts only one beta.

    Args:
        losses: the loss of each member.
        device: the device of the logits.
        earlier: the losses of the same members in earlier epochs. A trimmed loss that continues keeps its stored
            losses.
    """

    def __init__(
        self, losses: Sequence[MemberLoss], device: torch.device, earlier: Sequence[MemberLosses] = ()
    ) -> None:
        self._trimmed: list[tuple[int, MemberLoss, _Trimmed]] = []  # with the number of the first member
        self._members: list[int] = []  # how many neighbours each call serves
        self._calls: list[Callable[[Tensor, Tensor], Tensor]] = []
        for shared, run in groupby(losses, key=lambda member: None if member.family == "gce" else member):
            betas, first = [member.beta for member in run], sum(self._members)
            self._members.append(len(betas))
            if shared is None:
                self._calls.append(functools.partial(_gce, betas=torch.tensor(betas, device=device)))
                continue
            call = shared.module(reduction="none").to(device)
            if isinstance(call, TrimmedLoss):
                before = (kept for losses in earlier for kept in losses._trimmed if kept[:2] == (first, shared))
                self._trimmed.append(next(before, (first, shared, _Trimmed(call))))
                self._calls.append(self._trimmed[-1][2])
            else:
                self._calls.append(call)

    def __call__(
        self, logits: Tensor, target: Tensor, weight: Tensor, *, training: bool = True
    ) -> tuple[Tensor, Tensor]:
        r"""Compute the loss :math:`\sum_i w_i \ell(f_i, y_i)` of every network.

        Args:
            logits: f, shape (M*G, n, k) for M members, G groups, n rows and k classes, as returned by
                `EnsembleMLP.layers`: member m of group g has the index `m * G + g`.
            target: class indices y, shape (G, n).
            weight: weight w of every row, shape (G, n).
            training: whether trimmed losses leave out rows. The weights of the rows kept are then scaled up to the
                same sum.

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
            if training and isinstance(call, _Trimmed):
                weights[-1] = call.weights(losses[-1], target.expand(members, *target.shape), weights[-1], k)
        grad = torch.cat(torch.autograd.grad(losses, leaves, weights)).view_as(logits)
        loss = (torch.cat(losses).detach() * torch.cat(weights)).view(logits.shape[:2]).sum(1)
        return loss, grad


class _Trimmed:
    """A trimmed loss of several networks, each of which has its own stored losses and quantiles."""

    def __init__(self, loss: TrimmedLoss) -> None:
        self._loss = loss
        self._recent: RecentLosses | None = None

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        losses: Tensor = self._loss.loss(logits, target)
        return losses

    def weights(self, losses: Tensor, target: Tensor, weight: Tensor, k: int) -> Tensor:
        """Return the weights of n rows for each member and each of G groups after trimming, in one dimension.

        The weights of trimmed rows are 0; all other weights are scaled such that the sum over the rows of a network
        stays the same.
        """
        rows = target.flatten(0, 1)
        if self._recent is None:
            trim, window = self._loss.recent.trim, self._loss.recent.window
            self._loss.check_classes(k)
            self._recent = RecentLosses(trim * len(rows), window).to(losses.device)
        before = weight.view_as(rows)
        label = torch.where(before > 0, rows + k * torch.arange(len(rows), device=rows.device)[:, None], -1)
        kept = before * self._recent(losses, label.flatten()).view_as(rows)
        total = kept.sum(1, keepdim=True)
        factor = torch.where(total > 0, before.sum(1, keepdim=True) / total, 0)
        return torch.flatten(kept * factor)


def _gce(logits: Tensor, target: Tensor, betas: Tensor) -> Tensor:
    rows = betas.repeat_interleave(len(target) // len(betas))  # the beta of each row; members have equally many rows
    return gce_loss(logits, target, reduction="none", beta=rows)
