"""Shared parts of losses that wrap other losses: the inner loss, its class dimension, half types."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from mgce import _validation
from mgce.losses.arguments import HALF_TYPES, check_weight, result_dtype
from mgce.losses.base import OF_LOSSES_INSIDE, Criterion
from mgce.losses.protocol import both_probs, check_loss, dim_of, link_of, set_reduction, weight_of


class Wrapper(Criterion):
    """A loss around another loss; it has the same link unless a subclass overrides it."""

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
        """The module that turns logits into probabilities: that of the inner loss."""
        return link_of(self.loss)

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and p of logits, as the inner loss does."""
        return both_probs(self.loss, logits)

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction of the inner loss."""
        set_reduction(self.loss, reduction)


def in_float32(loss: nn.Module, function: Callable[[Tensor, Tensor], Tensor], input: Tensor, target: Tensor) -> Tensor:
    """Compute a function of logits and targets in float32 where these are of a half type, and give the loss as that.

    Not where the loss has class weights, or other tensors, of a half type: logits have to match those.
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
    """Check the input of a loss, and give the dimension of its classes."""
    return _validation.check_logits(input, dim_of(loss), "input")
