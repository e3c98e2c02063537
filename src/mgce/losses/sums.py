"""A weighted sum of losses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn

from mgce import _validation
from mgce._validation import expected
from mgce.losses.base import OF_LOSSES_INSIDE, Criterion
from mgce.losses.named import NamedLoss
from mgce.losses.protocol import UNSAID, both_probs, check_loss, link_of, said, set_reduction
from mgce.losses.wrapping import in_float32


class SumLoss(Criterion):
    r"""A weighted sum of losses, as NCE + RCE and all active-passive losses are.

    .. math:: \ell(f, y) = \sum_i w_i \ell_i(f, y)

    Bounded, symmetric or convex if each loss of positive weight is (and with luck otherwise: cross-entropy plus
    :math:`\epsilon` MAE is convex for :math:`|\epsilon| \le 1`). Each loss has its own class weights: give all the
    same.

    Args:
        losses: modules that take logits and targets; those that say their `reduction`, `ignore_index` or `dim` have to
            have the same.
        weights: a finite number for each, one of them not 0. A loss of weight 0 is not computed. Half types are summed
            in float32, as :class:`mgce.LogitScale` has it.

    Raises:
        TypeError, ValueError: if there is no loss, not a weight for each, all are 0, or the losses differ as above.

    Example:
        >>> from mgce import NCELoss, RCELoss
        >>> criterion = SumLoss([NCELoss(), RCELoss()], [1.0, 10.0])
        >>> criterion(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(68.1404)

    Reference: Ma et al., Normalized loss functions for deep learning with noisy labels, 2020.
    """

    inside = OF_LOSSES_INSIDE

    def __init__(self, losses: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        given: dict[str, Any] = {"losses": losses, "weights": weights}
        for name, values in given.items():
            if (
                isinstance(values, str | bytes | Mapping | Set)
                or not isinstance(values, Iterable)
                or getattr(values, "ndim", 1) == 0
            ):
                raise TypeError(expected(name, "a sequence", values))
        losses, weights = list(losses), list(weights)
        if not losses or len(losses) != len(weights):
            raise ValueError(expected("weights", f"one number for each of {len(losses)} losses", weights))
        for i, (loss, weight) in enumerate(zip(losses, weights, strict=True)):
            check_loss(f"losses[{i}]", loss)
            _validation.check_number(f"weights[{i}]", weight, -math.inf)
        if not any(weights):
            raise ValueError(expected("weights", "not all 0", weights))
        _check_alike([loss for loss, weight in zip(losses, weights, strict=True) if weight])
        self.losses = nn.ModuleList(losses)
        self.weights = tuple(map(float, weights))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the sum for logits and targets."""
        return in_float32(self, self._sum, input, target)

    def _sum(self, input: Tensor, target: Tensor) -> Tensor:
        terms = [w * loss(input, target) for w, loss in zip(self.weights, self.losses, strict=True) if w != 0]
        return torch.stack(terms).sum(0)

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: that of the first loss whose weight is not 0."""
        return link_of(self.parts()[0])

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and p of logits: those of the first loss whose weight is not 0."""
        return both_probs(self.parts()[0], logits)

    def parts(self) -> tuple[nn.Module, ...]:
        """Return the losses whose weight is not 0."""
        return tuple(loss for weight, loss in zip(self.weights, self.losses, strict=True) if weight != 0)

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction of every loss."""
        for loss in self.losses:
            set_reduction(loss, reduction)

    def extra_repr(self) -> str:
        """Show the weights."""
        return f"weights={self.weights}"


def _check_alike(losses: Sequence[nn.Module]) -> None:
    """Require losses that say their reduction, ignored index or dimension of classes to say the same.

    What is inside a loss is its own business: it may well take the mean of another's `reduction="none"`. So is an
    attribute of that name that is neither a word nor a number; but None is the dimension 1, save for a single row.
    """
    for name in ("reduction", "ignore_index", "dim"):
        given = []
        for loss in losses:  # no `:=` in a comprehension, which torch.compile of a sum made in the graph cannot follow
            value = said(loss, name)
            if value is not UNSAID:
                given.append(value)
        meant = [1 if name == "dim" and value is None else value for value in given]
        if len({value for value in meant if isinstance(value, (str, int))}) > 1:
            raise ValueError(expected("losses", f"losses of one {name}", given))


def sum_of(name: str, *losses: NamedLoss, formula: str = "", **description: Any) -> NamedLoss:
    """Describe a sum of losses with weights 1; the keywords are those of `NamedLoss`.

    The sum is bounded, symmetric or convex if every loss in it is. A keyword may say otherwise.
    """
    alike = {what: all(getattr(loss, what) for loss in losses) for what in ("bounded", "symmetric", "convex")}
    shown = formula or " + ".join(loss.name.upper() for loss in losses)
    weights = {"weights": (1.0,) * len(losses)}
    return NamedLoss(name, SumLoss, shown, of=losses, changed=weights, **{**alike, **description})
