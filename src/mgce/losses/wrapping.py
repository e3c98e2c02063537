"""What losses around other losses share: which losses they take, their links and dimensions, half types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from torch import Tensor, nn

from mgce import _validation
from mgce._validation import expected
from mgce.losses.arguments import HALF_TYPES, check_weight, class_dim, result_dtype
from mgce.losses.modules import LinearMGCELoss, MinimaxLink

# Losses with a linear head of their own: they take features. PyTorch has one since 2.13.
HEADS = (LinearMGCELoss, getattr(nn, "LinearCrossEntropyLoss", LinearMGCELoss))


def check_loss(name: str, loss: object) -> None:
    """Require a module that takes logits, and not the input of a linear head that it has."""
    if not isinstance(loss, nn.Module):
        raise TypeError(expected(name, "a module", loss))
    for part in loss.modules():
        if isinstance(part, HEADS):
            raise TypeError(expected(name, "a loss of logits, without a linear head", type(part).__name__))


def _computed(loss: nn.Module) -> Iterator[nn.Module]:
    """Give a loss and those inside it, but for the terms of a sum whose weight is 0."""
    yield loss
    counted = getattr(loss, "counted", loss.children)  # which a sum has
    for part in counted():
        yield from _computed(part)


def weight_of(loss: nn.Module) -> Tensor | None:
    """Give the class weights of a loss, or of one inside it."""
    weights = (getattr(part, "weight", None) for part in _computed(loss) if hasattr(part, "reduction"))
    return next((weight for weight in weights if isinstance(weight, Tensor)), None)


def dim_of(loss: nn.Module) -> int | None:
    """Give the dimension of the classes that a loss, or one inside it, was given; None is where losses have it."""
    return next((dim for part in _computed(loss) if isinstance(dim := getattr(part, "dim", None), int)), None)


def link_of(loss: nn.Module) -> nn.Module:
    """Give the link of a loss; PyTorch's own have none, and are for softmax."""
    link = getattr(loss, "link", None)
    return link if isinstance(link, nn.Module) else MinimaxLink(beta=math.inf, dim=None)


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
    return checked_dim(dim_of(loss), input)


def checked_dim(dim: int | None, input: Tensor) -> int:
    """Give the dimension of the classes of a loss's input, which is checked here."""
    if dim is None:
        dim = class_dim(input)
    _validation.check_logits(input, dim, "input")
    return dim
