r"""Define MGCE with an upper limit on the loss of each row."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce._validation import expected
from mgce.kernels.options import LossOptions
from mgce.link.normalizer import normalized_logits
from mgce.losses.base import python_number
from mgce.losses.functional import mgce_loss
from mgce.losses.modules import CE, GCE, MGCE, NEAR_MAE, MinimaxLink
from mgce.losses.named import NamedLoss
from mgce.losses.scored import scored_loss
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.wanted import Wanted
from mgce.numerics.exponential import expm1
from mgce.numerics.root import DEFAULT_BETA, LARGEST_BETA


def capped_mgce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: float = DEFAULT_BETA,
    threshold: float = 0.0,
    dim: int | None = None,
) -> Tensor:
    r"""Compute MGCE with an upper limit on the loss of each row: a probability below a threshold t is replaced by t.

    .. math:: \ell(f, y) = \beta \big(1 - \max(h_y, t)^{1/\beta}\big)
        = \min\big(\beta (1 - t^{1/\beta}), -f_y - \varphi_\beta(f)\big)

    with h the minimax probabilities of the logits (:func:`minimax_probs`) and phi their normalizer
    (:func:`normalizer`). This is the :func:`alpha_loss` of h. The loss lies in [0, beta (1 - t^(1 / beta))]. With t = 0
    and beta = 1 it is symmetric: its sum over all classes is constant. With t = 0 and beta = inf it is cross-entropy,
    and convex in the logits. A row whose label has a probability below the threshold has no gradient. So train with
    :func:`mgce_loss` first, until few rows with right labels are below the threshold.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        beta: in [1, inf], one number for all rows.
        threshold: t, in [0, 1]. With t >= 1/2 a row has a gradient only if its label has a larger h than all other
            classes together.
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> capped_mgce_loss(torch.tensor([[3.0, 0.0], [0.4, 0.0]]), torch.tensor([1, 1]), beta=2.0, reduction="none")
        tensor([2.0000, 0.8000])
        >>> capped_mgce_loss(torch.tensor([[0.4, 0.0]]), torch.tensor([1]), beta=2.0, threshold=0.5)
        tensor(0.5858)

    Reference: paper, equations (3) and (14); Zhang and Sabuncu, 2018, section 3.3, for the threshold.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(lambda f, wanted: _capped_mgce(f, wanted, beta, threshold), input, target, weight, options, dim)


def _capped_mgce(logits: Tensor, wanted: Wanted, beta: float, threshold: float) -> Tensor:
    number = _validation.check_beta(beta)
    if isinstance(number, Tensor):
        raise TypeError(expected("beta", "one number for all rows", f"a tensor of shape {tuple(number.shape)}"))
    _validation.check_number("threshold", threshold, 0, 1)
    if number >= LARGEST_BETA:
        scores = wanted.of(F.log_softmax(logits, wanted.dim))
    elif wanted.target is None:
        scores = normalized_logits(logits, beta=number, dim=wanted.dim)
    else:  # the fused kernel gives the loss of the label
        scores = -mgce_loss(logits, wanted.target, None, wanted.ignore_index, "none", beta=number)
    one = scores.new_ones(())  # this factor keeps the value of beta out of a compiled graph
    if threshold > 0:
        least = math.log(threshold) * one
        least = least if number >= LARGEST_BETA else number * expm1(least / number)
    else:
        least = -number * one if number <= torch.finfo(scores.dtype).max else -math.inf * one
    return torch.where(scores < least, least, scores)


class CappedMGCELoss(ScoredLoss):
    r"""MGCE with an upper limit on the loss of each row: the loss of a label with probability t.

    .. math:: \ell(f, y) = \beta \big(1 - \max(h_y, t)^{1/\beta}\big)
        = \min\big(\beta (1 - t^{1/\beta}), -f_y - \varphi_\beta(f)\big)

    with h the minimax probabilities, which `link` computes from logits, and phi the normalizer of MGCE. The loss lies
    in [0, beta (1 - t^(1 / beta))]. With t = 0 and beta = 1 it is symmetric: its sum over all classes is constant. With
    t = 0 and beta = inf it is cross-entropy, and convex in the logits.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        beta: in [1, inf], one number for all rows.
        threshold: t, in [0, 1]. A row whose label has a probability below t has no gradient, so train with t = 0 at
            first.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> CappedMGCELoss(beta=2.0, threshold=0.5)(torch.tensor([[0.4, 0.0]]), torch.tensor([1]))
        tensor(0.5858)

    Reference: paper, equations (3) and (14); Zhang and Sabuncu, 2018, section 3.3, for the threshold.
    """

    function = staticmethod(capped_mgce_loss)
    own = ("beta", "threshold")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        beta: float = DEFAULT_BETA,
        threshold: float = 0.0,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.beta, self.threshold = python_number(beta), python_number(threshold)
        self.check()

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits into the minimax probabilities, with the `beta` and the `dim` of the loss."""
        return MinimaxLink(beta=self.beta, dim=self.dim)

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return two kinds of probabilities of logits: minimax h to predict with, and calibrated worst-case p."""
        return self.link.both(logits)


# All begin by the loss without a cap, and are compared near MAE, since they give up rows.
MGCE_CAP = NamedLoss(
    "mgce+cap",
    CappedMGCELoss,
    r"$\min(\beta, -f_y - \varphi_\beta(f))$",
    order=30,
    fixed={"threshold": 0.0},
    begin=MGCE,
    betas=(NEAR_MAE,),
    bounded=True,
    claims=GCE.claims,
)
# A row counts as long as its label has at least half of the probability: no other class can have as much.
_HALF, _AS = {"threshold": 0.5}, "a variant of ours, as Zhang, Sabuncu 2018 do with GCE"
MGCE_TRUNC = NamedLoss(
    "mgce+trunc",
    CappedMGCELoss,
    r"$\beta (1 - \max(h_y, t)^{1/\beta})$, h the minimax probabilities, `threshold` = t",
    order=31,
    changed=_HALF,
    begin=MGCE,
    betas=(NEAR_MAE,),
    bounded=True,
    claims={"bounded": "if t > 0 or beta < inf"},
    source=_AS,
)
CE_TRUNC = NamedLoss(
    "ce+trunc",
    CappedMGCELoss,
    r"$-\log \max(p_y, t)$, `threshold` = t",
    order=32,
    fixed={"beta": math.inf},
    changed=_HALF,
    begin=CE,
    bounded=True,
    claims={"bounded": "if t > 0"},
    source=_AS,
)
NAMED = (MGCE_CAP, MGCE_TRUNC, CE_TRUNC)
