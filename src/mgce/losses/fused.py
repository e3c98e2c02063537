"""Compute the MGCE loss by a fused kernel: value and gradient in one pass over the logits, differentiable twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mgce._validation import HALF_TYPES
from mgce.kernels import cuda, dispatch
from mgce.kernels.options import LossArguments, LossOptions, SoftmaxArguments, SoftmaxTerms
from mgce.losses.composite import composite_loss_and_grad, composite_mgce_loss, composite_softmax_loss

# A GPU multiplies so many numbers in less time than its host takes to launch the kernel that passes over rows.
MULTIPLIED_AT_ONCE = 2**20


def fused_mgce_loss(
    input: Tensor,  # (C), (N, C) or (N, C, d1, ..., dK)
    target: Tensor,
    weight: Tensor | None,
    options: LossOptions,
    beta: float,
) -> Tensor:
    """Reshape and cast the arguments to rows of one float type, and compute the loss by a kernel."""
    soft = target.is_floating_point()
    rows, labels = _rows(input), _rows(target) if soft else _labels(target)
    if rows.is_cuda:  # reads half types as they are, and rows with any stride
        rows = rows if rows.stride(-1) == 1 else rows.contiguous()
    else:
        dtype = torch.float32 if rows.dtype in HALF_TYPES else rows.dtype
        if soft:
            dtype = torch.promote_types(dtype, labels.dtype)
            labels = labels.to(dtype)
        rows = rows if rows.dtype == dtype else rows.to(dtype)  # to ask first takes a tenth of the time
        rows, labels = rows.contiguous(), labels.contiguous()
        weight = None if weight is None else weight.to(dtype).contiguous()
    if dispatch.is_traced():
        loss: Tensor = loss_and_grad(rows, labels, weight, *options, *operands_of(beta))[0]
    else:
        loss = loss_of_rows(rows, LossArguments(labels, weight, options, beta))
    if options.reduction == "none":
        loss = loss.view(input.shape[:1] + input.shape[2:] if input.ndim > 1 else ())
    return loss


def of_softmax(
    input: Tensor, target: Tensor, weight: Tensor | None, options: LossOptions, terms: SoftmaxTerms
) -> Tensor | None:
    """Compute a loss of the softmax probability of the label by its kernel; return None if the kernel cannot run."""
    if (
        options.label_smoothing == 0
        and dispatch.is_commonest(input, target, weight, options)
        and target.ndim == 1  # class indices
    ):
        return loss_of_rows(input, SoftmaxArguments(target, weight, options, terms))
    return None


def loss_of_rows(rows: Tensor, arguments: LossArguments | SoftmaxArguments) -> Tensor:
    """Return the loss of logits (N, C) by a kernel, differentiable if autograd records the call."""
    if rows.requires_grad and torch.is_grad_enabled():
        return _apply(rows, arguments)
    return dispatch.loss_and_grad(rows, arguments, want_grad=False)[0]


def _rows(tensor: Tensor) -> Tensor:
    if tensor.ndim == 2:
        return tensor
    return tensor.unsqueeze(0) if tensor.ndim == 1 else tensor.movedim(1, -1).flatten(0, -2)


def _labels(target: Tensor) -> Tensor:
    return target if target.ndim == 1 and target.dtype == torch.int64 else target.reshape(-1).long()


class FusedLoss(torch.autograd.Function):
    """The loss of rows of logits as an autograd function; a kernel computes the gradient in the forward pass.

    For a second derivative the loss is computed again by plain tensor operations, which autograd differentiates.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, arguments: LossArguments | SoftmaxArguments) -> Tensor:
        """Compute the loss, and store the gradient for the backward pass."""
        # What a second derivative needs is saved, so that a change in place is seen.
        ctx.save_for_backward(logits, *arguments[:2])
        loss, grad = dispatch.loss_and_grad(logits, arguments)
        ctx.rest = grad, type(arguments), arguments[2:]
        return loss

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, None]:
        """Return the stored gradient times `grad_output`.

        For `create_graph=True` the gradient is that of plain tensor operations, which autograd can differentiate
        again.
        """
        grad, kind, numbers = ctx.rest
        if torch.is_grad_enabled():  # create_graph=True
            logits, *tensors = ctx.saved_tensors
            return _differentiable_gradient(logits, kind(*tensors, *numbers), grad_output), None
        # Handed over, not kept: the engine then makes it the leaf's .grad without a copy, and it may be
        # scaled in place. A second backward through a retained graph computes it again.
        ctx.rest = None, kind, numbers
        if grad is None:
            logits, *tensors = ctx.saved_tensors
            _, grad = dispatch.loss_and_grad(logits, kind(*tensors, *numbers))
            assert grad is not None
        if dispatch.is_batched(grad_output):  # a batch of gradients at once: nothing of it may be written in place
            grad = grad * _for_rows(grad_output)
        elif grad.is_cuda and grad.numel() > MULTIPLIED_AT_ONCE:
            cuda.scale_(grad, grad_output)
        elif grad.is_cuda or grad_output.ndim or grad_output.item() != 1:  # to look at it is to wait for a device
            grad.mul_(_for_rows(grad_output))
        return grad, None


# `FusedLoss.apply` without its Python half, which handles the transforms of torch.func: under those no kernel runs.
_apply: Callable[..., Tensor] = super(torch.autograd.Function, FusedLoss).apply


def _for_rows(grad_output: Tensor) -> Tensor:
    """Reshape the incoming gradient, one number or one for each row, to broadcast against logits (N, C)."""
    return grad_output.unsqueeze(-1) if grad_output.ndim else grad_output


def _differentiable_gradient(
    logits: Tensor, arguments: LossArguments | SoftmaxArguments, grad_output: Tensor
) -> Tensor:
    if isinstance(arguments, SoftmaxArguments):
        loss = composite_softmax_loss(logits, arguments)
    else:
        loss = composite_mgce_loss(logits, *arguments)
    return torch.autograd.grad(loss, logits, grad_output.to(loss.dtype), create_graph=True)[0]


def operands_of(beta: float) -> tuple[float, Tensor | None]:
    """Return beta as two operands of an operator: a number, and a tensor if beta is a symbol of the compiled graph.

    A plain number is a constant of the graph, so a schedule of beta would recompile the graph at each step. A tensor
    avoids that. The tensor is made by a product: of all operations with a symbol, PyTorch's compiler keeps only
    arithmetic independent of the number's value. The tensor is on the CPU, where reading it does not synchronise.
    """
    if not torch.compiler.is_compiling():
        return beta, None
    from torch.fx.experimental import symbolic_shapes  # slow to import, and already imported when compiling

    is_number = getattr(symbolic_shapes, "has_static_value", None)  # missing in the oldest supported PyTorch
    if is_number is not None and is_number(beta):
        return beta, None
    return 0.0, torch.ones((), dtype=torch.float64, device="cpu") * beta


def number_of(beta: float, symbol: Tensor | None) -> float:
    """Return the beta from the operands that :func:`operands_of` returned."""
    return beta if symbol is None else float(symbol)


@torch.library.custom_op("mgce::loss_and_grad", mutates_args=())
def loss_and_grad(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    beta: float,
    symbol: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the loss and its gradient by the kernel, as one operator that tracing does not look into."""
    options = LossOptions(ignore_index, reduction, label_smoothing)
    return loss_and_gradient(logits, LossArguments(target, weight, options, number_of(beta, symbol)))


def loss_and_gradient(logits: Tensor, arguments: LossArguments) -> tuple[Tensor, Tensor]:
    """Return the loss of a batch of rows and its gradient; without a kernel, compute them by plain operations."""
    if dispatch.obstacle_of_machine(logits, arguments.beta, warn=True) is None:
        loss, grad = dispatch.loss_and_grad(logits, arguments)
    else:
        target, weight, options, beta = arguments
        rows = logits.to(torch.promote_types(logits.dtype, torch.float32))
        target = target.to(rows.dtype) if target.is_floating_point() else target
        weight = None if weight is None else weight.to(rows.dtype)
        loss, grad = composite_loss_and_grad(rows, LossArguments(target, weight, options, beta))
    assert grad is not None
    return loss, grad.to(dispatch.gradient_dtype(logits))


@loss_and_grad.register_fake
def _(logits: Tensor, target: Tensor, weight: Tensor | None, *others: Any) -> tuple[Tensor, Tensor]:
    shape = logits.shape[:1] if LossOptions(*others[:3]).reduction == "none" else ()
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return logits.new_empty(shape, dtype=dtype), torch.empty_like(logits, dtype=dispatch.gradient_dtype(logits))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, target, weight, *options, ctx.beta, symbol = inputs
    ctx.options = LossOptions(*options)
    ctx.save_for_backward(logits, target, weight, symbol, output[1])


def _scale(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    logits, target, weight, symbol, grad = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph=True
        arguments = LossArguments(target, weight, ctx.options, number_of(ctx.beta, symbol))
        grad = _differentiable_gradient(logits, arguments, grad_loss)
    else:
        grad = grad * _for_rows(grad_loss)
    return grad, *(None,) * 7


loss_and_grad.register_autograd(_scale, setup_context=_save)
