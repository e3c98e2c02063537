"""Register the chunked loss of a linear head as one PyTorch operator, which `torch.compile` does not look into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce.kernels import dispatch
from mgce.kernels.options import LossOptions
from mgce.losses.composite import composite_mgce_loss
from mgce.losses.fused import number_of
from mgce.losses.linear_chunks import ChunkOptions, HeadBatch, loss_and_gradients


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
