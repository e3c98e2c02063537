"""Define a weighted sum of losses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn

from mgce._messages import check_number, expected
from mgce.kernels.options import LossOptions, SoftmaxTerms
from mgce.losses.arguments import with_class_dim
from mgce.losses.base import OF_LOSSES_INSIDE, Criterion, Loss
from mgce.losses.fused import of_softmax
from mgce.losses.protocol import UNSAID, both_probs, check_loss, link_of, said, set_reduction
from mgce.losses.records import NamedLoss
from mgce.losses.wrapping import in_float32


class SumLoss(Criterion):
    r"""A weighted sum of losses, such as NCE + RCE and all other active-passive losses.

    .. math:: \ell(f, y) = \sum_i w_i \ell_i(f, y)

    The sum is bounded, symmetric (its sum over all classes is constant) or convex if each loss is and the weights are
    positive. It may be convex otherwise too: cross-entropy plus :math:`\epsilon` times MAE is convex for
    :math:`|\epsilon| \le 1`. Each loss uses its own class weights: give all losses the same.

    Args:
        losses: modules that take logits and targets. The attributes `reduction`, `ignore_index` and `dim` have to be
            equal in all losses that have them.
        weights: a finite number for each loss, at least one of them not 0. A loss with weight 0 is not computed. Half
            types are summed in float32, with the exception described in :class:`mgce.losses.LogitScale`.

    Raises:
        TypeError, ValueError: if there is no loss, the number of weights differs, all weights are 0, or the losses
                have different options.

    Example:
        >>> from mgce.losses import NCELoss, RCELoss
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
            check_number(f"weights[{i}]", weight, -math.inf)
        if not any(weights):
            raise ValueError(expected("weights", "not all 0", weights))
        _check_alike([loss for loss, weight in zip(losses, weights, strict=True) if weight])
        self.losses = nn.ModuleList(losses)
        self.weights = tuple(map(float, weights))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the weighted sum of the losses of logits against targets."""
        terms = self.softmax_terms()
        if terms is not None:
            one: Any = self.parts()[0]
            options = LossOptions(one.ignore_index, one.reduction)
            loss = of_softmax(*with_class_dim(input, target, one.dim), one.weight, options, terms)
            if loss is not None:
                return loss
        return in_float32(self, self._sum, input, target)

    def _sum(self, input: Tensor, target: Tensor) -> Tensor:
        terms = [w * loss(input, target) for w, loss in zip(self.weights, self.losses, strict=True) if w != 0]
        return torch.stack(terms).sum(0)

    def softmax_terms(self) -> SoftmaxTerms | None:
        """Return the `SoftmaxTerms` of the sum; None unless one kernel can compute all losses together.

        It can if each loss depends on a row only by the softmax probability of the label, and all finite betas and all
        options are equal.
        """
        a = b = 0.0
        betas, weights, options = set(), [], set()
        for factor, loss in zip(self.weights, self.losses, strict=True):
            terms = loss.softmax_terms() if factor and isinstance(loss, Loss) and not loss.label_smoothing else None
            if terms is None:
                if factor:
                    return None
                continue
            a, b = a + factor * terms.a, b + factor * terms.b
            weights.append(loss.weight)
            options.add((loss.ignore_index, loss.reduction, loss.dim))  # set anew, they may differ
            if terms.b:
                betas.add(terms.beta)
        if len(betas) > 1 or len(options) > 1 or any(weight is not weights[0] for weight in weights):
            return None
        return SoftmaxTerms(a, b, betas.pop() if betas else 1.0)

    @property
    def link(self) -> nn.Module:
        """The link, from logits to probabilities, of the first loss whose weight is not 0."""
        return link_of(self.parts()[0])

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities h and p that the first loss with a weight other than 0 defines for the logits."""
        return both_probs(self.parts()[0], logits)

    def parts(self) -> tuple[nn.Module, ...]:
        """Return the losses whose weight is not 0."""
        return tuple(loss for weight, loss in zip(self.weights, self.losses, strict=True) if weight != 0)

    def set_reduction(self, reduction: str) -> None:
        """Set the reduction of every loss."""
        for loss in self.losses:
            set_reduction(loss, reduction)

    def extra_repr(self) -> str:
        """Return the weights for `repr`."""
        return f"weights={self.weights}"


def _check_alike(losses: Sequence[nn.Module]) -> None:
    """Require `reduction`, `ignore_index` and `dim` to be equal in all losses that have these attributes.

    Losses inside these losses are not checked: a wrapper may average an inner loss with `reduction="none"`. An
    attribute that is neither a string nor an integer is not checked either. A `dim` of None counts as 1.
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
    """Describe a sum of named losses with default weights 1; `description` are further arguments of `NamedLoss`.

    The sum is described as bounded, symmetric or convex if every loss in it is, unless a keyword says otherwise.
    """
    alike = {what: all(getattr(loss, what) for loss in losses) for what in ("bounded", "symmetric", "convex")}
    shown = formula or " + ".join(loss.name.upper() for loss in losses)
    weights = {"weights": (1.0,) * len(losses)}
    return NamedLoss(name, SumLoss, shown, of=losses, changed=weights, **{**alike, **description})
