"""Compute the MGCE loss of a linear head and its gradients a chunk of rows at a time.

Only the logits of one chunk are stored. On a CPU, and in float32 on a GPU, one pass over the rows adds the gradient for
the weights of the head chunk by chunk, in a float32 tensor. In bfloat16 on a GPU there are two passes. The first
computes the loss and stores three numbers for each row. The second computes the logits again, one block of classes at a
time, and writes the gradient for the weights of the block. So no float32 tensor has the size of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mgce._validation import target_out_of_range
from mgce.kernels import cuda, dispatch
from mgce.kernels.options import LossArguments, LossOptions
from mgce.losses.composite import composite_loss_and_grad
from mgce.losses.scored import row_weights

# Where a chunk has gradients in at most this share of the classes, gathering those classes costs less than leaving
# them in the products: the two cost the same at 0.45 to 0.7 of the classes.
SPARSE_SHARE = 0.4
NOTHING = (False, False, False)
# Whether a product of half types on NVIDIA's GPUs can be added to a float32 tensor in one step; older versions of
# PyTorch were not tried.
ADDS_IN_FLOAT32 = torch.version.hip is None and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11)

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
Unfused = Callable[..., Tensor]


class HeadBatch(NamedTuple):
    """The parameters of a linear head, its input rows, their targets and the class weights."""

    input: Tensor  # (n, d)
    linear_weight: Tensor  # (k, d)
    linear_bias: Tensor | None  # (k,)
    target: Tensor  # (n,) int64, or (n, k)
    weight: Tensor | None  # (k,)


class ChunkOptions(NamedTuple):
    """The options for computing the loss of one chunk."""

    loss: LossOptions
    beta: float
    rows: int  # of a chunk
    backend: str  # as `dispatch.choose` returns it


class LinearLoss(torch.autograd.Function):
    """The chunked loss as an autograd function.

    The gradients are computed in the forward pass. For the reduction "none" they are computed in the backward pass,
    because only there the factor of each row is known. Call it as `LinearLoss.apply(*batch, options, unfused)`.
    `unfused` computes the loss of the tensors of the batch by plain operations; autograd differentiates it for second
    derivatives.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """Compute the loss, and store the gradients for the backward pass."""
        *tensors, ctx.options, ctx.unfused = arguments
        wanted = ctx.needs_input_grad[:3]
        if any(wanted):
            ctx.save_for_backward(*tensors)
        now = wanted if ctx.options.loss.reduction != "none" else NOTHING
        loss, gradients = loss_and_gradients(HeadBatch(*tensors), ctx.options, now)
        ctx.gradients = gradients if any(now) else None
        return loss

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the stored gradients times `grad_output`; if none are stored, compute them by chunks."""
        nothing = (None,) * 4
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # create_graph=True
            return *_differentiable_gradients(ctx, grad_output, wanted), *nothing
        if dispatch.is_batched(grad_output):  # by products with what cannot be written in place
            return *_batched_gradients(ctx, wanted, grad_output), *nothing
        if ctx.options.loss.reduction == "none":
            return *_gradients(ctx, wanted, grad_output), *nothing
        # Handed over, not kept: the engine then makes them the leaves' .grad without a copy, and they may be scaled
        # in place. A second backward through a retained graph computes them again.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            gradients = _gradients(ctx, wanted)
        if grad_output.device.type != "cpu" or grad_output.item() != 1:
            gradients = tuple(_scaled(gradient, grad_output, ctx.options) for gradient in gradients)
        return *gradients, *nothing


def _scaled(gradient: Tensor | None, factor: Tensor, options: ChunkOptions) -> Tensor | None:
    """Multiply a gradient by a number, in place; on a GPU the factor 1 costs nothing."""
    if gradient is not None and options.backend == "cuda" and gradient.ndim == 2:
        return cuda.scale_(gradient, factor)
    return None if gradient is None else gradient.mul_(factor)


def _gradients(ctx: Any, wanted: tuple[bool, ...], row_scale: Tensor | None = None) -> Gradients:
    return loss_and_gradients(HeadBatch(*ctx.saved_tensors), ctx.options, wanted, row_scale)[1]


def _batched_gradients(ctx: Any, wanted: tuple[bool, ...], grad_output: Tensor) -> Gradients:
    if ctx.options.loss.reduction == "none":
        with torch.enable_grad():
            first, second, third = _differentiable_gradients(ctx, grad_output, wanted)
        return first, second, third
    first, second, third = (None if grad is None else grad * grad_output for grad in _gradients(ctx, wanted))
    return first, second, third


def _differentiable_gradients(ctx: Any, grad_output: Tensor, wanted: tuple[bool, ...]) -> list[Tensor | None]:
    tensors = ctx.saved_tensors
    loss = ctx.unfused(*tensors)
    sources = [tensor for tensor, want in zip(tensors[:3], wanted, strict=True) if want]
    found = iter(torch.autograd.grad(loss, sources, grad_output, create_graph=True))
    return [next(found) if want else None for want in wanted]


def loss_and_gradients(
    batch: HeadBatch,
    options: ChunkOptions,
    wanted: tuple[bool, ...] = NOTHING,
    row_scale: Tensor | None = None,
) -> tuple[Tensor, Gradients]:
    """Return the loss, and its gradients with respect to input, linear_weight and linear_bias.

    A gradient that is not `wanted` is None. The gradients are those of the reduced loss; for "none", they are those of
    the sum of the losses times `row_scale`, shape (n,) for n rows. For float16 they are returned in float32, and
    autograd rounds them after a loss scale has multiplied them.
    """
    n, kept = len(batch.input), None
    if batch.target.ndim == 1 and batch.target.is_cpu:  # elsewhere, to look at the labels is to wait for the device
        kept = _kept_rows(batch.target, len(batch.linear_weight), options.loss.ignore_index)
    if kept is not None:
        batch = batch._replace(input=batch.input[kept], target=batch.target[kept])
        row_scale = None if row_scale is None else row_scale[kept]
    scale, divisor = _scales(batch, options, row_scale)
    with torch.no_grad(), torch.autocast(batch.input.device.type, enabled=False):
        losses, (grad_input, *others) = _over_chunks(batch, options, wanted, scale)
    loss = losses if options.loss.reduction == "none" else losses.sum() / divisor
    if kept is not None:
        loss = _put_back(loss, kept, n) if options.loss.reduction == "none" else loss
        grad_input = None if grad_input is None else _put_back(grad_input, kept, n)
    return loss, (grad_input, others[0], others[1])


def _kept_rows(target: Tensor, k: int, ignore_index: int) -> Tensor | None:
    """Return the indices of the rows that are not ignored; None if no row is ignored. Raise if a label is no class."""
    kept = target != ignore_index
    wrong = kept & ((target < 0) | (target >= k))
    if bool(wrong.any()):
        raise IndexError(target_out_of_range(target[wrong][0].item(), k, ignore_index))
    return None if bool(kept.all()) else kept.nonzero().squeeze(1)


def _put_back(rows: Tensor, kept: Tensor, n: int) -> Tensor:
    return rows.new_zeros(n, *rows.shape[1:]).index_copy_(0, kept, rows)


def _scales(batch: HeadBatch, options: ChunkOptions, row_scale: Tensor | None) -> tuple[Tensor | float, Tensor | float]:
    """Return the factor for the gradient of each row, and the number by which the sum of the losses is divided."""
    if row_scale is not None:
        return row_scale.unsqueeze(-1), 1.0
    if options.loss.reduction != "mean":
        return 1.0, 1.0
    if batch.target.ndim == 2:
        return 1 / len(batch.target), len(batch.target)
    weights = row_weights(batch.target, batch.weight, options.loss.ignore_index)
    divisor = weights.to(torch.promote_types(batch.input.dtype, torch.float32)).sum()
    return torch.where(divisor == 0, 0, 1 / divisor), divisor


def _over_chunks(
    batch: HeadBatch, options: ChunkOptions, wanted: tuple[bool, ...], scale: Tensor | float
) -> tuple[Tensor, Gradients]:
    """Compute losses and gradients chunk by chunk.

    For the reduction "none" the losses are those of the rows, otherwise one sum for each chunk. The gradients are
    multiplied by `scale`.
    """
    input, linear_weight, linear_bias, target, weight = batch
    n, k = len(input), len(linear_weight)
    twice = wanted[1] and options.backend == "cuda" and input.dtype == torch.bfloat16 and n > options.rows
    roots = torch.empty(n, 3, dtype=torch.float32, device=input.device) if twice else None
    divisor = _divisor(scale, input) if options.backend == "cuda" else None
    grad_input = None
    if wanted[0]:
        dtype = dispatch.gradient_dtype(input)
        grad_input = torch.empty_like(input, dtype=dtype, memory_format=torch.contiguous_format)
    # A sum over several chunks is kept in at least float32.
    several = torch.float32 if n > options.rows else input.dtype
    sums = [
        torch.zeros(
            tensor.shape, dtype=torch.promote_types(dispatch.gradient_dtype(tensor), several), device=tensor.device
        )
        if want and tensor is not None
        else None
        for tensor, want in ((linear_weight, wanted[1] and not twice), (linear_bias, wanted[2]))
    ]
    logits = input.new_empty(min(n, options.rows), k)
    losses = []
    for start in range(0, n, options.rows):
        part = slice(start, min(start + options.rows, n))
        rows, labels = input[part], target[part]
        chunk = _project(rows, linear_weight, linear_bias, logits[: len(rows)])
        kept = None if roots is None else roots[part]
        want_grad = grad_input is not None or sums[0] is not None or sums[1] is not None
        loss, grad = _chunk_loss(chunk, labels, weight, options, want_grad, (divisor, kept))
        losses.append(loss if options.loss.reduction == "none" else loss.view(1))
        if grad is not None:
            into = None if grad_input is None else grad_input[part]
            here = 1.0 if divisor is not None else scale[part] if isinstance(scale, Tensor) and scale.ndim else scale
            _accumulate(grad, here, rows, linear_weight, (into, sums[0], sums[1]))
            del grad  # before the next chunk
    tensors = linear_weight, linear_bias
    grads = [
        None if s is None or t is None else s.to(dispatch.gradient_dtype(t)) for s, t in zip(sums, tensors, strict=True)
    ]
    if roots is not None:
        grads[0] = _weight_gradient(batch, options, roots, scale, logits)
    together = torch.cat(losses) if losses else input.new_zeros(0)
    return together, (grad_input, grads[0], grads[1])


def _divisor(scale: Tensor | float, input: Tensor) -> Tensor | None:
    """Return the number by which the kernel of a GPU divides all gradients; None if each row has its own factor.

    A division in the kernel saves a pass over the chunk. In half types it saves a rounding too.
    """
    if isinstance(scale, Tensor):
        return 1 / scale if scale.ndim == 0 else None  # 1 / 0, where no row counts, gives gradients of 0
    return input.new_full((), 1 / scale, dtype=torch.float32)


def _weight_gradient(
    batch: HeadBatch, options: ChunkOptions, roots: Tensor, scale: Tensor | float, memory: Tensor
) -> Tensor:
    """Return the gradient for the weights of the head: the second pass, over blocks of classes.

    `memory` holds the logits of a block.
    """
    input, linear_weight, linear_bias, target, weight = batch
    n, k = len(input), len(linear_weight)
    factor = scale.float().reshape(-1) if isinstance(scale, Tensor) else roots.new_full((1,), scale)
    arguments = LossArguments(target, weight, options.loss, options.beta)
    grad = torch.empty_like(linear_weight, memory_format=torch.contiguous_format)
    width = max(1, memory.numel() // n)
    for first in range(0, k, width):
        part = slice(first, min(first + width, k))
        block = memory.view(-1)[: n * (part.stop - first)].view(n, -1)
        bias = None if linear_bias is None else linear_bias[part]
        _project(input, linear_weight[part], bias, block)
        cuda.write_block(block, first, roots, factor.expand(n), arguments, k)
        torch.mm(block.T, input, out=grad[part])
    return grad


def _project(rows: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, out: Tensor) -> Tensor:
    if linear_bias is None:
        return torch.mm(rows, linear_weight.T, out=out)
    return torch.addmm(linear_bias, rows, linear_weight.T, out=out)


def _chunk_loss(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    options: ChunkOptions,
    want_grad: bool,
    on_gpu: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of one chunk, and the gradient of the summed loss with respect to the logits.

    For the reduction "none" the loss is that of each row, otherwise the sum. `on_gpu` are the divisor of the gradient,
    and memory for the roots of the rows, for the kernel of a GPU.
    """
    # The kernel of a GPU reads bfloat16, and writes the gradient in it; float16 would lose small entries.
    as_it_is = options.backend == "cuda" and logits.dtype == torch.bfloat16
    dtype = logits.dtype if as_it_is else torch.promote_types(logits.dtype, torch.float32)
    if target.ndim == 2:
        dtype = torch.promote_types(dtype, target.dtype)
        target = target.to(dtype)
    logits = logits.to(dtype)
    weight = None if weight is None else (weight if as_it_is else weight.to(dtype)).contiguous()
    of_rows = options.loss._replace(reduction="none" if options.loss.reduction == "none" else "sum")
    if options.backend in dispatch.KERNELS:
        arguments = LossArguments(target.contiguous(), weight, of_rows, options.beta)
        if options.backend == "cuda":
            divisor, roots = on_gpu
            return cuda.loss_and_grad(
                logits, arguments, want_grad=want_grad, inplace=True, divisor=divisor, roots=roots
            )
        return dispatch.loss_and_grad(logits, arguments, want_grad=want_grad, inplace=True)
    return composite_loss_and_grad(logits, LossArguments(target, weight, of_rows, options.beta), want_grad)


def _accumulate(
    grad: Tensor,  # (r, k), in the logits of a chunk
    scale: Tensor | float,  # of each row, (r, 1), or of all
    rows: Tensor,  # (r, d)
    linear_weight: Tensor,
    into: Gradients,
) -> None:
    """Write the gradient for the rows of a chunk, and add the gradients for the weight and the bias of the head.

    If few classes have a nonzero gradient, only the columns of these classes are multiplied.
    """
    into_input, into_weight, into_bias = into
    active = _active_classes(grad)
    if active is not None:
        grad = grad.index_select(1, active)
    rows = rows.to(dispatch.gradient_dtype(rows))
    grad = (grad.mul_(scale) if isinstance(scale, Tensor) or scale != 1 else grad).to(rows.dtype)
    if into_input is not None:
        head = linear_weight if active is None else linear_weight.index_select(0, active)
        torch.mm(grad, head.to(grad.dtype), out=into_input)
    if into_weight is not None:
        if active is not None:
            into_weight.index_add_(0, active, (grad.T @ rows).to(into_weight.dtype))
        elif into_weight.dtype == rows.dtype:
            into_weight.addmm_(grad.T, rows)
        elif ADDS_IN_FLOAT32 and grad.is_cuda:
            torch.addmm(into_weight, grad.T, rows, out_dtype=into_weight.dtype, out=into_weight)
        else:
            into_weight.add_(grad.T @ rows)
    if into_bias is not None:
        columns = grad.sum(0, dtype=into_bias.dtype)
        if active is None:
            into_bias.add_(columns)
        else:
            into_bias.index_add_(0, active, columns)


def _active_classes(grad: Tensor) -> Tensor | None:
    """Return the classes in which some row has a gradient that is not 0; None if they are many or not on the CPU."""
    if grad.device.type != "cpu":
        return None
    # Two passes that are vectorised cost less than any(0); NaN is not 0.
    active = ((grad.amax(0) != 0) | (grad.amin(0) != 0)).nonzero().squeeze(1)
    return active if len(active) <= SPARSE_SHARE * grad.shape[1] else None
