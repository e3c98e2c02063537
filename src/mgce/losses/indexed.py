"""Define the base class of losses that remember each training row by its index."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from mgce._messages import check_choice, check_count, expected
from mgce._validation import REDUCTIONS, is_concrete
from mgce.losses.base import OF_LOSSES_INSIDE
from mgce.losses.functional import gce_loss
from mgce.losses.wrapping import LARGEST_BUFFER, Remembering, Wrapper, check_input, divisor, ignored_of_unreduced


class IndexedLoss(Wrapper, Remembering):
    """A loss that remembers something of each training row, and is called with the indices of the rows of a batch.

    In `train` mode a call needs the indices. In `eval` mode a call computes the inner loss, and needs no indices.

    When a process group is initialised, each process learns what the others have seen in the same step. All buffers
    stay equal, whichever rows a sampler gives to which process. All processes must call the loss equally often.
    """

    inside = OF_LOSSES_INSIDE - {"reduction"}

    def __init__(self, loss: nn.Module | None, num_rows: int, num_classes: int, reduction: str) -> None:
        super().__init__(nn.CrossEntropyLoss(reduction="none") if loss is None else loss)
        for name, value in (("num_rows", num_rows), ("num_classes", num_classes)):
            check_count(name, value)
        if num_rows * num_classes > LARGEST_BUFFER:
            what = f"such that num_rows * num_classes is at most {LARGEST_BUFFER:.0e}"
            raise ValueError(expected("num_rows", what, f"num_rows={num_rows} and num_classes={num_classes}"))
        check_choice("reduction", reduction, REDUCTIONS)
        self._ignored = ignored_of_unreduced(self.loss)
        self.num_rows, self.num_classes, self.reduction = int(num_rows), int(num_classes), reduction

    def forward(self, input: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Compute the loss of logits against targets.

        Args:
            input: logits of n rows and k classes, shape (n, k).
            target: class indices, shape (n,), or class probabilities, shape (n, k). A row without a label has an
                ignored class index, or zeros as probabilities. Such a row adds nothing and is not remembered.
            index: the index of each row in the training set, shape (n,), an integer in [0, num_rows). It may be left
                out in `eval` mode.
        """
        check_input(self.loss, input)
        if input.ndim != 2 or input.shape[1] != self.num_classes:
            what = f"of shape (n, {self.num_classes}), as num_classes={self.num_classes}"
            raise ValueError(expected("input", what, tuple(input.shape)))
        soft = target.is_floating_point()
        rows = target.any(1) if soft else target != self._ignored
        if soft:  # probabilities of some kind for the loss inside; its value is left out below
            target = torch.where(rows[:, None], target, 1 / self.num_classes)
        if self.training:
            losses, weight = self._trained(input, target, self._checked(index, input), rows)
        else:
            losses, weight = self.loss(input, target), None
        losses = torch.where(rows, losses, 0)
        if self.reduction == "none":
            return losses
        total = losses.sum(dtype=torch.promote_types(losses.dtype, torch.float32))  # half types would overflow
        if self.reduction == "sum":
            return total.to(losses.dtype)
        if weight is not None:
            divide = torch.where(rows, weight, 0).sum()
        else:
            divide = rows.sum() if soft else divisor(self.loss, target.long(), rows, rows)
        if soft:  # a batch of rows without labels makes no step; class indices are 0 / 0 then, as in cross-entropy
            divide = torch.where(rows.any(), divide, 1)
        return (total / divide).to(losses.dtype)

    @abstractmethod
    def _trained(self, input: Tensor, target: Tensor, index: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute the losses (n,) of a training step, and remember its rows; return the losses, and weights or None.

        Args:
            input: logits, shape (n, k).
            target: class indices (n,) or class probabilities (n, k).
            index: the indices of the rows, shape (n,).
            rows: whether each row has a label that is not ignored, shape (n,).

        Returns:
            The losses, and the weights by whose sum a mean is divided; None for class weights or the number of rows.
        """

    def _learnt(self, index: Tensor, probs: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the indices and values of rows with finite probabilities (n, k); count the other rows."""
        finite = probs.sum(1).isfinite()
        self.left_out += (~finite).sum()
        return tuple(tensor[finite] for tensor in (index, probs, *values))

    def _checked(self, index: Tensor | None, input: Tensor) -> Tensor:
        """Return the indices as int64 on the device of the logits; raise if they are not indices of these rows."""
        if index is None:
            raise TypeError(expected("index", "the index of each row, which training needs; see IndexedDataset", index))
        if not isinstance(index, Tensor) or index.is_floating_point() or index.dtype == torch.bool:
            raise TypeError(expected("index", "a tensor of integers", getattr(index, "dtype", index)))
        if index.shape != input.shape[:1]:
            raise ValueError(expected("index", f"one integer for each of {len(input)} rows", tuple(index.shape)))
        # Values are looked at only where this waits for no device, and no compiler would have to guess them.
        if index.device.type == "cpu" and is_concrete(index) and len(index):
            low, high = int(index.min()), int(index.max())
            if low < 0 or high >= self.num_rows:
                what = f"in [0, {self.num_rows}), as num_rows={self.num_rows}"
                raise ValueError(expected("index", what, low if low < 0 else high))
        return index.long().to(input.device)

    def extra_repr(self) -> str:
        """Return for `repr` the sizes, and the number of rows that were left out, if there are any."""
        return f"num_rows={self.num_rows}, num_classes={self.num_classes}{self.said_left_out()}"


class AcceptsIndex(Wrapper):
    """A loss that accepts the index of each row and ignores it, so that one training loop serves all losses."""

    def forward(self, input: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Compute the inner loss of logits against targets."""
        value: Tensor = self.loss(input, target)
        return value


def probabilities(target: Tensor, num_classes: int, rows: Tensor) -> Tensor:
    """Return targets as class probabilities (n, k) in float32; all zero for rows (n,) whose label is ignored."""
    if target.is_floating_point():
        return target.float()
    return F.one_hot(torch.where(rows, target.long(), 0), num_classes).float() * rows[:, None]


def against_probs(loss: nn.Module, input: Tensor, probs: Tensor) -> Tensor:
    """Compute a loss against class probabilities; a class with the logit -inf and the probability 0 adds nothing.

    PyTorch's cross-entropy multiplies 0 by infinity for such a class.
    """
    if type(loss) is nn.CrossEntropyLoss and not loss.label_smoothing:
        return gce_loss(input, probs, loss.weight, loss.ignore_index, loss.reduction, beta=math.inf)
    value: Tensor = loss(input, probs)
    return value


def from_all_processes(index: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
    """Return the indices and values of the rows of all processes, or those given if there is only one process.

    Args:
        index: indices of this process' rows, shape (n,); processes may have different numbers of rows.
        values: tensors with a first dimension of n.
    """
    given = (index, *values)
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return given
    world = distributed.get_world_size()
    sizes = [index.new_zeros(1) for _ in range(world)]
    distributed.all_gather(sizes, index.new_tensor([len(index)]))
    counts = [int(size) for size in sizes]
    gathered = []
    for tensor in given:
        padded = tensor.new_zeros((max(counts), *tensor.shape[1:]))
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in range(world)]
        distributed.all_gather(parts, padded)
        gathered.append(torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)]))
    return tuple(gathered)
