"""The fused CUDA kernel: MGCE loss and its gradient in one call, with each row of logits read from memory once.

Triton is imported by the first call, not by this module.
"""

from __future__ import annotations

import functools
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgce._validation import expected
from mgce.numerics.budget import proven_steps
from mgce.numerics.root import LARGEST_BETA

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Most classes of a row that is held in registers, with its candidates packed and without. Compiled for compute
# capability 9.0, larger blocks spill much of what these hold; the speeds have not been compared.
PACKED_BLOCK, PLAIN_BLOCK = 8192, 16384
SMALLEST_PACKED_BLOCK = 4096  # a shorter row is evaluated whole in a few instructions of each thread
# Longer rows are read so many classes at a time, by so many warps: eight numbers for each of 256 threads.
CHUNK, CHUNK_WARPS = 2048, 8
CHUNKED_PROGRAMS = 4  # for each multiprocessor, so that some compute while others wait for memory
# From this beta on most classes are candidates, and few steps are made: packing would cost more than it saves.
LARGEST_PACKED_BETA = 8.0
# `powers` forms v^(beta - 1) from v, v^2, v^4, v^8 (twice) and the root of v: up to an exponent of 15.5.
LARGEST_BETA_BY_PRODUCTS = 16.5


@functools.cache
def obstacle() -> str | None:
    """Say why Triton cannot be used here, or None where it can."""
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
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    beta: float,
    want_grad: bool = True,
    inplace: bool = False,
    grad_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor | None]:
    r"""Compute the MGCE loss of a batch, and its gradient with respect to the logits, in one pass.

    .. math:: \ell_i = -\sum_y q_{iy} (f_{iy} + \varphi_\beta(f_i)), \qquad
              \partial \ell_i / \partial f_i = \Big(\sum_y q_{iy}\Big) p_\beta(f_i) - q_i

    with q the one-hot or given targets after label smoothing and class weights, as in cross-entropy. The sums are in
    float32, in an order that does not depend on the other rows; nothing waits for the device.

    Args:
        logits: f, shape (N, k), float16, bfloat16 or float32, the classes next to one another in memory, the rows with
            any stride; -inf masks a class. For float64 there is no kernel.
        target: labels, an integer type of shape (N,), or probabilities, shape of `logits`, any floating-point type.
        weight: weight of each class, shape (k,), any floating-point type.
        ignore_index: label of rows whose loss and gradient are zero.
        reduction: "none", "mean" or "sum". The gradient is that of the reduced loss, or of the sum for "none".
        label_smoothing: share of the target that is spread over all classes.
        beta: float in [1, inf].
        want_grad: whether to compute the gradient.
        inplace: write the gradient over the logits.
        grad_dtype: type of the gradient, that of the logits or float32. Under a loss scale, which multiplies the
            gradient afterwards, float32 keeps what float16 would round to zero.

    Returns:
        The loss in float32, shape (N,) for "none", else (); and the gradient, shape (N, k), or None. A row that holds
        NaN or +inf, or only -inf, or whose label is neither `ignore_index` nor in [0, k), has NaN in both.

    Raises:
        ValueError: if the layout or a dtype is not one of those above.
    """
    _check(logits, target, grad_dtype, inplace)
    n, k = logits.shape
    beta = min(float(beta), LARGEST_BETA)  # above it nothing changes but the range of float32 is left
    rows = _plan(k, beta)
    labels = not target.is_floating_point()
    target = target.contiguous() if labels else _rows(target)
    if weight is not None:
        weight = weight.contiguous()
    losses = torch.empty(n, dtype=torch.float32, device=logits.device)
    grad = _gradient(logits, inplace, grad_dtype) if want_grad else None
    denominator = _denominator(target, weight, ignore_index, k) if reduction == "mean" else None
    if n > 0:
        with _on(logits.device):
            programs, kernel = _programs(n, rows, logits.device)
            scratch = _scratch(logits, grad, rows, programs)
            kernel[(programs,)](
                logits,
                target,
                losses if weight is None else weight,
                losses if denominator is None else denominator,
                losses,
                losses if grad is None else grad,
                scratch,
                n,
                k,
                logits.stride(0),
                0 if labels else target.stride(0),
                0 if grad is None else grad.stride(0),
                scratch.stride(0),
                ignore_index,
                1.0 - label_smoothing,
                label_smoothing / k,
                beta,
                beta - 1.0,
                1.0 / beta,
                proven_steps(k, beta, torch.float32),  # the kernel stops where the rows do, so the bound costs nothing
                HALVES=_halves(beta),
                PROBS=not labels,
                SMOOTH=label_smoothing > 0,
                WEIGHTED=weight is not None,
                MEAN=denominator is not None,
                GRAD=want_grad,
                num_warps=rows.warps,
                enable_fp_fusion=True,
                **rows.constants,
            )
    if reduction == "none":
        return losses, grad
    return losses.sum() if denominator is None else losses.sum() / denominator, grad


def scale_(grad: Tensor, factor: Tensor) -> Tensor:
    """Multiply the rows of `grad` by `factor`, shape () or (N,), in place; nothing is read where it is 1.

    What backward does with the gradient that it is given: without a look at it by the host, and at no cost for the 1
    that `loss.backward()` begins with.
    """
    n, k = grad.shape
    if n > 0:
        from mgce.kernels import cuda_rows

        stride = factor.stride(0) if factor.ndim else 0
        block = min(4096, _power_of_two(k))
        with _on(grad.device):
            cuda_rows.scale_kernel[(n,)](grad, factor, n, k, grad.stride(0), stride, BLOCK=block, enable_fp_fusion=True)
    return grad


@dataclass(frozen=True)
class _Plan:
    """How the rows are laid on the device."""

    rows: int  # for each program; 0 for as many as come
    candidates: int  # room in the scratch of a program
    warps: int
    constants: dict[str, int | bool]


@functools.lru_cache
def _plan(k: int, beta: float) -> _Plan:
    block = max(16, _power_of_two(k))
    pack = beta < LARGEST_PACKED_BETA
    if block > (PACKED_BLOCK if pack else PLAIN_BLOCK):
        return _Plan(0, k if pack else 1, CHUNK_WARPS, {"BLOCK": CHUNK, "PACK": pack})
    # Short rows are taken together up to 256 numbers, and each warp has 256: eight for each of its threads. To pack is
    # worth it where few classes are left: where more than an eighth are, the row is solved as it is.
    rows = max(1, 256 // block)
    candidates = block // 8 if pack and block >= SMALLEST_PACKED_BLOCK else 0
    constants = {"ROWS": rows, "BLOCK": block, "PACKED": candidates}
    return _Plan(rows, candidates, min(32, max(1, block // 256)), constants)


def _programs(n: int, rows: _Plan, device: torch.device) -> tuple[int, Any]:
    from mgce.kernels import cuda_chunks, cuda_rows

    if rows.rows:
        return -(-n // rows.rows), cuda_rows.row_kernel
    on_gpu = device.type == "cuda"
    processors = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else 1
    return min(n, CHUNKED_PROGRAMS * processors), cuda_chunks.chunked_kernel


def _scratch(logits: Tensor, grad: Tensor | None, rows: _Plan, programs: int) -> Tensor:
    """Give each program room for the candidates of a row, in the gradient itself where its rows are not needed yet."""
    if rows.rows and grad is not None:
        return grad
    return torch.empty(programs, max(1, rows.candidates), dtype=logits.dtype, device=logits.device)


def _gradient(logits: Tensor, inplace: bool, dtype: torch.dtype | None) -> Tensor:
    if inplace:
        return logits
    return torch.empty(logits.shape, dtype=dtype or logits.dtype, device=logits.device)


def _denominator(target: Tensor, weight: Tensor | None, ignore_index: int, k: int) -> Tensor:
    """Give what a mean is divided by: the number of rows that count, or the sum of their weights."""
    if target.is_floating_point():
        return torch.full((), float(len(target)), dtype=torch.float32, device=target.device)
    kept = target != ignore_index
    if weight is None:
        return kept.sum().float()
    kept &= (target >= 0) & (target < k)  # the loss is NaN if one is not, here is only no place for a fault
    return torch.where(kept, weight.float()[torch.where(kept, target, 0).long()], 0).sum()


def _halves(beta: float) -> int:
    """Give 2 (beta - 1) where v^(beta - 1) is formed by products and a root, else -1."""
    return int(2 * (beta - 1)) if beta <= LARGEST_BETA_BY_PRODUCTS and (2 * beta).is_integer() else -1


def _on(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def _power_of_two(k: int) -> int:
    return 1 << (k - 1).bit_length()


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def _check(logits: Tensor, target: Tensor, grad_dtype: torch.dtype | None, inplace: bool) -> None:
    if logits.dtype not in DTYPES:
        raise ValueError(expected("logits", "float16, bfloat16 or float32", logits.dtype))
    if logits.stride(1) != 1 and logits.shape[1] != 1:
        raise ValueError(expected("logits", "a tensor whose classes are next to one another", logits.stride()))
    if grad_dtype not in (None, logits.dtype, None if inplace else torch.float32):
        what = f"{logits.dtype}" + ("" if inplace else " or torch.float32")
        raise ValueError(expected("grad_dtype", what, grad_dtype))
