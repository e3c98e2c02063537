"""What every user of a loss may ask of it: its parts, link and both probabilities, a copy with another reduction.

All losses of this package answer as a :class:`mgce.losses.base.Criterion`. Of other modules only this file asks, for
what `nn.CrossEntropyLoss` says too: `reduction`, `ignore_index`, `weight`; and for a `dim` or a `link`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from mgce import _validation
from mgce._validation import expected
from mgce.losses.base import Criterion
from mgce.losses.modules import LinearMGCELoss, MinimaxLink

# Losses with a linear head of their own: they take features. PyTorch has one since 2.13.
HEADS = (LinearMGCELoss, getattr(nn, "LinearCrossEntropyLoss", LinearMGCELoss))
UNSAID = object()
IGNORED = -100  # as PyTorch has it


def check_loss(name: str, loss: object) -> None:
    """Require a module that takes logits, and not the input of a linear head that it has."""
    if not isinstance(loss, nn.Module):
        raise TypeError(expected(name, "a module", loss))
    for part in loss.modules():
        if isinstance(part, HEADS):
            raise TypeError(expected(name, "a loss of logits, without a linear head", type(part).__name__))


def said(loss: nn.Module, name: str) -> Any:
    """Give what a loss itself says under a name, and not a loss inside it; `UNSAID` where it says nothing."""
    return getattr(loss, name, UNSAID)


def original(loss: nn.Module) -> nn.Module:
    """Give what `torch.compile` made a module of, or the module itself."""
    inner = said(loss, "_orig_mod")
    return inner if isinstance(inner, nn.Module) else loss


def computed(loss: nn.Module) -> Iterator[nn.Module]:
    """Give a loss and those inside it, but for the terms of a sum whose weight is 0."""
    yield loss
    for part in loss.parts() if isinstance(loss, Criterion) else loss.children():
        yield from computed(part)


def weight_of(loss: nn.Module) -> Tensor | None:
    """Give the class weights of a loss, or of one inside it."""
    weights = (said(part, "weight") for part in computed(loss) if said(part, "reduction") is not UNSAID)
    return next((weight for weight in weights if isinstance(weight, Tensor)), None)


def dim_of(loss: nn.Module) -> int | None:
    """Give the dimension of the classes that a loss, or one inside it, was given; None is where losses have it."""
    return next((dim for part in computed(loss) if isinstance(dim := said(part, "dim"), int)), None)


def ignore_index_of(loss: nn.Module) -> int:
    """Give the label that adds nothing to a loss, or to the first one inside it that says so."""
    said_first = (index for part in computed(loss) if isinstance(index := said(part, "ignore_index"), int))
    return next(said_first, IGNORED)


def own_link(loss: nn.Module) -> nn.Module | None:
    """Give the link that a loss has; None for those of PyTorch, which have none."""
    link = original(loss).link if isinstance(original(loss), Criterion) else said(loss, "link")
    return link if isinstance(link, nn.Module) else None


def link_of(loss: nn.Module) -> nn.Module:
    """Give the link of a loss; PyTorch's own have none, and are for softmax."""
    link = own_link(loss)
    return MinimaxLink(beta=math.inf, dim=None) if link is None else link


def both_probs(loss: nn.Module, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Give h and p of logits: what the classifier predicts with, and what is meant to be calibrated.

    They are the same for a loss without beta.
    """
    loss = original(loss)
    if isinstance(loss, Criterion):
        return loss.both_probs(logits)
    link = link_of(loss)
    if isinstance(link, MinimaxLink):
        return link.both(logits)
    probs = link(logits)
    return probs, probs


def with_reduction(loss: nn.Module, reduction: str, name: str = "loss") -> nn.Module:
    """Give a copy of a loss that has another reduction in every part, and the same tensors.

    What is learnt or kept by the copy, a beta or the losses of a window, is so by the loss too.

    Args:
        loss: of this package, of PyTorch, or a module that says its `reduction`. A loss inside another module has to
            have the reduction `"none"`, since only that module knows what it makes of it.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: what errors call the loss.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.
    """
    _validation.check_choice("reduction", reduction, _validation.REDUCTIONS)
    check_loss(name, loss)
    loss = original(loss)
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*loss.parameters(), *loss.buffers())}
    changed = copy.deepcopy(loss, shared)
    set_reduction(changed, reduction, name)
    return changed


def set_reduction(loss: nn.Module, reduction: str, name: str = "loss") -> None:
    """Set the reduction of a loss and of those inside it."""
    loss = original(loss)
    if isinstance(loss, Criterion):
        loss.set_reduction(reduction)
        return
    inside = {said(part, "reduction") for part in loss.modules() if part is not loss} - {UNSAID, "none"}
    if inside or not isinstance(said(loss, "reduction"), str):
        what = "a loss of this package or of PyTorch, or one with a `reduction` that is not inside it"
        raise TypeError(expected(name, what, type(loss).__name__))
    loss.reduction = reduction  # type: ignore[assignment]


@contextmanager
def evaluating(loss: nn.Module) -> Iterator[None]:
    """Put a loss into evaluation mode, and each of its parts back into its own mode in the end."""
    training = [part for part in loss.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
