"""The MGCE loss by a fused kernel: value and gradient in one pass over the logits, differentiable twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mgce.kernels import cuda, dispatch

Composite = Callable[[Tensor, Tensor, Tensor | None, int, str, float], Tensor]


def fused_mgce_loss(
    input: Tensor,  # (C), (N, C) or (N, C, d1, ..., dK)
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    beta: float,
    composite: Composite,
) -> Tensor:
    """Bring the arguments to the form that kernels take, rows of one float type, and the loss back from it.

    `composite` computes the same loss by differentiable operations; it is called only where a
    derivative of the gradient is wanted.
    """
    soft = target.is_floating_point()
    rows, labels = _rows(input), _rows(target) if soft else target.reshape(-1).long()
    if rows.is_cuda:  # reads half types as they are, and rows with any stride
        rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    else:
        dtype = torch.promote_types(rows.dtype, torch.float32)
        if soft:
            dtype = torch.promote_types(dtype, labels.dtype)
            labels = labels.to(dtype)
        rows, labels = rows.to(dtype).contiguous(), labels.contiguous()
        weight = None if weight is None else weight.to(dtype).contiguous()
    options = (ignore_index, reduction, label_smoothing)
    if torch.compiler.is_compiling():
        loss: Tensor = loss_and_grad(rows, labels, weight, *options, beta)[0]
    elif rows.requires_grad and torch.is_grad_enabled():
        loss = FusedLoss.apply(rows, labels, weight, *options, beta, composite)  # type: ignore[no-untyped-call]
    else:
        loss = dispatch.loss_and_grad(rows, labels, weight, *options, beta=beta, want_grad=False)[0]
    if reduction == "none":
        loss = loss.view(input.shape[:1] + input.shape[2:] if input.ndim > 1 else ())
    return loss


def _rows(tensor: Tensor) -> Tensor:
    if tensor.ndim == 2:
        return tensor
    return tensor.unsqueeze(0) if tensor.ndim == 1 else tensor.movedim(1, -1).flatten(0, -2)


class FusedLoss(torch.autograd.Function):
    """The loss of rows, with the gradient from the forward pass; a second derivative takes the composite path."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        weight: Tensor | None,
        ignore_index: int,
        reduction: str,
        label_smoothing: float,
        beta: float,
        composite: Composite,
    ) -> Tensor:
        """Compute the loss, and keep the gradient for the way back."""
        ctx.options = (ignore_index, reduction, label_smoothing)
        ctx.beta, ctx.composite = beta, composite
        ctx.save_for_backward(logits, target, weight)
        loss, ctx.grad = dispatch.loss_and_grad(logits, target, weight, *ctx.options, beta=beta)
        return loss

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradient that is there, or differentiate the composite loss."""
        nothing = (None,) * 7
        if torch.is_grad_enabled():  # create_graph=True
            logits, target, weight = ctx.saved_tensors
            loss = ctx.composite(logits, target, weight, *ctx.options)
            (grad,) = torch.autograd.grad(loss, logits, grad_output, create_graph=True)
            return grad, *nothing
        # Handed over, not kept: the engine then makes it the leaf's .grad without a copy, and it may be
        # scaled in place. A second backward through a retained graph computes it again.
        grad, ctx.grad = ctx.grad, None
        if grad is None:
            logits, target, weight = ctx.saved_tensors
            _, grad = dispatch.loss_and_grad(logits, target, weight, *ctx.options, beta=ctx.beta)
            assert grad is not None
        if grad.is_cuda:  # where to look at the number would be to wait for the device
            cuda.scale_(grad, grad_output)
        elif grad_output.ndim:
            grad.mul_(grad_output.unsqueeze(-1))
        elif grad_output.item() != 1:
            grad.mul_(grad_output)
        return grad, *nothing


@torch.library.custom_op("mgce::loss_and_grad", mutates_args=())
def loss_and_grad(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    beta: float,
) -> tuple[Tensor, Tensor]:
    """Run the kernel as one opaque operator, for graphs that are traced."""
    loss, grad = dispatch.loss_and_grad(logits, target, weight, ignore_index, reduction, label_smoothing, beta=beta)
    assert grad is not None
    return loss, grad


@loss_and_grad.register_fake
def _(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    beta: float,
) -> tuple[Tensor, Tensor]:
    shape = logits.shape[:1] if reduction == "none" else ()
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return logits.new_empty(shape, dtype=dtype), torch.empty_like(logits, dtype=dispatch.gradient_dtype(logits))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])


def _scale(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    (grad,) = ctx.saved_tensors
    return (grad * (grad_loss.unsqueeze(-1) if grad_loss.ndim else grad_loss), *(None,) * 6)


loss_and_grad.register_autograd(_scale, setup_context=_save)
