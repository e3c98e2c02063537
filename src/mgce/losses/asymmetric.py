r"""Define asymmetric losses: if a label is probable enough, giving it probability 1 minimises the expected loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce._validation import expected
from mgce.kernels.options import LossOptions
from mgce.losses.base import python_number
from mgce.losses.named import NamedLoss, Presets
from mgce.losses.normalized import NCE
from mgce.losses.scored import expm1, scored_loss
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import sum_of
from mgce.losses.wanted import Wanted

LEAST = 1e-30  # a number of float32, well above its smallest: log(a + p) is finite at p = 0, and so is 1 / q
LARGEST = math.log(1e38)  # of float32
DEFAULT_A, DEFAULT_Q = 0.6, 0.6  # published for CIFAR-10 and CIFAR-100
DEFAULT_C = 30.0  # published for CIFAR-10


def agce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    a: float = DEFAULT_A,
    q: float = DEFAULT_Q,
    dim: int | None = None,
) -> Tensor:
    r"""Compute asymmetric generalized cross-entropy.

    .. math:: \ell(f, y) = \frac{(a + 1)^q - (a + p_y)^q}{q}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, ((a + 1)^q - a^q) / q]. It is not convex in the logits. Its sum over all classes is constant
    (the loss is symmetric) only at q = 1, where it is MAE (mean absolute error). At a = 0, which is not allowed, it
    would be :func:`gce_loss` with `beta=1 / q`.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        a: at least 1e-30.
        q: at least 1e-30, and (a + 1)^q at most 1e38, the size of numbers in float32.
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> agce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.6777)

    Reference: Zhou et al., Asymmetric loss functions for learning with noisy labels, 2021.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(lambda f, wanted: _agce(f, wanted, a, q), input, target, weight, options, dim)


def _agce(logits: Tensor, wanted: Wanted, a: float, q: float) -> Tensor:
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    _validation.check_number("a", a, LEAST)
    _validation.check_number("q", q, LEAST)
    if q * math.log1p(a) > LARGEST:
        raise ValueError(expected("q", f"such that (a + 1)^q is at most 1e38, with a = {a:g}", q))
    scale: float = (a + 1) ** q / q
    # log((a + p) / (a + 1)) from 1 - p, which keeps its digits near p = 1 and, where a is at least 1, everywhere.
    near = torch.log1p(expm1(log_p if a >= 1 else log_p.clamp(min=-1)) / (a + 1))
    if a < 1:
        far = torch.log(a + log_p.exp()) - math.log1p(a)
        near = torch.where(log_p > -1, near, far)
    return scale * expm1(q * near)


def amse_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    c: float = DEFAULT_C,
    dim: int | None = None,
) -> Tensor:
    r"""Compute the asymmetric mean square error, the second term of the joint asymmetric loss JAL-CE.

    .. math:: \ell(f, y) = \frac1k \sum_j (p_j - c\,[j = y])^2, \qquad p = \mathrm{softmax}(f)

    with k classes; [j = y] is 1 if class j is the label y, else 0. The loss lies in [(c - 1)^2 / k, (c^2 + 1) / k] for
    c >= 1. It is not symmetric: its sum over the classes varies by 1 - 1/k. It is not convex in the logits. A class of
    logit -inf is left out of the mean, and k does not count it.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        c: the target value of p_y, in [1, 1e18]; 1 gives the mean square error.
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> amse_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), c=1.0)
        tensor(0.5344)

    Reference: Wang et al., Joint asymmetric loss for learning with noisy labels, 2025.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(lambda f, wanted: _amse(f, wanted, c), input, target, weight, options, dim)


def _amse(logits: Tensor, wanted: Wanted, c: float) -> Tensor:
    log_p = F.log_softmax(logits, wanted.dim)
    _validation.check_number("c", c, 1, 1e18)  # its square is finite in float32
    p, on = log_p.exp(), log_p != -torch.inf
    own = wanted.of(p)
    others = ((p * p).sum(wanted.dim, wanted.keepdim) - own * own).clamp(min=0)
    return -(others + (own - c) ** 2) / on.sum(wanted.dim, wanted.keepdim)


class AGCELoss(ScoredLoss):
    r"""Asymmetric generalized cross-entropy: giving the most probable label probability 1 minimises its expectation.

    .. math:: \ell(f, y) = \frac{(a + 1)^q - (a + p_y)^q}{q}, \qquad p = \mathrm{softmax}(f)

    The loss lies in [0, ((a + 1)^q - a^q) / q]. It is not convex in the logits. Its sum over all classes is constant
    (the loss is symmetric) only at q = 1, where it is MAE (mean absolute error).

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        a: at least 1e-30.
        q: at least 1e-30, and (a + 1)^q at most 1e38.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> AGCELoss(a=0.6, q=0.6)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.6777)

    Reference: Zhou et al., Asymmetric loss functions for learning with noisy labels, 2021.
    """

    function = staticmethod(agce_loss)
    own = ("a", "q")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        a: float = DEFAULT_A,
        q: float = DEFAULT_Q,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.a, self.q = python_number(a), python_number(q)
        self.check()


class AMSELoss(ScoredLoss):
    r"""Asymmetric mean square error: the second term of the joint asymmetric loss JAL-CE.

    .. math:: \ell(f, y) = \frac1k \sum_j (p_j - c\,[j = y])^2, \qquad p = \mathrm{softmax}(f)

    with k classes; [j = y] is 1 if class j is the label y, else 0. The loss lies in [(c - 1)^2 / k, (c^2 + 1) / k]. It
    is neither symmetric (its sum over all classes is not constant) nor convex in the logits.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        c: the target value of p_y, in [1, 1e18]; 1 gives the mean square error.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> AMSELoss(c=1.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.5344)

    Reference: Wang et al., Joint asymmetric loss for learning with noisy labels, 2025.
    """

    function = staticmethod(amse_loss)
    own = ("c",)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        c: float = DEFAULT_C,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.c = python_number(c)
        self.check()


AGCE = NamedLoss(
    "agce",
    AGCELoss,
    "$((a + 1)^q - (a + p_y)^q) / q$",
    order=10,
    bounded=True,
    claims={"symmetric": "at q = 1"},
    source="Zhou et al. 2021",
    presets=Presets(
        {
            "mnist": {"a": 4.0, "q": 0.2},
            "cifar10": {"a": 0.6, "q": 0.6},
            "cifar100": {"a": 0.6, "q": 0.6},
            "webvision": {"a": 1e-5, "q": 0.5},
        }
    ),
)
AMSE = NamedLoss("amse", AMSELoss, r"$\frac1k \sum_j (p_j - c [j = y])^2$", bounded=True)  # not compared alone
_NCE_AGCE = Presets(
    {
        "mnist": {"weights": (0.0, 1.0), "a": 4.0, "q": 0.2},
        "cifar10": {"weights": (1.0, 4.0), "a": 6.0, "q": 1.5},
        "cifar100": {"weights": (10.0, 0.1), "a": 1.8, "q": 3.0},
        "webvision": {"weights": (50.0, 0.1), "a": 2.5, "q": 3.0},
    }
)
# The L1 penalty of JAL-CE is of the network's parameters, not of its logits: it is the trainer's.
_JAL_CE = Presets(
    {
        "cifar10": {"weights": (1.0, 1.0), "c": 30.0},
        "cifar100": {"weights": (5.0, 1.0), "c": 20.0},
        "webvision": {"weights": (50.0, 1.0), "c": 30.0},
    }
)
NAMED = (
    AGCE,
    sum_of("nce+agce", NCE, AGCE, order=11, claims=AGCE.claims, source="Zhou et al. 2021", presets=_NCE_AGCE),
    sum_of(
        "jal-ce",
        NCE,
        AMSE,
        formula=f"NCE + AMSE, AMSE: {AMSE.formula}",
        order=13,
        source="Wang et al. 2025",
        presets=_JAL_CE,
    ),
)
