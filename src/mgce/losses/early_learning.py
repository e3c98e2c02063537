"""Define early-learning regularization, which holds a network to what it predicted before it memorises."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgce import _validation
from mgce.losses.indexed import IndexedLoss, from_all_processes
from mgce.losses.modules import CE
from mgce.losses.records import NamedLoss, Presets

LEAST = 1e-4  # probabilities are kept this far from 0 and 1, as published; the logarithm is then finite


class ELRLoss(IndexedLoss):
    r"""Add early-learning regularization to a loss (ELR).

    .. math:: \ell(f_i, y_i) + \lambda \log\big(1 - \langle t_i, \operatorname{softmax}(f_i) \rangle\big), \qquad
        t_i \leftarrow \mu t_i + (1 - \mu) \operatorname{softmax}(f_i)

    :math:`t_i` is a running average of the network's own predictions for row i, without gradient. The second term
    rewards agreement with it. Networks predict many right labels before they memorise wrong ones, and the average
    remembers these predictions.

    Args:
        num_rows: number of training rows n.
        num_classes: number of classes k. The buffer `targets` has n k numbers of float32.
        loss: a module that takes logits and targets, with `reduction="none"`; cross-entropy if None.
        strength: :math:`\lambda`, at least 0. Published: 3 for CIFAR-10, 7 for CIFAR-100.
        momentum: :math:`\mu` in [0, 1]. Published: 0.7 for CIFAR-10, 0.9 for CIFAR-100.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Attributes:
        targets: :math:`t_i`, a buffer (n, k) of float32, in a network of any dtype.
        left_out: number of rows that were not taken up, since a logit of them is NaN or +inf; a buffer ().

    Shape:
        `criterion(logits, target, index)` with logits (n, k), class indices (n,) or class probabilities (n, k), and
        indices (n,): see :class:`mgce.IndexedDataset`. In `eval` mode the inner loss alone, for which no index is
        needed.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.

    Example:
        >>> criterion = ELRLoss(num_rows=4, num_classes=2)
        >>> logits, target = torch.tensor([[2.0, 0.0]]), torch.tensor([1])
        >>> criterion(logits, target, torch.tensor([3]))
        tensor(1.3154)
        >>> criterion.targets[3]
        tensor([0.2642, 0.0358])

    Reference: Liu, Niles-Weed, Razavian and Fernandez-Granda, Early-learning regularization prevents memorization of
    noisy labels, 2020.
    """

    targets: Tensor

    def __init__(
        self,
        num_rows: int,
        num_classes: int,
        loss: nn.Module | None = None,
        *,
        strength: float = 3.0,
        momentum: float = 0.7,
        reduction: str = "mean",
    ) -> None:
        super().__init__(loss, num_rows, num_classes, reduction)
        _validation.check_number("strength", strength, 0)
        _validation.check_fraction("momentum", momentum)
        self.strength, self.momentum = float(strength), float(momentum)
        self.register_buffer("targets", torch.zeros(self.num_rows, self.num_classes, dtype=torch.float32))

    def _trained(self, input: Tensor, target: Tensor, index: Tensor, rows: Tensor) -> tuple[Tensor, None]:
        probs = input.float().softmax(1).clamp(LEAST, 1 - LEAST)
        own = probs.detach() / probs.detach().sum(1, keepdim=True)
        seen, new = self._learnt(*from_all_processes(index[rows], own[rows]))
        moved = self.momentum * self.targets[seen] + (1 - self.momentum) * new
        self.targets[seen] = moved.to(self.targets.dtype)
        agreement = (self.targets[index] * probs).sum(1)
        losses: Tensor = self.loss(input, target)
        return losses + (self.strength * torch.log1p(-agreement)).to(losses.dtype), None

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"{super().extra_repr()}, strength={self.strength:g}, momentum={self.momentum:g}"


ELR = NamedLoss(
    "elr",
    ELRLoss,
    r"CE $+ \lambda \log(1 - \langle t, p \rangle)$, t the average of p over epochs, `strength` = $\lambda$",
    of=(CE,),
    source="Liu et al. 2020",
    presets=Presets({"cifar10": {"strength": 3.0, "momentum": 0.7}, "cifar100": {"strength": 7.0, "momentum": 0.9}}),
    recommended=True,
    of_one_network=True,
)
NAMED = (ELR,)
