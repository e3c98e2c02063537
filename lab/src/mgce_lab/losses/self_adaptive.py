"""Define self-adaptive training, which moves each row's target towards what the network predicts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgce._messages import check_count, check_fraction
from mgce.losses.indexed import IndexedLoss, against_probs, from_all_processes, probabilities


class SelfAdaptiveLoss(IndexedLoss):
    r"""Train on targets that move from the labels towards the network's own predictions.

    .. math:: \frac{\sum_i w_i\, \ell(f_i, t_i)}{\sum_i w_i}, \qquad w_i = \max_c t_{ic}, \qquad
        t_i \leftarrow \mu t_i + (1 - \mu) \operatorname{softmax}(f_i)

    :math:`t_i` begins as the label of row i. It stays the label for the first `start` times that the row is seen, which
    are `start` epochs. Rows whose target is spread over several classes weigh less.

    Args:
        num_rows: number of training rows n.
        num_classes: number of classes k. The buffer `targets` has n k numbers of float32.
        loss: a module that takes logits and class probabilities, with `reduction="none"`; cross-entropy if None.
        start: epochs on the labels as given, at least 0. Published: 60 of 200. It has to be before the network
            memorises, and it had better be after it has learnt something.
        momentum: :math:`\mu` in [0, 1]. Published: 0.9.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Attributes:
        targets: :math:`t_i`, a buffer (n, k) of float32, in a network of any dtype.
        left_out: number of rows that were not taken up, since a logit of them is NaN or +inf; a buffer ().

    Shape:
        As for :class:`mgce.ELRLoss`.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.

    Example:
        >>> criterion = SelfAdaptiveLoss(num_rows=4, num_classes=2, start=0)
        >>> logits, target = torch.tensor([[2.0, 0.0]]), torch.tensor([1])
        >>> criterion(logits, target, torch.tensor([3]))
        tensor(1.9508)
        >>> criterion.targets[3]
        tensor([0.0881, 0.9119])

    Reference: Huang, Zhang and Zhang, Self-adaptive training: beyond empirical risk minimization, 2020.
    """

    targets: Tensor
    visits: Tensor

    def __init__(
        self,
        num_rows: int,
        num_classes: int,
        loss: nn.Module | None = None,
        *,
        start: int = 5,
        momentum: float = 0.9,
        reduction: str = "mean",
    ) -> None:
        super().__init__(loss, num_rows, num_classes, reduction)
        check_count("start", start, minimum=0)
        check_fraction("momentum", momentum)
        self.start, self.momentum = int(start), float(momentum)
        self.register_buffer("targets", torch.zeros(self.num_rows, self.num_classes, dtype=torch.float32))
        self.register_buffer("visits", torch.zeros(self.num_rows, dtype=torch.int32))

    def _trained(self, input: Tensor, target: Tensor, index: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        given = probabilities(target, self.num_classes, rows)
        probs = input.detach().float().softmax(1)
        seen, own, label = self._learnt(*from_all_processes(index[rows], probs[rows], given[rows]))
        visits = self.visits[seen]
        before = torch.where((visits == 0)[:, None], label, self.targets[seen])
        moved = self.momentum * before + (1 - self.momentum) * own
        self.targets[seen] = torch.where((visits >= self.start)[:, None], moved, before).to(self.targets.dtype)
        self.visits[seen] = visits + 1
        now = torch.where((self.visits[index] == 0)[:, None], given, self.targets[index])
        now = torch.where(rows[:, None], now, 1 / self.num_classes)
        weight = now.max(1).values
        losses = against_probs(self.loss, input, now.to(input.dtype))
        return losses * weight.to(losses.dtype), weight

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"{super().extra_repr()}, start={self.start}, momentum={self.momentum:g}"
