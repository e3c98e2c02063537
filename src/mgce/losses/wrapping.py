"""Define base classes for losses around another loss and for losses that remember rows, with their checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mgce._messages import expected
from mgce._validation import HALF_TYPES, check_logits
from mgce.losses.arguments import check_weight, result_dtype
from mgce.losses.base import OF_LOSSES_INSIDE, Criterion
from mgce.losses.protocol import (
    IGNORED,
    UNSAID,
    both_probs,
    check_loss,
    dim_of,
    link_of,
    said,
    set_reduction,
    weight_of,
)
from mgce.losses.scored import of_class


class Wrapper(Criterion):
    """A loss that wraps another loss, with the same link from logits to probabilities unless overridden."""

    inside = OF_LOSSES_INSIDE
    loss: nn.Module

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        check_loss("loss", loss)
        self.loss = loss

    def parts(self) -> tuple[nn.Module, ...]:
        """Return the inner loss."""
        return (self.loss,)

    @property
    def link(self) -> nn.Module:
        """The module of the inner loss that turns logits into probabilities."""
        return link_of(self.loss)

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities h (for predictions) and p (calibrated) of logits, as the inner loss does."""
        return both_probs(self.loss, logits)

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction of the inner loss, or that of this loss if it reduces the losses itself."""
        if "reduction" in self.inside:
            set_reduction(self.loss, reduction)
        else:
            super().set_reduction(reduction)


def in_float32(loss: nn.Module, function: Callable[[Tensor, Tensor], Tensor], input: Tensor, target: Tensor) -> Tensor:
    """Compute a loss function of logits and targets in float32 if the logits have a half type.

    The result is returned in the dtype of the logits. If the loss has class weights or other tensors of a half type,
    nothing is converted, since logits have to match these.
    """
    if not isinstance(input, Tensor) or input.dtype not in HALF_TYPES:
        return function(input, target)
    own = (tensor.dtype for tensors in (loss.parameters(), loss.buffers()) for tensor in tensors)
    if any(dtype in HALF_TYPES for dtype in own):
        return function(input, target)
    weight = weight_of(loss)
    if weight is not None and isinstance(target, Tensor) and target.shape != input.shape:
        check_weight(weight, len(weight), input)  # which logits of float32 would match
    return function(input.float(), target).to(result_dtype(input, target, weight))


def check_input(loss: nn.Module, input: Tensor) -> int:
    """Check the logits that a loss is given, and return their dimension of classes."""
    return check_logits(input, dim_of(loss), "input")


def ignored_of_unreduced(loss: nn.Module) -> int:
    """Return the `ignore_index` of a loss that a wrapper reduces; require the reduction "none" of all of its parts."""
    parts = [part for part in loss.modules() if said(part, "reduction") is not UNSAID]
    for part in parts:
        if part.reduction != "none":
            raise ValueError(expected("loss", "a loss with reduction='none'", part.reduction))
    ignored: set[int] = {said(part, "ignore_index") for part in parts} - {UNSAID} or {IGNORED}
    if len(ignored) > 1:
        raise ValueError(expected("loss", "made of losses with one ignore_index", sorted(ignored)))
    return ignored.pop()


def divisor(loss: nn.Module, label: Tensor, kept: Tensor, rows: Tensor) -> Tensor:
    """Return what the mean of losses is divided by: the sum of the class weights of the rows kept, or their number.

    It is at least one if there are rows but none is kept.

    Args:
        loss: the loss whose class weights count.
        label: the class index of each of n rows, shape (n,).
        kept: whether each row is kept, shape (n,).
        rows: whether each row has a label that is not ignored, shape (n,).
    """
    weight = weight_of(loss)
    if weight is None:
        return torch.maximum(kept.sum(), rows.any())
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))  # half types count to 65504 or 256
    total = torch.where(kept, of_class(weight, torch.where(kept, label, 0)), 0).sum()
    return torch.where(kept.any() | ~rows.any(), total, 1)


LARGEST_BUFFER = 10**10  # numbers that a loss remembers at most: 40 GB


class Precise(nn.Module):
    """A module whose buffers keep their dtype when a network around it is moved to another one.

    An average over many steps has to be precise even if the network is not: in bfloat16, a step of less than a 256th
    of a number is rounded away.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **keywords: Any) -> Any:
        """Apply the function behind `to`, `half` or `cuda`; buffers move to another device only."""
        before = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        super()._apply(fn, *arguments, **keywords)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():
            moved = self._buffers[name]
            if moved is not None and moved.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(moved.device)
        return self


class Remembering(Precise):
    """A module that learns from rows; it counts rows with numbers that are not finite, and does not learn from them.

    Gradient scalers of mixed precision skip a step whose logits overflowed. Such a step must not change what a loss
    remembers.

    Attributes:
        left_out: number of rows with a label that were not learnt from, a buffer ().
    """

    left_out: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left_out", torch.zeros((), dtype=torch.int64))

    def said_left_out(self) -> str:
        """Return, for `repr`, the number of rows that were left out, if there are any."""
        return "" if self.left_out.is_meta or not self.left_out else f", left_out={int(self.left_out)}"
