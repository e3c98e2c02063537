r"""The losses as functions: logits and targets in, a loss out, with the semantics of `cross_entropy`.

Each is `nll_loss` of the scores that it puts where cross-entropy has `log_softmax(f)`: MGCE
`f + phi_beta(f)`, GCE `-l_beta(softmax(f), .)`. Weights, ignored rows, smoothing, soft targets and
further dimensions follow from that.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce import _validation
from mgce._validation import expected
from mgce.kernels import dispatch
from mgce.losses.fused import fused_mgce_loss
from mgce.numerics import root
from mgce.numerics.normalizer import solve
from mgce.numerics.root import Beta


def mgce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: Beta = 1.4,
    backend: str = "auto",
) -> Tensor:
    r"""Compute the MGCE margin loss: convex in the logits, robust to label noise.

    .. math::
        \ell_\beta(f, y) = -f_y - \varphi_\beta(f) \ge 0, \qquad
        \frac{\partial \ell_\beta}{\partial f} = p_\beta(f) - e_y

    with :math:`\varphi_\beta` the normalizer and :math:`p_\beta` the worst-case probabilities. It is
    zero once `f_y` exceeds every other logit by `beta`, and never above cross-entropy.
    Every argument but `beta` and `backend` means what it means to
    :func:`torch.nn.functional.cross_entropy`, the error classes are the same, and `beta=inf` is it.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point. -inf masks a
            class. Half types are solved in float32.
        target: class indices, shape (), (N) or (N, d1, ..., dK), int64 or uint8; or class
            probabilities q, the shape of `input`, for the loss :math:`\sum_y q_y \ell_\beta(f, y)`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: an index target that adds nothing to the loss, its mean or the gradient.
        reduction: `"none"`, `"mean"` (weighted by the targets' weights for index targets) or `"sum"`.
        label_smoothing: in [0, 1], how much of the target is spread evenly over the classes.
        beta: in [1, inf]. 1 is the convex minimax MAE, 1.4 the paper's default, inf cross-entropy;
            a tensor gives one beta for each row and broadcasts against the shape of index targets.
        backend: `"auto"` takes the fastest that can run the call. `"cpu"` is a fused kernel, compiled at
            its first call. `"torch"` is plain tensor operations in the dtype of `input`, and
            `"reference"` the same in float64: both work on any device and under every transform.

    Returns:
        A scalar, or the shape of index targets for `reduction="none"`, in the dtype that
        cross-entropy would return. The mean over nothing (an empty batch, or every row ignored) is
        NaN, and a row with NaN gives NaN.

    Raises:
        TypeError: if an argument is not a tensor, or `beta` not a number.
        ValueError: if `beta`, `reduction` or `backend` is not one of those above, or the batch
            sizes differ.
        RuntimeError: if shapes, dtypes, `weight` or `label_smoothing` do not fit, or the backend named
            cannot run this call, with the reason.
        IndexError: if a class index is out of range (on the CPU).

    Example:
        >>> logits = torch.tensor([[0.5, 0.0, 0.25, -1.0], [3.0, 1.5, -2.0, -3.0]])
        >>> mgce_loss(logits, torch.tensor([2, 1]), reduction="none")
        tensor([0.7747, 1.5000])

    Reference: paper, equation (19); Theorem 3 for the gradient.
    """
    _check_arguments(input, target, weight, ignore_index, reduction, label_smoothing, beta)
    chosen = dispatch.choose(backend, input, target, weight, beta)
    options = (ignore_index, reduction, label_smoothing)
    soft = target.shape == input.shape
    if backend == "auto" and not soft and not isinstance(beta, Tensor) and math.isinf(beta):
        return F.cross_entropy(input, target, weight, None, ignore_index, None, reduction, label_smoothing)
    if chosen in dispatch.KERNELS:
        assert not isinstance(beta, Tensor)
        composite = functools.partial(_composite_mgce_loss, beta=beta)
        loss = fused_mgce_loss(input, target, weight, *options, float(beta), composite)
    else:
        rows = input.double() if chosen == "reference" else input
        loss = _composite_mgce_loss(rows, target, weight, *options, beta=beta)
    return loss.to(_result_dtype(input, target, weight))


def _composite_mgce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    *,
    beta: Beta,
) -> Tensor:
    """Compute the loss by plain tensor operations: `nll_loss(f + phi(f))`, what a kernel must equal."""
    x, t, _, _ = solve(input, beta, _class_dim(input))
    scores = (x + t.unsqueeze(-1)).movedim(-1, _class_dim(input))
    return _nll(scores, target, weight, ignore_index, reduction, label_smoothing)


def gce_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: Beta = 1.4,
) -> Tensor:
    r"""Compute generalized cross-entropy: the alpha-loss of softmax, bounded but not convex.

    .. math:: \ell_\beta(\mathrm{softmax}(f), y) = \beta \Big(1 - \mathrm{softmax}(f)_y^{1/\beta}\Big)

    In the notation of Zhang and Sabuncu, `q = 1 / beta`: their default q = 0.7 is beta = 10/7.

    Args:
        input: logits f, shape (C), (N, C) or (N, C, d1, ..., dK), floating point.
        target: class indices or class probabilities, as for :func:`mgce_loss`.
        weight: a rescaling weight for each class, shape (C).
        ignore_index: an index target that adds nothing.
        reduction: `"none"`, `"mean"` or `"sum"`.
        label_smoothing: in [0, 1].
        beta: in [1, inf]. 1 is the non-convex softmax MAE `1 - softmax(f)_y`, inf cross-entropy;
            a tensor gives one beta for each row.

    Returns:
        A scalar, or the shape of index targets for `reduction="none"`.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`.

    Example:
        >>> gce_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), beta=1.0)
        tensor(0.7311)

    Reference: paper, equations (5) and (6).
    """
    _check_arguments(input, target, weight, ignore_index, reduction, label_smoothing, beta)
    half = input.dtype in (torch.float16, torch.bfloat16)
    log_probs = F.log_softmax(input, _class_dim(input), dtype=torch.float32 if half else None)
    if isinstance(beta, Tensor):
        rows = log_probs.movedim(_class_dim(input), -1).shape[:-1]
        beta = _validation.broadcast_beta(beta, rows).to(log_probs.dtype).unsqueeze(_class_dim(input))
        finite = torch.isfinite(beta)
        b = torch.where(finite, beta, 1)
        scores = torch.where(finite, b * _expm1(log_probs / b), log_probs)
    else:
        scores = log_probs if math.isinf(beta) else beta * _expm1(log_probs / beta)
    loss = _nll(scores, target, weight, ignore_index, reduction, label_smoothing)
    return loss.to(_result_dtype(input, target, weight))


def alpha_loss(probs: Tensor, target: Tensor, *, beta: Beta, dim: int = -1, reduction: str = "mean") -> Tensor:
    r"""Compute the alpha-loss of probabilities, `alpha = beta / (beta - 1)`.

    .. math:: \ell_\beta(h, y) = \beta \big(1 - h_y^{1/\beta}\big)

    Of the minimax probabilities it is `min(beta, mgce_loss)`, exactly.

    Args:
        probs: probabilities h, any shape with k classes along `dim`, in [0, 1].
        target: class indices, the shape of `probs` without `dim`, int64 or uint8; or class
            probabilities, the shape of `probs`.
        beta: in [1, inf]; 1 is MAE `1 - h_y` (the error of the randomised rule), inf is `-log h_y`. A tensor
            gives one beta for each row: it broadcasts against the shape of index targets.
        dim: dimension of the classes.
        reduction: `"none"`, `"mean"` or `"sum"`.

    Returns:
        A scalar, or the shape of index targets for `reduction="none"`. The loss of a zero
        probability is beta, and its derivative is -inf for beta > 1.

    Raises:
        TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`.

    Example:
        >>> alpha_loss(torch.tensor([[0.64, 0.36], [1.0, 0.0]]), torch.tensor([1, 1]), beta=2.0, reduction="none")
        tensor([0.8000, 2.0000])

    Reference: paper, equations (3) and (5).
    """
    _validation.check_logits(probs, dim, "probs")
    rows = probs.movedim(dim, -1)
    soft = isinstance(target, Tensor) and target.shape == probs.shape
    _check_arguments(rows, target.movedim(dim, -1) if soft else target, None, -100, reduction, 0.0, beta, class_dim=-1)
    rows_2d = rows.reshape(-1, rows.shape[-1])
    flat = target.movedim(dim, -1).reshape(rows_2d.shape) if soft else target.reshape(-1)
    # The derivative is infinite at zero, and 0 times that NaN: a class outside the target is no part of the graph.
    wanted = flat != 0 if soft else flat.unsqueeze(-1) == torch.arange(rows.shape[-1], device=rows.device)
    h = torch.where(wanted, rows_2d, 1)
    h = h.float() if h.dtype in (torch.float16, torch.bfloat16) else h
    if not isinstance(beta, Tensor):
        beta = float(beta) if beta <= torch.finfo(h.dtype).max else math.inf
        beta = torch.full((), beta, dtype=h.dtype, device=h.device)
    scores = _alpha_scores(h, _validation.broadcast_beta(beta, rows.shape[:-1]).to(h.dtype).reshape(-1, 1))
    loss = _nll(scores, flat, None, -100, reduction, 0.0).to(_result_dtype(rows, flat, None))
    return loss.reshape(rows.shape[:-1]) if reduction == "none" else loss


def _alpha_scores(probs: Tensor, beta: Tensor) -> Tensor:
    """Give `beta (h^(1/beta) - 1)`: where h > 0 by expm1, which keeps the digits of large beta, else by the power.

    The power keeps the infinite derivative at zero, and NaN.
    """
    on = probs > 0
    log_probs = torch.where(on, probs, 1).log()
    finite = ~(beta >= root.LARGEST_BETA)
    b = torch.where(finite, beta, 1)
    inside = torch.where(finite, b * _expm1(log_probs / b), log_probs)
    infinite = beta == torch.inf
    b = torch.where(infinite, 1, beta)
    rest = torch.where(on, 1, probs)
    outside = torch.where(infinite, torch.where(infinite, rest, 1).log(), b * (rest ** (1 / b) - 1))
    return torch.where(on, inside, outside)


def _expm1(exponent: Tensor) -> Tensor:
    """Give exp - 1 with the digits of both the value and the derivative: that of expm1 is `result + 1`."""
    return torch.where(exponent > -1, torch.expm1(exponent), torch.exp(exponent) - 1)


def _class_dim(input: Tensor) -> int:
    return 1 if input.ndim > 1 else 0


def _result_dtype(input: Tensor, target: Tensor, weight: Tensor | None) -> torch.dtype:
    half = input.dtype in (torch.float16, torch.bfloat16)
    if half and torch.is_autocast_enabled(input.device.type):
        return torch.float32
    if not target.is_floating_point():
        return input.dtype
    dtype = torch.promote_types(input.dtype, target.dtype)
    return dtype if weight is None else torch.promote_types(dtype, weight.dtype)


def _nll(
    scores: Tensor,  # (C), (N, C) or (N, C, d1, ..., dK), where cross-entropy has log_softmax
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    if target.shape == scores.shape:
        return _soft_nll(scores, target, weight, reduction, label_smoothing)
    target = target.long()
    if weight is not None:
        weight = weight.to(scores.dtype)
    try:
        nll = F.nll_loss(scores, target, weight, None, ignore_index, None, reduction)
    except IndexError:
        k = scores.shape[_class_dim(scores)]
        wrong = target[((target < 0) | (target >= k)) & (target != ignore_index)]
        raise IndexError(_validation.target_out_of_range(wrong[0].item(), k, ignore_index)) from None
    if label_smoothing == 0:
        return nll
    smooth = _uniform_nll(scores, target, weight, ignore_index, reduction)
    return (1 - label_smoothing) * nll + label_smoothing * smooth


def _uniform_nll(scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """Give the loss against the uniform target, reduced by the weights of the index targets."""
    dim = _class_dim(scores)
    k = scores.shape[dim]
    kept = target != ignore_index
    rows = -(scores if weight is None else scores * _along(weight, scores)).sum(dim) / k
    rows = torch.where(kept.reshape(rows.shape), rows, 0)
    if reduction == "none":
        return rows
    if reduction == "sum":
        return rows.sum()
    if weight is None:
        return rows.sum() / kept.sum()
    return rows.sum() / torch.where(kept, weight[torch.where(kept, target, 0)], 0).sum()


def _soft_nll(scores: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float) -> Tensor:
    k = scores.shape[_class_dim(scores)]
    q = target.to(torch.promote_types(target.dtype, scores.dtype))
    if label_smoothing > 0:
        q = q * (1 - label_smoothing) + label_smoothing / k
    if weight is not None:
        q = q * _along(weight, scores)
    # A masked class that the target gives nothing adds nothing; cross_entropy has 0 * inf = NaN here.
    scores = torch.where((q == 0) & (scores == -torch.inf), 0, scores)
    rows = -(q * scores).sum(_class_dim(scores))
    if reduction == "none":
        return rows
    return rows.sum() if reduction == "sum" else rows.sum() / (scores.numel() / k)


def _along(weight: Tensor, scores: Tensor) -> Tensor:
    return weight.view([-1 if d == _class_dim(scores) else 1 for d in range(scores.ndim)])


def _check_arguments(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    beta: Beta,
    class_dim: int | None = None,
) -> None:
    """Check everything that can be checked without reading a value of the tensors."""
    _validation.check_beta(beta)
    _validation.check_choice("reduction", reduction, _validation.REDUCTIONS)
    _validation.check_label_smoothing(label_smoothing)
    if not isinstance(input, Tensor):
        raise TypeError(expected("input", "a torch.Tensor", type(input).__name__))
    dim = _class_dim(input) if class_dim is None else class_dim
    _validation.check_logits(input, dim, "input")
    if not isinstance(target, Tensor):
        raise TypeError(expected("target", "a torch.Tensor", type(target).__name__))
    if target.shape == input.shape:
        _check_soft_target(target, ignore_index)
    else:
        shape = input.shape
        _check_index_target(shape[:-1] if dim in (-1, len(shape) - 1) else shape[:dim] + shape[dim + 1 :], target)
    if weight is not None:
        _check_weight(weight, input.shape[dim], None if target.shape == input.shape else input)


def _check_soft_target(target: Tensor, ignore_index: int) -> None:
    if not target.is_floating_point():
        what = "floating point, since it has the shape of `input` and so holds class probabilities"
        raise RuntimeError(expected("target", what, target.dtype))
    if ignore_index >= 0:
        raise RuntimeError(expected("ignore_index", "negative where `target` holds class probabilities", ignore_index))


def _check_index_target(rows: torch.Size, target: Tensor) -> None:
    if target.dtype not in (torch.int64, torch.uint8):
        what = "class indices of dtype int64 or uint8, or class probabilities of the shape of `input`"
        raise RuntimeError(expected("target", what, f"{target.dtype} of shape {tuple(target.shape)}"))
    if target.shape == rows or (not rows and target.shape == (1,)):
        return
    sentence = expected("target", f"class indices of shape {tuple(rows)}, to match `input`", tuple(target.shape))
    batches_differ = rows and target.ndim > 0 and target.shape[0] != rows[0]
    raise ValueError(sentence) if batches_differ else RuntimeError(sentence)


def _check_weight(weight: Tensor, k: int, logits: Tensor | None) -> None:
    if weight.shape != (k,):
        raise RuntimeError(expected("weight", f"one number for each of the {k} classes", tuple(weight.shape)))
    if logits is None or logits.dtype == weight.dtype or torch.is_autocast_enabled(logits.device.type):
        return
    raise RuntimeError(expected("weight", f"of the dtype of `input`, {logits.dtype}", weight.dtype))
