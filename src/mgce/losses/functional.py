r"""Define the losses as functions with the arguments and results of `torch.nn.functional.cross_entropy`.

Cross-entropy is `nll_loss` of the scores `log_softmax(f)`. MGCE uses the scores `f + phi_beta(f)`, with phi the
normalizer. GCE uses as the score of a class minus the loss of a row with that label. So class weights, ignored rows,
smoothing, soft targets and further dimensions mean what they mean for cross-entropy.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce._validation import HALF_TYPES, broadcast_beta, check_logits, class_dim
from mgce.kernels import dispatch
from mgce.kernels.options import LossArguments, LossOptions, SoftmaxTerms
from mgce.losses.arguments import (
    check_arguments,
    result_dtype,
    warn_of_many_concrete_labels,
    with_class_dim,
    with_shared_arguments,
)
from mgce.losses.composite import composite_mgce_loss
from mgce.losses.fused import fused_mgce_loss, loss_of_rows, of_softmax
from mgce.losses.scored import Wanted, expm1, nll
from mgce.numerics import root
from mgce.numerics.root import DEFAULT_BETA, DEFAULT_GCE_BETA, Beta


def mgce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: Beta = DEFAULT_BETA,
    backend: str = "auto",
    dim: int | None = None,
) -> Tensor:
    r"""Compute MGCE (minimax generalized cross-entropy): a loss convex in the logits and robust to label noise.

    .. math::
        \ell_\beta(f, y) = -f_y - \varphi_\beta(f) \ge 0, \qquad
        \frac{\partial \ell_\beta}{\partial f} = p_\beta(f) - e_y

    with :math:`\varphi_\beta` the normalizer (:func:`normalizer`), :math:`p_\beta` the worst-case probabilities
    (:func:`worst_case_probs`) and :math:`e_y` the one-hot vector of the label. The loss is zero once `f_y` exceeds
    every other logit by `beta`. It is never above cross-entropy, which it equals at `beta=inf`. All arguments except
    `beta`, `backend` and `dim` mean what they mean in :func:`torch.nn.functional.cross_entropy`, and wrong ones raise
    the same classes of errors.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point. -inf masks a
            class. Half types are solved in float32.
        target: class indices, shape (), (N) or (N, d1, ..., dK), int64 or uint8; or class
            probabilities q, the shape of `input`, for the loss :math:`\sum_y q_y \ell_\beta(f, y)`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: a class index; rows with this target add nothing to the loss, its mean or the gradient.
        reduction: `"none"`, `"mean"` (weighted by the targets' weights for index targets) or `"sum"`.
        label_smoothing: in [0, 1], how much of the target is spread evenly over the classes.
        beta: in [1, inf]. 1 gives the convex minimax MAE (mean absolute error), 1.4 is the paper's default, inf gives
            cross-entropy. A tensor gives one beta for each row; it broadcasts against the shape of index targets.
        backend: `"auto"` uses the fastest backend that can run the call. `"cpu"` is a fused kernel, compiled when the
            package is built; it has no forward-mode derivative, and raises if you ask for one. `"torch"` uses plain
            tensor operations in the dtype of `input`, and `"reference"` the same operations in float64. Both work on
            any device and under every transform of `torch.func`.
        dim: dimension of the classes in `input` and in class probabilities; None means 1, or 0 for a single row. Use
            `dim=-1` for logits of shape (N, d1, ..., dK, C).

    Returns:
        A scalar, or for `reduction="none"` a tensor of the shape of index targets, in the dtype that cross-entropy
        would return. The mean over nothing (an empty batch, or every row ignored) is NaN. A row that contains NaN has
        the loss NaN.

    Raises:
        TypeError: if `input` or `target` is not a tensor, or `beta` is not a number.
        ValueError: if `beta`, `reduction` or `backend` has a value not allowed above, or the batch sizes differ.
        RuntimeError: if shapes, dtypes, `weight` or `label_smoothing` do not fit, or if the chosen backend cannot run
            this call; the message gives the reason.
        IndexError: if a class index is out of range (on the CPU).

    Example:
        >>> logits = torch.tensor([[0.5, 0.0, 0.25, -1.0], [3.0, 1.5, -2.0, -3.0]])
        >>> mgce_loss(logits, torch.tensor([2, 1]), reduction="none")
        tensor([0.7747, 1.5000])

    Reference: paper, equation (19); Theorem 3 for the gradient.
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    if dim is not None:
        input, target = with_class_dim(input, target, dim)
    if (
        backend in ("auto", "cpu")
        and type(beta) is float
        and 1 <= beta < root.LARGEST_BETA
        and dispatch.is_commonest(input, target, weight, options)
    ):
        if target.ndim == 2:
            warn_of_many_concrete_labels(target, 1)
        return loss_of_rows(input, LossArguments(target, weight, options, beta))
    beta = check_arguments(input, target, weight, options, beta)
    options = options.numbers()
    chosen = dispatch.choose(backend, input, target, weight, beta)
    soft = target.shape == input.shape
    if chosen in dispatch.KERNELS:
        assert not isinstance(beta, Tensor)
        loss = fused_mgce_loss(input, target, weight, options, beta)
    elif backend == "auto" and not isinstance(beta, Tensor) and beta >= root.LARGEST_BETA:
        if not soft:
            return F.cross_entropy(input, target.long(), weight, None, ignore_index, None, reduction, label_smoothing)
        # cross_entropy has 0 * inf = NaN for a masked class that the target gives nothing.
        scores = F.log_softmax(input.float() if input.dtype in HALF_TYPES else input, class_dim(input))
        loss = nll(scores, target, weight, options)
    else:
        rows = input.double() if chosen == "reference" else input
        loss = composite_mgce_loss(rows, target, weight, options, beta)
    dtype = result_dtype(input, target, weight)
    return loss if loss.dtype == dtype else loss.to(dtype)  # to ask first takes a tenth of the time


@with_shared_arguments
def gce_loss(  # noqa: D417 - the others are described where they are composed
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: Beta = DEFAULT_GCE_BETA,
    dim: int | None = None,
) -> Tensor:
    r"""Compute generalized cross-entropy, a bounded but not convex loss of softmax probabilities.

    .. math:: \ell_\beta(\mathrm{softmax}(f), y) = \beta \Big(1 - \mathrm{softmax}(f)_y^{1/\beta}\Big)

    In the notation of Zhang and Sabuncu, `q = 1 / beta`: the default, beta = 10/7, is their q = 0.7.

    Args:
        <the arguments of cross-entropy>
        beta: in [1, inf]. 1 gives the non-convex softmax MAE (mean absolute error) `1 - softmax(f)_y`, inf gives
            cross-entropy. A tensor gives one beta for each row.
        dim: dimension of the classes, as for :func:`mgce_loss`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`.

    Example:
        >>> gce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), beta=1.0)
        tensor(0.7311)

    Reference: paper, equations (5) and (6).
    """
    options = LossOptions(ignore_index, reduction, label_smoothing)
    if dim is not None:
        input, target = with_class_dim(input, target, dim)
    terms = gce_terms(beta)
    loss = None if terms is None else of_softmax(input, target, weight, options, terms)
    if loss is not None:
        return loss
    beta = check_arguments(input, target, weight, options, beta)
    half, dim = input.dtype in HALF_TYPES, class_dim(input)
    log_probs = F.log_softmax(input, dim, dtype=torch.float32 if half else None)
    dtype = result_dtype(input, target, weight)
    if not isinstance(beta, Tensor) and beta >= root.LARGEST_BETA:
        return nll(log_probs, target, weight, options).to(dtype)
    wanted = Wanted.by(input, target, options)
    log_probs = wanted.of(log_probs)
    if isinstance(beta, Tensor):
        rows = input.movedim(dim, -1).shape[:-1]
        beta = broadcast_beta(beta, rows).to(log_probs.dtype)
        beta = beta.unsqueeze(dim) if wanted.keepdim else beta
        scores = _of_logs(log_probs, beta)
    else:
        scores = beta * expm1(log_probs / beta)
    return wanted.loss(scores, target, weight, options).to(dtype)


def gce_terms(beta: Beta) -> SoftmaxTerms | None:
    """Return the `SoftmaxTerms` of GCE for the kernel; None if beta is not a float for which the kernel can run."""
    if type(beta) is float and beta == math.inf:
        return SoftmaxTerms(1.0, 0.0, 1.0)
    return SoftmaxTerms(0.0, 1.0, beta) if type(beta) is float and 1 <= beta < root.LARGEST_BETA else None


def alpha_loss(probs: Tensor, target: Tensor, *, beta: Beta, dim: int | None = None, reduction: str = "mean") -> Tensor:
    r"""Compute the alpha-loss of predicted probabilities h, with `alpha = beta / (beta - 1)`.

    .. math:: \ell_\beta(h, y) = \beta \big(1 - h_y^{1/\beta}\big)

    If h are the minimax probabilities of logits, the alpha-loss equals `min(beta, mgce_loss)` of these logits.

    Args:
        probs: probabilities h, any shape with k classes along `dim`, in [0, 1].
        target: class indices, the shape of `probs` without `dim`, int64 or uint8; or class
            probabilities, the shape of `probs`.
        beta: in [1, inf]. 1 gives MAE `1 - h_y`, the error of a classifier that draws its prediction from h. inf gives
            `-log h_y`. A tensor gives one beta for each row; it broadcasts against the shape of index targets.
        dim: dimension of the classes; None means 1, or 0 for a single row.
        reduction: `"none"`, `"mean"` or `"sum"`.

    Returns:
        A scalar; for `reduction="none"` a tensor of the shape of index targets. The loss of a zero
        probability is beta, and its derivative is -inf for beta > 1.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`.

    Example:
        >>> alpha_loss(torch.tensor([[0.64, 0.36], [1.0, 0.0]]), torch.tensor([1, 1]), beta=2.0, reduction="none")
        tensor([0.8000, 2.0000])

    Reference: paper, equations (3) and (5).
    """
    dim = check_logits(probs, dim, "probs")
    rows = probs.movedim(dim, -1)
    soft = isinstance(target, Tensor) and target.shape == probs.shape
    options = LossOptions(reduction=reduction)
    beta = check_arguments(rows, target.movedim(dim, -1) if soft else target, None, options, beta, dim=-1)
    rows_2d = rows.reshape(-1, rows.shape[-1])
    flat = target.movedim(dim, -1).reshape(rows_2d.shape) if soft else target.reshape(-1)
    # The derivative is infinite at zero, and 0 times that NaN: a class outside the target is no part of the graph.
    wanted = flat != 0 if soft else flat.unsqueeze(-1) == torch.arange(rows.shape[-1], device=rows.device)
    h = torch.where(wanted, rows_2d, 1)
    h = h.float() if h.dtype in HALF_TYPES else h
    if not isinstance(beta, Tensor):
        beta = torch.full((), beta if beta <= torch.finfo(h.dtype).max else math.inf, dtype=h.dtype, device=h.device)
    scores = _alpha_scores(h, broadcast_beta(beta, rows.shape[:-1]).to(h.dtype).reshape(-1, 1))
    loss = nll(scores, flat, None, options).to(result_dtype(rows, flat, None))
    return loss.reshape(rows.shape[:-1]) if reduction == "none" else loss


def _alpha_scores(probs: Tensor, beta: Tensor) -> Tensor:
    """Return `beta (h^(1/beta) - 1)`, minus the alpha-loss of each class, for its probability h.

    Where h > 0 the result is computed by expm1, which stays accurate for large beta. Elsewhere the result is computed
    by the power, which keeps the infinite derivative at zero, and NaN.
    """
    on = probs > 0
    log_probs = torch.where(on, probs, 1).log()
    inside = _of_logs(log_probs, beta)
    infinite = beta == torch.inf
    b = torch.where(infinite, 1, beta)
    rest = torch.where(on, 1, probs)
    outside = torch.where(infinite, torch.where(infinite, rest, 1).log(), b * (rest ** (1 / b) - 1))
    return torch.where(on, inside, outside)


def _of_logs(log_probs: Tensor, beta: Tensor) -> Tensor:
    """Return `beta (h^(1/beta) - 1)` for log h; log h itself where beta counts as infinite."""
    finite = ~(beta >= root.LARGEST_BETA)
    b = torch.where(finite, beta, 1)
    return torch.where(finite, b * expm1(log_probs / b), log_probs)
