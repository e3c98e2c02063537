"""Compute the MGCE loss and its gradient on a GPU, in one call of a fused kernel.

The first call imports Triton; importing this module does not.
"""

from __future__ import annotations

import functools
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from mgce._messages import expected
from mgce.kernels.options import SWITCHED_OFF, LossArguments, switched_off
from mgce.numerics.root import LARGEST_BETA

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@functools.cache
def obstacle() -> str | None:
    """Return why Triton cannot be used on this machine; None if it can."""
    if switched_off():
        return SWITCHED_OFF
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return f"Triton cannot be imported ({error}); `pip install triton` brings it"
    if _interpreted():
        return None
    if torch.version.hip is not None:
        return "the kernel was written for CUDA, not for ROCm"
    if not torch.cuda.is_available():
        return "PyTorch finds no CUDA device"
    return None


def loss_and_grad(
    logits: Tensor,
    arguments: LossArguments,
    *,
    want_grad: bool = True,
    inplace: bool = False,
    grad_dtype: torch.dtype | None = None,
    divisor: Tensor | None = None,
    roots: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    r"""Compute the MGCE loss of a batch, and its gradient with respect to the logits, in one pass.

    .. math:: \ell_i = -\sum_y q_{iy} (f_{iy} + \varphi_\beta(f_i)), \qquad
              \partial \ell_i / \partial f_i = \Big(\sum_y q_{iy}\Big) p_\beta(f_i) - q_i

    with q the one-hot or given targets after label smoothing and class weights, as in cross-entropy, phi the normalizer
    and p the worst-case probabilities. Sums are computed in float32, in an order that does not depend on the other
    rows. The call does not wait for the device.

    Args:
        logits: f, shape (N, k) for N rows and k classes, float16, bfloat16 or float32. The classes of a row are
            contiguous in memory; rows may have any stride. -inf masks a class. There is no kernel for float64.
        arguments: the target contains labels of an integer type, or probabilities of any floating-point type. The
            class weights have any floating-point type. Beta is in [1, inf].
        want_grad: whether to compute the gradient of the reduced loss; for "none", that of the sum over the rows.
        inplace: whether to write the gradient into the memory of the logits.
        grad_dtype: dtype of the gradient, that of the logits or float32. With a loss scale, which multiplies the
            gradient later, float32 keeps small entries that float16 would round to zero.
        divisor: number by which the gradient is divided before it is rounded, shape (), float32; for the reductions
            "none" and "sum".
        roots: float32 memory of shape (N, 3), into which the numbers are written that `write_block` needs.

    Returns:
        The loss in float32, shape (N,) for "none", else (); and the gradient, shape (N, k), or None. A row gives NaN in
        both if it contains NaN or +inf, or only -inf, or if its label is neither `ignore_index` nor in [0, k).

    Raises:
        ValueError: if the layout or a dtype is not one of those above.
    """
    target, weight, options, beta = arguments
    _check(logits, grad_dtype, inplace)
    n, k = logits.shape
    target = _rows(target) if target.is_floating_point() else target.contiguous()
    weight = None if weight is None else weight.contiguous()
    count = _denominator(target, weight, options.ignore_index, k) if options.reduction == "mean" else None
    denominator = divisor if count is None else count
    losses = torch.empty(n, dtype=torch.float32, device=logits.device)
    grad = _gradient(logits, inplace, grad_dtype) if want_grad else None
    beta = min(float(beta), LARGEST_BETA)  # above it nothing changes but the range of float32 is left
    if n > 0:
        from mgce.kernels.cuda_launch import Batch, launch

        with on(logits.device):
            launch(Batch(logits, target, weight, denominator, losses, grad, options, beta, roots))
    if options.reduction == "none":
        return losses, grad
    return losses.sum() if count is None else losses.sum() / count, grad


def write_block(block: Tensor, first: int, roots: Tensor, factor: Tensor, arguments: LossArguments, k: int) -> Tensor:
    """Overwrite the logits of some classes with the gradient of the summed loss, and return the gradient.

    Of the forward pass only `roots` is needed, so the classes of a row may be computed in several calls. The gradient
    is that of the sum for the reductions "none" and "mean" too.

    Args:
        block: logits of the classes first, first + 1, ..., shape (N, width), dtype and layout as in `loss_and_grad`.
        first: the first class of the block.
        roots: what `loss_and_grad` wrote for the rows.
        factor: multiplies the gradients, shape () or (N,), float32.
        arguments: the target, the class weights, the options and beta with which `loss_and_grad` was called.
        k: number of classes.
    """
    target, weight, options, beta = arguments
    target = _rows(target) if target.is_floating_point() else target.contiguous()
    weight = None if weight is None else weight.contiguous()
    if block.numel() > 0:
        from mgce.kernels import cuda_launch

        with on(block.device):
            checked = LossArguments(target, weight, options, min(float(beta), LARGEST_BETA))
            cuda_launch.write_block(block, first, roots, factor, checked, k)
    return block


def scale_(grad: Tensor, factor: Tensor) -> Tensor:
    """Multiply the rows of `grad` by `factor`, shape () or (N,), in place; rows with factor 1 are not read.

    The backward pass multiplies the stored gradient by the incoming gradient with this function. The host does not read
    the factor. The factor 1, with which `loss.backward()` begins, costs no memory access to the gradient.
    """
    if len(grad) > 0:
        from mgce.kernels.cuda_launch import scale

        with on(grad.device):
            scale(grad, factor)
    return grad


def _gradient(logits: Tensor, inplace: bool, dtype: torch.dtype | None) -> Tensor:
    if inplace:
        return logits
    return torch.empty(logits.shape, dtype=dtype or logits.dtype, device=logits.device)


def _denominator(target: Tensor, weight: Tensor | None, ignore_index: int, k: int) -> Tensor:
    """Return the divisor of a mean: the number of rows that are not ignored, or the sum of their class weights."""
    if target.is_floating_point():
        return torch.full((), float(len(target)), dtype=torch.float32, device=target.device)
    kept = target != ignore_index
    if weight is None:
        return kept.sum(dtype=torch.float32)
    kept &= (target >= 0) & (target < k)  # the loss is NaN if one is not, here is only no place for a fault
    return torch.where(kept, weight.float()[torch.where(kept, target, 0).long()], 0).sum()


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which a CUDA device is the current one; for another device, return an empty context."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def _check(logits: Tensor, grad_dtype: torch.dtype | None, inplace: bool) -> None:
    if logits.dtype not in DTYPES:
        raise ValueError(expected("logits", "float16, bfloat16 or float32", logits.dtype))
    if logits.stride(1) != 1 and logits.shape[1] != 1:
        raise ValueError(expected("logits", "a tensor whose classes are next to one another", logits.stride()))
    if grad_dtype not in (None, logits.dtype, None if inplace else torch.float32):
        what = f"{logits.dtype}" + ("" if inplace else " or torch.float32")
        raise ValueError(expected("grad_dtype", what, grad_dtype))
