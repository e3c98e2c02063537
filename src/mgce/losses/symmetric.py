r"""Define symmetric losses, whose sum over all classes is the same for every row of logits.

The mean absolute error (MAE) `1 - softmax(f)_y` is symmetric too: it is :func:`~mgce.functional.gce_loss` at `beta=1`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce.kernels.options import LossOptions, SoftmaxTerms
from mgce.losses.arguments import with_class_dim
from mgce.losses.base import python_number
from mgce.losses.fused import of_softmax
from mgce.losses.modules import CE, MGCE
from mgce.losses.named import NamedLoss, Presets
from mgce.losses.scored import expm1, scored_loss
from mgce.losses.scored_module import ScoredLoss
from mgce.losses.sums import sum_of
from mgce.losses.wanted import Wanted

LARGEST_A = 1e30  # well within the range of float32
DEFAULT_LOG_ZERO = math.log(1e-4)  # with which the published results were computed


def rce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    log_zero: float = DEFAULT_LOG_ZERO,
    dim: int | None = None,
) -> Tensor:
    r"""Compute reverse cross-entropy: the mean absolute error times a number A that replaces -log 0.

    .. math:: \ell(f, y) = -\sum_j p_j \log [j = y] = A (1 - p_y), \qquad p = \mathrm{softmax}(f), \quad A = -\log 0

    where [j = y] is 1 if class j is the label y, else 0. The loss lies in [0, A]. It is symmetric: its sum over the k
    classes is A (k - 1). It is not convex in the logits. Against class probabilities q it is
    :math:`\sum_y q_y \ell(f, y)`, as for every loss of this package, and not :math:`-\sum_j p_j \log q_j`.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        log_zero: -A, the number that replaces log 0, in [-1e30, 0). Papers write -4, but their results were computed
            with log 1e-4 = -9.21, the default.
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the
            error of a wrong `beta`.

    Example:
        >>> rce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), log_zero=-4)
        tensor(2.9242)

    Reference: Wang et al., Symmetric cross entropy for robust learning with noisy labels, 2019.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    terms = _rce_terms(log_zero)
    if terms is not None:
        loss = of_softmax(*with_class_dim(input, target, dim), weight, options, terms)
        if loss is not None:
            return loss
    return scored_loss(lambda f, wanted: _rce(f, wanted, log_zero), input, target, weight, options, dim)


def _rce_terms(log_zero: float) -> SoftmaxTerms | None:
    """Return the numbers of the loss for its kernel; None if `log_zero` has to be checked first."""
    is_checked = type(log_zero) is float and -LARGEST_A <= log_zero < 0
    return SoftmaxTerms(0.0, -log_zero, 1.0) if is_checked else None


def _rce(logits: Tensor, wanted: Wanted, log_zero: float) -> Tensor:
    log_p = wanted.of(F.log_softmax(logits, wanted.dim))
    _validation.check_number("log_zero", log_zero, -LARGEST_A, 0)
    if log_zero == 0:
        raise ValueError(_validation.expected("log_zero", "below 0", log_zero))
    return -log_zero * expm1(log_p)


def unhinged_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    dim: int | None = None,
) -> Tensor:
    r"""Compute the unhinged loss: linear in the logits.

    .. math:: \ell(f, y) = 1 - f_y + \frac1k \sum_j f_j

    The loss is unbounded above and below: minimising it alone drives the logits to infinity. So bound the logits
    (:class:`mgce.LogitClip`) or penalise the weights of the network. It is convex, and symmetric: its sum over the k
    classes is k. No other permutation-invariant and monotone loss is both convex and symmetric (Lemire Paquin and
    Giguère, arXiv 2605.20347). A class of logit -inf is left out of the mean.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point; -inf masks a class.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`.

    Example:
        >>> unhinged_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(1.5000)

    Reference: van Rooyen, Menon and Williamson, Learning with symmetric label noise: the importance of being unhinged,
    2015, whose two classes have the logits (v, -v).
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return scored_loss(_unhinged, input, target, weight, options, dim)


def _unhinged(logits: Tensor, wanted: Wanted) -> Tensor:
    on = logits != -torch.inf
    # From the largest on: what all logits have in common would round their differences away.
    largest = logits.detach().amax(wanted.dim, keepdim=True)
    centred = logits - torch.where(largest.isfinite(), largest, 0)
    mean = torch.where(on, centred, 0).sum(wanted.dim, wanted.keepdim) / on.sum(wanted.dim, wanted.keepdim)
    return wanted.of(centred) - mean - 1


class RCELoss(ScoredLoss):
    r"""Reverse cross-entropy: the mean absolute error times a number A that replaces -log 0.

    .. math:: \ell(f, y) = A (1 - p_y), \qquad p = \mathrm{softmax}(f), \quad A = -\mathrm{log\_zero}

    The loss lies in [0, A]. It is symmetric: its sum over the k classes is A (k - 1). It is not convex in the logits.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        log_zero: -A, the number that replaces log 0, in [-1e30, 0). Papers write -4, but their results were computed
            with log 1e-4.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> RCELoss(log_zero=-4)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(2.9242)

    Reference: Wang et al., Symmetric cross entropy for robust learning with noisy labels, 2019.
    """

    function = staticmethod(rce_loss)
    own = ("log_zero",)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        log_zero: float = DEFAULT_LOG_ZERO,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        self.log_zero = python_number(log_zero)
        self.check()

    def softmax_terms(self) -> SoftmaxTerms | None:
        """Return the numbers of this loss."""
        return _rce_terms(self.log_zero) if type(self) is RCELoss else None


class UnhingedLoss(ScoredLoss):
    r"""The unhinged loss: linear in the logits.

    .. math:: \ell(f, y) = 1 - f_y + \frac1k \sum_j f_j

    The loss is unbounded above and below, so bound the logits (:class:`mgce.LogitClip`) or penalise the weights of the
    network. It is convex, and symmetric: its sum over the k classes is k.

    Args:
        weight, size_average, ignore_index, reduce, reduction, label_smoothing: as for `nn.CrossEntropyLoss`.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above.

    Example:
        >>> UnhingedLoss()(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(1.5000)

    Reference: van Rooyen, Menon and Williamson, Learning with symmetric label noise: the importance of being unhinged,
    2015.
    """

    function = staticmethod(unhinged_loss)


RCE = NamedLoss(
    "rce",
    RCELoss,
    "$A (1 - p_y)$, `log_zero` = -A",
    order=5,
    bounded=True,
    symmetric=True,
    source="Wang et al. 2019",
)
UNHINGED = NamedLoss(
    "unhinged",
    UnhingedLoss,
    r"$1 - f_y + \frac1k \sum_j f_j$",
    order=22,
    symmetric=True,
    convex=True,
    claims={"bounded": "no, nor below"},
    source="van Rooyen et al. 2015",
)
_SCE = Presets(
    {
        "mnist": {"weights": (0.01, 1.0)},
        "cifar10": {"weights": (0.1, 1.0)},
        "cifar100": {"weights": (6.0, 0.1)},
        "webvision": {"weights": (10.0, 1.0)},
    },
    source="Ma et al. 2020",
)
SCE = sum_of("sce", CE, RCE, order=6, claims={"convex": r"if $w_2 A \le w_1$"}, source="Wang et al. 2019", presets=_SCE)
MGCE_RCE = sum_of("mgce+rce", MGCE, RCE, order=26, presets=_SCE)  # SCE with MGCE for its cross-entropy
NAMED = (RCE, UNHINGED, SCE, MGCE_RCE)
