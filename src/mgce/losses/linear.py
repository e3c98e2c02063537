"""Compute the MGCE loss of a linear head a chunk of rows at a time, as one operator: full logits are never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from mgce._messages import check_count, expected
from mgce._validation import broadcast_beta, check_floating
from mgce.kernels import dispatch
from mgce.kernels.options import LossOptions
from mgce.losses.arguments import check_device, check_options, check_targets, result_dtype
from mgce.losses.composite import composite_mgce_loss
from mgce.losses.functional import mgce_loss
from mgce.losses.fused import number_of, operands_of
from mgce.losses.linear_chunks import ChunkOptions, HeadBatch, LinearLoss, Unfused, loss_and_gradients
from mgce.numerics.root import DEFAULT_BETA, Beta


@torch.library.custom_op("mgce::linear_loss_and_gradients", mutates_args=())
def linear_loss_and_gradients(
    input: Tensor,
    linear_weight: Tensor,
    linear_bias: Tensor | None,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    beta: float,
    symbol: Tensor | None,
    rows: int,
    backend: str,
    wanted: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the reduced loss and its gradients for the first three arguments; an unwanted gradient is empty."""
    beta = number_of(beta, symbol)
    chosen = dispatch.choose(backend, input, target, weight, beta, classes=len(linear_weight))  # now a plain call
    options = ChunkOptions(LossOptions(ignore_index, reduction, label_smoothing), beta, rows, chosen)
    batch = HeadBatch(input, linear_weight, linear_bias, target, weight)
    loss, gradients = loss_and_gradients(batch, options, tuple(wanted))
    grad_input, grad_weight, grad_bias = (input.new_empty(0) if grad is None else grad for grad in gradients)
    return loss, grad_input, grad_weight, grad_bias


@linear_loss_and_gradients.register_fake
def _(
    input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, target: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(input.dtype, torch.float32)
    if target.is_floating_point():
        dtype = torch.promote_types(dtype, target.dtype)
    tensors = input, linear_weight, linear_bias
    grads = [
        tensor.new_empty(tensor.shape, dtype=dispatch.gradient_dtype(tensor))
        if tensor is not None and want
        else input.new_empty(0)
        for tensor, want in zip(tensors, others[-1], strict=True)
    ]
    return input.new_empty((), dtype=dtype), grads[0], grads[1], grads[2]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *others, ctx.beta, symbol, _, _, ctx.wanted = inputs
    ctx.options = LossOptions(*others[5:])
    ctx.save_for_backward(*others[:5], symbol, *output[1:])


def _scale(ctx: Any, grad_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, target, weight, symbol = ctx.saved_tensors[:6]
    if torch.is_grad_enabled():  # create_graph=True
        loss = composite_mgce_loss(F.linear(*tensors), target, weight, ctx.options, number_of(ctx.beta, symbol))
        sources = [tensor for tensor, want in zip(tensors, ctx.wanted, strict=True) if want]
        found = iter(torch.autograd.grad(loss, sources, grad_loss.to(loss.dtype), create_graph=True))
        return *(next(found) if want else None for want in ctx.wanted), *(None,) * 10
    grads = zip(ctx.saved_tensors[6:], ctx.wanted, strict=True)
    return *(_times(grad, grad_loss) if want else None for grad, want in grads), *(None,) * 10


def _times(grad: Tensor, grad_loss: Tensor) -> Tensor:
    """Multiply two tensors in the wider of their dtypes, since a loss scale of 65,536 is infinite in float16."""
    dtype = torch.promote_types(grad.dtype, grad_loss.dtype)
    return (grad.to(dtype) * grad_loss.to(dtype)).to(grad.dtype)


linear_loss_and_gradients.register_autograd(_scale, setup_context=_save)


def linear_mgce_loss(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None = None,
    *,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = -100,
    label_smoothing: float = 0.0,
    beta: Beta = DEFAULT_BETA,
    backend: str = "auto",
    chunk_rows: int | None = None,
) -> Tensor:
    r"""Compute the MGCE loss of the logits of a linear head without storing all logits at once.

    .. math:: \ell_\beta(W x + b, y), \qquad \frac{\partial \ell_\beta}{\partial x} = W^\top (p - e_y), \quad
              \frac{\partial \ell_\beta}{\partial W} = (p - e_y)\, x^\top

    with p the worst-case probabilities of the logits W x + b, and e_y the one-hot vector of the label.

    The value and the gradients equal those of `mgce_loss(linear(input, linear_weight, linear_bias), target, ...)`. The
    arguments are those of :func:`torch.nn.functional.linear_cross_entropy`. The forward pass computes the logits and
    the gradients of one chunk of rows after another, in the same memory. For `reduction="none"` the backward pass
    computes the logits again. A class that has probability 0 in all rows of a chunk, and is the label of no row, has
    the gradient 0. On the CPU such classes are skipped if they are the majority.

    Besides the result and the gradients, a call needs memory for two chunks of logits with `backend="cpu"`, and for
    about eight with `"torch"`. It needs memory for all logits in these cases: `torch.func`, forward-mode or second
    derivatives, a tensor `beta`, a derivative with respect to `target` or `weight`, `backend="reference"`, and
    `reduction="none"` in `torch.compile`.

    For bfloat16 inputs on a GPU the logits are computed twice: in chunks of rows, then in blocks of classes. So the
    gradient for `linear_weight` is written once, from sums in float32, and there is no float32 tensor of its size.

    For float16 inputs the gradients are computed and kept in float32 until the backward pass. There they are multiplied
    by the incoming gradient, which holds the loss scale of mixed precision, before they are rounded to float16. So the
    gradients take twice the memory, and each chunk makes a float32 copy of `linear_weight`.

    Args:
        input: rows x of d features, shape (d), (N, d) or (..., d), floating point.
        linear_weight: W, shape (k, d) for k classes, the dtype of `input`.
        target: class indices, int64 or uint8, of the shape of `input` without its last dimension; or class
            probabilities, of the shape of `input` with k as the last dimension.
        linear_bias: b, shape (k).
        weight: a rescaling weight for each class, shape (k).
        reduction: `"none"`, `"mean"` or `"sum"`.
        ignore_index: a class index; rows with this target add nothing to the loss. None stands for -100. On the CPU no
            logits are computed for these rows.
        label_smoothing: in [0, 1].
        beta: in [1, inf]; a tensor gives one beta for each row.
        backend: see :func:`mgce_loss`.
        chunk_rows: number of rows in a chunk. By default the logits of a chunk have an eighth of the size of
            `linear_weight`; on a GPU a quarter in bfloat16, and half in other dtypes. A chunk has at least 32 rows and
            131072 logits.

    Returns:
        A scalar, or for `reduction="none"` a tensor of the shape of index targets, in the dtype that `mgce_loss`
        would return. For half types the logits are rounded to that type, the loss is computed in float32, and the
        gradients in `linear_weight` and `linear_bias` are summed in float32.

    Raises:
        TypeError: if an argument is not a tensor, or `beta` or `chunk_rows` not a number.
        ValueError: if `beta`, `reduction`, `backend` or `chunk_rows` is not one of those above, or the batch sizes
            differ.
        RuntimeError: if shapes, dtypes, `weight` or `label_smoothing` do not fit, or the backend named cannot run
            this call, with the reason.
        IndexError: if a class index is out of range (on the CPU).

    Example:
        >>> head = torch.tensor([[0.5, 3.0], [0.0, 1.5], [0.25, -2.0], [-1.0, -3.0]])
        >>> linear_mgce_loss(torch.eye(2), head, torch.tensor([2, 1]), reduction="none")
        tensor([0.7747, 1.5000])

    Reference: paper, equation (19); Theorem 3 for the gradient.
    """
    options = LossOptions(-100 if ignore_index is None else ignore_index, reduction, label_smoothing)
    beta, options = check_options(options, beta), options.numbers()
    if chunk_rows is not None:
        check_count("chunk_rows", chunk_rows)
    _check_head(input, linear_weight, linear_bias)
    batch, (k, d) = input.shape[:-1], linear_weight.shape
    check_targets(input, target, weight, (*batch, k), -1, options.ignore_index)
    soft = target.shape == (*batch, k)
    rows = _in_autocast_dtype(input.reshape(batch.numel(), d))
    linear_weight = _in_autocast_dtype(linear_weight)
    linear_bias = None if linear_bias is None else _in_autocast_dtype(linear_bias)
    labels = target.reshape(-1, k) if soft else target.reshape(-1).long()
    if isinstance(beta, Tensor):
        beta = broadcast_beta(beta, batch).reshape(-1)
    chosen = dispatch.choose(backend, rows, labels, weight, beta, classes=k)

    def unfused(
        rows: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, labels: Tensor, weight: Tensor | None
    ) -> Tensor:
        logits = F.linear(rows, linear_weight, linear_bias)
        return mgce_loss(logits, labels, weight, *options, beta=beta, backend=backend)

    tensors = HeadBatch(rows, linear_weight, linear_bias, labels, weight)
    if backend == "reference":
        loss = unfused(*(t if t is None or t is labels else t.double() for t in tensors))  # type: ignore[arg-type]
    elif isinstance(beta, Tensor) or _wants_all_logits(tensors, reduction):
        loss = unfused(*tensors)
    else:
        # d/8 rows of k logits are an eighth of the d k weights. A GPU takes longer for products of so few rows, and in
        # one pass adds to all weights for each chunk; a quarter in two passes takes as long as half. A product of fewer
        # than 32 rows makes poor use of a processor, and 2^17 logits, half a MiB in float32, are so little that smaller
        # chunks would save nothing.
        share = 8 if rows.is_cpu else 4 if rows.dtype == torch.bfloat16 else 2
        size = chunk_rows or max(32, d // share, 2**17 // k)
        loss = _loss_by_chunks(tensors, ChunkOptions(options, beta, size, chosen), unfused, backend)
    return loss.to(result_dtype(rows, target, weight)).reshape(batch if reduction == "none" else ())


def _loss_by_chunks(tensors: HeadBatch, options: ChunkOptions, unfused: Unfused, backend: str) -> Tensor:
    loss: Tensor
    if dispatch.is_traced():
        wanted = [torch.is_grad_enabled() and t is not None and t.requires_grad for t in tensors[:3]]
        beta = operands_of(options.beta)
        loss = linear_loss_and_gradients(*tensors, *options.loss, *beta, options.rows, backend, wanted)[0]
    elif torch.is_grad_enabled():
        loss = LinearLoss.apply(*tensors, options, unfused)  # type: ignore[no-untyped-call]
    else:
        loss, _ = loss_and_gradients(tensors, options)
    return loss


def _wants_all_logits(tensors: HeadBatch, reduction: str) -> bool:
    """Return whether all logits must be computed at once, since chunks of rows do not support the call.

    That is so for an empty input, on the device `meta`, in `torch.func`, `torch.jit` and forward mode, and for tensor
    subclasses. It is so for a derivative in `target` or `weight`, and for the reduction "none" in a compiled graph.
    """
    if tensors.input.numel() == 0 or tensors.input.is_meta or torch._C._are_functorch_transforms_active():
        return True
    if any(tensor is not None and tensor.requires_grad for tensor in (tensors.target, tensors.weight)):
        return True
    if dispatch.is_traced():
        return reduction == "none"
    if torch._C._get_tracing_state() is not None:
        return True
    there = [tensor for tensor in tensors if tensor is not None]
    if any(type(tensor) not in dispatch.PLAIN_TYPES for tensor in there):
        return True
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in there)  # type: ignore[no-untyped-call]


def _in_autocast_dtype(tensor: Tensor) -> Tensor:
    """Return the tensor in the dtype to which autocast casts the arguments of a matrix product."""
    device = tensor.device.type
    if tensor.dtype == torch.float64 or tensor.is_meta or not torch.is_autocast_enabled(device):
        return tensor
    return tensor.to(torch.get_autocast_dtype(device))


def _check_head(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    tensors = {"input": input, "linear_weight": linear_weight}
    if linear_bias is not None:
        tensors["linear_bias"] = linear_bias
    for name, tensor in tensors.items():
        check_floating(tensor, name)
    if input.ndim == 0:
        raise RuntimeError(expected("input", "a tensor with a dimension of features", "a scalar"))
    if linear_weight.ndim != 2 or len(linear_weight) == 0 or linear_weight.shape[1] != input.shape[-1]:
        what = f"of shape (k, {input.shape[-1]}), k >= 1, to match the features of `input`"
        raise RuntimeError(expected("linear_weight", what, tuple(linear_weight.shape)))
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:1]:
        what = f"of shape {tuple(linear_weight.shape[:1])}, to match `linear_weight`"
        raise RuntimeError(expected("linear_bias", what, tuple(linear_bias.shape)))
    for name, tensor in tensors.items():
        check_device(name, tensor, input)
        if _in_autocast_dtype(tensor).dtype != _in_autocast_dtype(input).dtype:
            raise RuntimeError(expected(name, f"of the dtype of `input`, {input.dtype}", tensor.dtype))
