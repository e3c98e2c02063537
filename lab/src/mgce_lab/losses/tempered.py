r"""Define the bi-tempered logistic loss: a softmax with a heavier tail, and a logarithm that is bounded at zero."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mgce import _validation
from mgce._messages import check_number, expected
from mgce.losses.base import python_number
from mgce.losses.records import NamedLoss, Number
from mgce.losses.scored import Wanted, expm1
from mgce.losses.scored_module import ScoredLoss, by_scores
from mgce.numerics import root

# Newton's steps for the normalizer. It climbs to the root from one side, on a function that is nearly a line: 1 to
# 10^5 classes at temperatures up to 5 took at most 7 of these in float64.
STEPS = 10
# A relative step so small is followed by one of its square, and that by one of its fourth power, below float64's eps.
# These two are taken anyway.
NEAR = 1e-4
T1, T2 = 0.8, 1.2  # the loss is below 1 / (1 - t1) = 5, and the tail of p falls with the fifth power


def bi_tempered_scores(logits: Tensor, wanted: Wanted, t1: float, t2: float) -> Tensor:
    r"""Compute the bi-tempered logistic loss, a Bregman divergence between the label and a tempered softmax.

    .. math::
        \ell(f, y) = -\log_{t_1} p_y - \frac{1 - \sum_j p_j^{2 - t_1}}{2 - t_1}, \qquad
        p_j = \big(1 + (t_2 - 1)(\lambda - f_j)\big)^{-1/(t_2 - 1)}, \qquad
        \log_t u = \frac{u^{1 - t} - 1}{1 - t}

    with :math:`\lambda(f)` such that p sums to one. The loss lies in [0, 1 / (1 - t1)), and is unbounded at t1 = 1. Its
    sum over all classes is not constant (the loss is not symmetric). It is convex in the logits only at t1 = t2 = 1,
    where it is cross-entropy. Against class probabilities q it is :math:`\sum_y q_y \ell(f, y)`, which differs from the
    Bregman divergence by a number that depends only on q. The `link` of :class:`mgce.losses.BiTemperedLoss` turns
    logits into p.

    Reference: Amid et al., Robust bi-tempered logistic loss based on Bregman divergences, 2019.
    """
    # The shift is about k^(t2 - 1), and its second derivative is computed by the third power of the reciprocal.
    _check_power(logits, wanted.dim, "t2", t2, 3)
    every = _tempered_log_softmax(logits, t2, wanted.dim)
    log_p = wanted.of(every)
    if t1 == 1:
        return log_p
    powers = torch.exp((2 - t1) * every)
    others = (powers.sum(wanted.dim, wanted.keepdim) - wanted.of(powers)).clamp(min=0)
    # Near p = 1 the two halves cancel, and rounding may leave a loss below 0.
    own = (expm1((1 - t1) * log_p) / (1 - t1) - expm1((2 - t1) * log_p) / (2 - t1)).clamp(max=0)
    return own - others / (2 - t1)


def _check_power(logits: Tensor, dim: int, name: str, t: float, power: int) -> None:
    """Require k^(power (t - 1)), with k classes, to be finite in the dtype of the logits."""
    k, largest = logits.shape[dim], torch.finfo(logits.dtype).max
    if power * (t - 1) * math.log(k) > math.log(largest):
        shown = f"k^({name} - 1)" if power == 1 else f"k^({power} ({name} - 1))"
        what = f"such that {shown} is at most {largest:.3g} in {logits.dtype}, with k = {k}"
        raise ValueError(expected(name, what, t))


def _tempered_log_softmax(logits: Tensor, t: float, dim: int) -> Tensor:
    if t == 1:
        return F.log_softmax(logits, dim)
    below = logits.detach().amax(dim, keepdim=True) - logits
    fixed, shift = below.detach(), torch.zeros_like(below.sum(dim, keepdim=True)).detach()
    for _ in range(STEPS):
        before, shift = shift, _newton_step(shift, fixed, t - 1, dim)
        if _validation.is_concrete(shift) and ((shift - before).abs() <= NEAR * (1 + shift)).all():
            break
    # Two steps more, seen by autograd: the first takes the derivative to its value, the second the second and third.
    for _ in range(2):
        shift = _newton_step(shift, below, t - 1, dim)
    return -torch.log1p((t - 1) * (shift + below)) / (t - 1)


def _newton_step(shift: Tensor, below: Tensor, s: float, dim: int) -> Tensor:
    """Return `shift` after one Newton step towards the root of `S^-s - 1`.

    Here s = t - 1, and S is the sum of the unnormalized probabilities p of the tempered softmax, as a function of
    `shift`. At the root S is 1. The function is concave and increasing in the shift.
    """
    scaled = s * (shift + below)
    p = torch.exp(-torch.log1p(scaled) / s)
    log_sum = p.sum(dim, keepdim=True).log()
    slope = s * torch.exp(-(s + 1) * log_sum) * (p / (1 + scaled)).sum(dim, keepdim=True)
    return shift - root.expm1(-s * log_sum) / slope


class TemperedSoftmax(nn.Module):
    r"""Turn logits into the probabilities of the bi-tempered loss, which fall as a power, not exponentially.

    .. math:: p_j = \big(1 + (t - 1)(\lambda - f_j)\big)^{-1/(t - 1)}, \qquad \sum_j p_j = 1

    Args:
        t: at least 1, the `t2` of the loss; 1 is softmax.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError: if `t` is not a number of at least 1.

    Example:
        >>> TemperedSoftmax(t=2.0)(torch.tensor([1.0, 0.0]))
        tensor([0.6180, 0.3820])
    """

    def __init__(self, t: float = T2, dim: int | None = None) -> None:
        super().__init__()
        check_number("t", t, 1)
        self.t = python_number(t)
        self.dim = python_number(dim)

    def forward(self, logits: Tensor) -> Tensor:
        """Map logits to probabilities of the same shape; half types are solved in float32."""
        dim = _validation.check_logits(logits, self.dim)
        x = logits.float() if logits.dtype in _validation.HALF_TYPES else logits
        _check_power(x, dim, "t", self.t, 1)
        return _tempered_log_softmax(x, self.t, dim).exp().to(logits.dtype)

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"t={self.t:g}, dim={self.dim}"


class _WithTemperedLink(ScoredLoss):
    """The base class of the module, whose link is not softmax."""

    t2: Any

    @property
    def link(self) -> TemperedSoftmax:
        """The module that turns logits into probabilities: the tempered softmax, not softmax."""
        return TemperedSoftmax(self.t2, self.dim)


BI_TEMPERED = NamedLoss(
    "bi-tempered",
    by_scores(
        "BiTemperedLoss",
        bi_tempered_scores,
        ("t1=0.8, t2=1.2", "0.9803"),
        base=_WithTemperedLink,
        t1=Number(T1, "in [0, 1], the temperature of the logarithm; at 1 the loss is unbounded.", 0, 1),
        t2=Number(
            T2,
            "at least 1, the temperature of the softmax; k^(3 (t2 - 1)) has to be finite in the dtype of the logits, "
            "for k classes.",
            1,
        ),
    ),
    r"$-\log_{t_1} p_y - \frac{1 - \sum_j p_j^{2 - t_1}}{2 - t_1}$, p the tempered softmax",
    bounded=True,
    claims={"bounded": "if t1 < 1", "convex": "at t1 = t2 = 1"},
    source="Amid et al. 2019",
)
NAMED = (BI_TEMPERED,)
