"""Read the parts, the link and the options of any loss module, or copy it with another reduction.

The link of a loss is the module that turns logits into the probabilities that belong to the loss, as softmax belongs
to cross-entropy. The losses of this package implement :class:`mgce.losses.base.Criterion`. From losses of other
packages this file reads the attributes `reduction`, `ignore_index` and `weight` of `nn.CrossEntropyLoss`, and `dim`
and `link` if they exist. No other file reads attributes of losses.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from mgce._messages import check_choice, expected
from mgce._validation import REDUCTIONS
from mgce.kernels.options import SoftmaxTerms
from mgce.losses.base import Criterion
from mgce.losses.modules import LinearMGCELoss, MinimaxLink

# Losses with their own linear head: they take features, not logits. PyTorch has one since 2.13.
HEADS = (LinearMGCELoss, getattr(nn, "LinearCrossEntropyLoss", LinearMGCELoss))
UNSAID = object()  # marks a missing attribute, since None is a value
IGNORED: int = nn.CrossEntropyLoss().ignore_index  # PyTorch's default


def check_loss(name: str, loss: object) -> None:
    """Require a loss module that takes logits; refuse one with its own linear head, which takes features."""
    if not isinstance(loss, nn.Module):
        raise TypeError(expected(name, "a module", loss))
    for part in loss.modules():
        if isinstance(part, HEADS):
            raise TypeError(expected(name, "a loss of logits, without a linear head", type(part).__name__))


def said(loss: nn.Module, name: str) -> Any:
    """Return an attribute of the loss itself, not of a loss inside it; `UNSAID` if the loss lacks the attribute."""
    return getattr(loss, name, UNSAID)


def original(loss: nn.Module) -> nn.Module:
    """Return the module that `torch.compile` wrapped, or the module itself if it is not compiled."""
    inner = said(loss, "_orig_mod")
    return inner if isinstance(inner, nn.Module) else loss


def computed(loss: nn.Module) -> Iterator[nn.Module]:
    """Yield a loss and all losses inside it, except the terms of a sum whose weight is 0."""
    yield loss
    for part in loss.parts() if isinstance(loss, Criterion) else loss.children():
        yield from computed(part)


def weight_of(loss: nn.Module) -> Tensor | None:
    """Return the class weights of a loss, or of the first loss inside it with class weights; None if there are none."""
    weights = (said(part, "weight") for part in computed(loss) if said(part, "reduction") is not UNSAID)
    return next((weight for weight in weights if isinstance(weight, Tensor)), None)


def dim_of(loss: nn.Module) -> int | None:
    """Return the class dimension set on a loss or on one inside it; None means PyTorch's default."""
    return next((dim for part in computed(loss) if isinstance(dim := said(part, "dim"), int)), None)


def ignore_index_of(loss: nn.Module) -> int:
    """Return the `ignore_index` of a loss, or of the first loss inside it that has one; else PyTorch's default."""
    said_first = (index for part in computed(loss) if isinstance(index := said(part, "ignore_index"), int))
    return next(said_first, IGNORED)


def terms_of(loss: nn.Module) -> tuple[Any, SoftmaxTerms] | None:
    """Return the loss whose options count, and its `SoftmaxTerms`; None if there are no such terms.

    That is so if the loss depends on more of a row than the softmax probability of its label.
    """
    one: Any = loss
    terms = SoftmaxTerms(1.0, 0.0, 1.0) if type(loss) is nn.CrossEntropyLoss else None
    if isinstance(loss, Criterion):
        one, terms = next(iter(loss.parts()), loss), loss.softmax_terms()
    return None if terms is None or one.label_smoothing else (one, terms)


def own_link(loss: nn.Module) -> nn.Module | None:
    """Return the link of a loss, the module from logits to probabilities; None if it has none, as in PyTorch."""
    link = original(loss).link if isinstance(original(loss), Criterion) else said(loss, "link")
    return link if isinstance(link, nn.Module) else None


def link_of(loss: nn.Module) -> nn.Module:
    """Return the link of a loss, the module from logits to probabilities; softmax if it has none, as in PyTorch."""
    link = own_link(loss)
    return MinimaxLink(beta=math.inf) if link is None else link


def both_probs(loss: nn.Module, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return two kinds of probabilities of logits: h for predictions, p for calibrated confidence.

    The two are equal for a loss without beta.
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
    """Return a copy of a loss with another reduction; the copy shares all parameters and buffers with the loss.

    If the copy learns a beta, or stores the losses of rows, the loss changes too.

    Args:
        loss: a loss of this package or of PyTorch, or another module with an attribute `reduction`. Losses inside
            another module must have the reduction `"none"`, because only that module knows how it uses them.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: the name of the loss in errors.

    Raises:
        TypeError, ValueError: if an argument has a type or a value not allowed above.
    """
    check_choice("reduction", reduction, REDUCTIONS)
    check_loss(name, loss)
    loss = original(loss)
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*loss.parameters(), *loss.buffers())}
    changed = copy.deepcopy(loss, shared)
    set_reduction(changed, reduction, name)
    return changed


def set_reduction(loss: nn.Module, reduction: str, name: str = "loss") -> None:
    """Set the reduction of a loss and of the losses inside it; `name` is the name of the loss in errors."""
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
    """Put a loss into evaluation mode within the `with` block; restore the mode of each part at the end."""
    training = [part for part in loss.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
