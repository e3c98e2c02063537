"""Define MGCE and GCE as modules, which store the hyperparameters and call the loss functions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from mgce._messages import check_choice, check_count, expected
from mgce.kernels import dispatch
from mgce.kernels.options import SoftmaxTerms
from mgce.link.probs import minimax_probs, minimax_to_worst_case, worst_case_probs
from mgce.losses import functional
from mgce.losses.arguments import with_shared_arguments
from mgce.losses.base import RobustLoss, WithBeta, python_number, show, store_beta
from mgce.losses.linear import linear_mgce_loss
from mgce.losses.records import NamedLoss, Presets
from mgce.numerics.root import DEFAULT_BETA, DEFAULT_GCE_BETA, Beta

OUTPUTS = ("minimax", "worst_case")


class MinimaxLink(WithBeta):
    r"""Turn logits into the probabilities of MGCE; it is to MGCE what `nn.Softmax` is to cross-entropy.

    .. math::
        h_y = \Big(\frac{f_y + \varphi_\beta(f)}{\beta} + 1\Big)_+^{\beta}
        \qquad\text{or}\qquad
        p_y = h_y^{1 - 1/\beta} \Big/ \sum_j h_j^{1 - 1/\beta}

    with f the logits and phi the number that makes h sum to one (:func:`mgce.functional.normalizer`).

    Args:
        beta: the beta of the loss that the model was trained with, in [1, inf]. A tensor gives one beta for each row;
            a parameter is learnt, see :class:`mgce.MGCELoss`.
        dim: dimension of the classes; None means 1, or 0 for a single row.
        output: `"minimax"` returns h, with which the paper's classifier predicts; `"worst_case"` returns p, the
            calibrated probabilities.

    Raises:
        TypeError, ValueError: if `beta` or `output` is not one of those above.

    Example:
        >>> MinimaxLink(beta=2.0)(torch.tensor([[0.4, 0.0]]))
        tensor([[0.6400, 0.3600]])
        >>> MinimaxLink(beta=2.0, output="worst_case")(torch.tensor([[0.4, 0.0]]))
        tensor([[0.5714, 0.4286]])

    Reference: paper, equations (14) and (15).
    """

    def __init__(self, beta: Beta = DEFAULT_BETA, dim: int | None = None, output: str = "minimax") -> None:
        super().__init__()
        check_choice("output", output, OUTPUTS)
        store_beta(self, beta)
        self.dim = python_number(dim)
        self.output = output

    def forward(self, logits: Tensor) -> Tensor:
        """Map logits to probabilities of the same shape."""
        probs = minimax_probs if self.output == "minimax" else worst_case_probs
        return probs(logits, beta=self.beta, dim=self.dim)

    def both(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return both the minimax probabilities h and the worst-case probabilities p, whatever `output` is."""
        beta, dim = self.beta, self.dim
        return minimax_probs(logits, beta=beta, dim=dim), worst_case_probs(logits, beta=beta, dim=dim)

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"beta={show(self.beta)}, dim={self.dim}, output={self.output!r}"


@with_shared_arguments
class MGCELoss(RobustLoss):
    r"""MGCE (minimax generalized cross-entropy), a robust loss to use in place of `nn.CrossEntropyLoss`.

    .. math:: \ell_\beta(f, y) = -f_y - \varphi_\beta(f)

    with f the logits, y the label and phi the normalizer (:func:`mgce.functional.normalizer`). See
    :func:`mgce.functional.mgce_loss` for the shapes, dtypes and reductions. Use `loss.link`, not softmax, to turn the
    logits into probabilities; only at beta = inf is `loss.link` softmax.

    Args:
        <the arguments of cross-entropy>
        beta: in [1, inf]. 1 gives the convex minimax MAE (mean absolute error), inf gives cross-entropy. A tensor
            gives one beta for each row. A parameter is learnt and stays in range: if it falls below 1, `loss.beta` and
            `loss.link` use `2 - beta`. The loss grows with beta, so minimising it drives beta to 1. Learn beta by
            another objective, such as :func:`mgce.functional.alpha_loss` of `loss.link(logits)` on validation rows.
        backend: see :func:`mgce.functional.mgce_loss`.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if a hyperparameter has a type or a value not allowed above.

    Example:
        >>> criterion = MGCELoss(beta=1.4)
        >>> logits = torch.tensor([[0.5, 0.0, 0.25, -1.0]], requires_grad=True)
        >>> criterion(logits, torch.tensor([2])).backward()
        >>> logits.grad
        tensor([[ 0.3866,  0.2755, -0.6621,  0.0000]])
        >>> criterion.link(logits.detach())
        tensor([[0.5181, 0.1583, 0.3235, 0.0000]])

    Reference: paper, equation (19).
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        beta: Beta = DEFAULT_BETA,
        backend: str = "auto",
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, beta=beta, dim=dim)
        check_choice("backend", backend, dispatch.BACKENDS)
        self.backend = backend

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against class indices or class probabilities."""
        return functional.mgce_loss(input, target, *self._options, beta=self.beta, backend=self.backend, dim=self.dim)

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits into h, the probabilities to predict with, by this `beta` and `dim`."""
        return MinimaxLink(beta=self.raw_beta, dim=self.dim)

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return two kinds of probabilities of logits: minimax h to predict with, and calibrated worst-case p."""
        return self.link.both(logits)


class LinearMGCELoss(RobustLoss):
    r"""A linear head and its MGCE loss in one module, to use in place of `nn.LinearCrossEntropyLoss`.

    .. math:: \ell_\beta(W x + b, y)

    with W and b the weight and the bias of the head, x the features and y the label. See
    :func:`mgce.functional.linear_mgce_loss` for the shapes, dtypes and memory. The linear head is `loss.linear`. To
    predict, compute `loss.link(loss.linear(input))`.

    Args:
        in_features: number d of features of a row.
        num_classes: number k of classes.
        bias: whether the head has a bias; by default it has none, as in `nn.LinearCrossEntropyLoss`.
        device: the device of the head.
        dtype: the dtype of the head.
        reduction: `"none"`, `"mean"` or `"sum"`.
        weight: a rescaling weight for each class, shape (k); a buffer.
        ignore_index: a class index; rows with this target add nothing to the loss. None stands for -100.
        label_smoothing: in [0, 1].
        beta: in [1, inf]. A tensor gives one beta for each row.
        backend: see :func:`mgce.functional.mgce_loss`.
        chunk_rows: see :func:`mgce.functional.linear_mgce_loss`.

    Raises:
        TypeError, ValueError, RuntimeError: if a hyperparameter has a type or a value not allowed above.

    Example:
        >>> criterion = LinearMGCELoss(2, 4, beta=1.4)
        >>> with torch.no_grad():
        ...     _ = criterion.linear.weight.copy_(torch.tensor([[0.5, 3.0], [0.0, 1.5], [0.25, -2.0], [-1.0, -3.0]]))
        >>> criterion(torch.eye(2), torch.tensor([2, 1])).item()
        1.1373...

    Reference: paper, equation (19).
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        bias: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = -100,
        label_smoothing: float = 0.0,
        beta: Beta = DEFAULT_BETA,
        backend: str = "auto",
        chunk_rows: int | None = None,
    ) -> None:
        ignored = -100 if ignore_index is None else ignore_index
        super().__init__(weight, None, ignored, None, reduction, label_smoothing, beta=beta)
        check_choice("backend", backend, dispatch.BACKENDS)
        if chunk_rows is not None:
            check_count("chunk_rows", chunk_rows)
        if weight is not None and weight.shape != (num_classes,):
            sentence = expected("weight", f"one number for each of the {num_classes} classes", tuple(weight.shape))
            raise RuntimeError(sentence)
        self.linear = nn.Linear(in_features, num_classes, bias=bias, device=device, dtype=dtype)
        self.backend = backend
        self.chunk_rows = chunk_rows

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of rows of features against class indices or class probabilities."""
        return linear_mgce_loss(
            input,
            self.linear.weight,
            target,
            self.linear.bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            beta=self.beta,
            backend=self.backend,
            chunk_rows=self.chunk_rows,
        )

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits with the classes in the last dimension into minimax probabilities."""
        return MinimaxLink(beta=self.raw_beta, dim=-1)

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return two kinds of probabilities of logits: minimax h to predict with, and calibrated worst-case p."""
        return self.link.both(logits)


@with_shared_arguments
class GCELoss(RobustLoss):
    r"""Generalized cross-entropy, a bounded but not convex loss of softmax probabilities.

    .. math:: \ell_\beta(f, y) = \beta \Big(1 - \mathrm{softmax}(f)_y^{1/\beta}\Big)

    See :func:`mgce.functional.gce_loss` for the shapes, dtypes and reductions.

    Args:
        <the arguments of cross-entropy>
        beta: in [1, inf]. 1 gives the softmax MAE (mean absolute error), inf gives cross-entropy. In the notation of
            Zhang and Sabuncu it is `1 / q`; the default is their q = 0.7. A tensor gives one beta for each row; a
            parameter is learnt, see :class:`mgce.MGCELoss`.
        dim: dimension of the classes; None means 1, or 0 for a single row.

    Raises:
        TypeError, ValueError, RuntimeError: if a hyperparameter has a type or a value not allowed above.

    Example:
        >>> GCELoss(beta=1.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(0.7311)

    Reference: paper, equations (5) and (6).
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        beta: Beta = DEFAULT_GCE_BETA,
        dim: int | None = None,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, beta=beta, dim=dim)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against class indices or class probabilities."""
        return functional.gce_loss(input, target, *self._options, beta=self.beta, dim=self.dim)

    def softmax_terms(self) -> SoftmaxTerms | None:
        """Return the `SoftmaxTerms` of this loss; None if beta is not one number."""
        return functional.gce_terms(self.beta) if type(self) is GCELoss else None

    @property
    def link(self) -> MinimaxLink:
        """The module that turns logits into probabilities: softmax, at every beta."""
        return MinimaxLink(beta=float("inf"), dim=self.dim)

    def both_probs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and p: h is the softmax of the logits, p the worst-case probabilities computed from h and beta."""
        h = self.link(logits)
        return h, minimax_to_worst_case(h, beta=self.beta, dim=self.dim)


# GCE at its two ends; its cross-entropy is computed in float32 for half types.
CE = NamedLoss("ce", GCELoss, r"$-\log p_y$", fixed={"beta": math.inf}, convex=True, source="", recommended=True)
MAE = NamedLoss(
    "mae", GCELoss, "$1 - p_y$", fixed={"beta": 1.0}, bounded=True, symmetric=True, source="Ghosh et al. 2017"
)
GCE = NamedLoss(
    "gce",
    GCELoss,
    r"$\beta (1 - p_y^{1/\beta})$, `beta` = 1 / q",
    bounded=True,
    claims={"bounded": "if beta < inf", "symmetric": "at beta = 1", "convex": "at beta = inf"},
    source="Zhang, Sabuncu 2018",
    presets=Presets({"clothing1m": {"beta": 1 / 0.6}}, source="Ma et al. 2020"),
    recommended=True,
)
MGCE = NamedLoss(
    "mgce",
    MGCELoss,
    r"$-f_y - \varphi_\beta(f)$",
    convex=True,
    source="the paper",
    recommended=True,
)
NAMED = (CE, MAE, GCE, MGCE)
