"""The one place that chooses a backend for a call, and that says why one cannot be used."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mgce._validation import check_choice
from mgce.kernels import cpu, cuda
from mgce.numerics.root import Beta

KERNELS = ("cpu", "cuda")
BACKENDS = ("auto", *KERNELS, "torch", "reference")
PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)  # no subclass that means something else by its values


def choose(backend: str, input: Tensor, target: Tensor, weight: Tensor | None, beta: Beta) -> str:
    """Give the backend of a call: the one named, or for `"auto"` the fastest that can run it.

    Raises:
        ValueError: if `backend` is unknown.
        RuntimeError: if the backend named cannot run this call; the sentence says why.
    """
    check_choice("backend", backend, BACKENDS)
    if backend in ("torch", "reference"):
        return backend
    kernel = backend if backend != "auto" else "cpu" if input.is_cpu else "cuda"
    obstacle = _obstacle(kernel, input, target, weight, beta)
    if obstacle is None:
        return kernel
    if backend == "auto":
        return "torch"
    raise RuntimeError(f"Expected a call that backend {backend!r} can run, but {obstacle}; use backend='auto'.")


def loss_and_grad(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    *,
    beta: float,
    want_grad: bool = True,
    inplace: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Run the kernel of the device that the logits are on; see those for the arguments."""
    options = (ignore_index, reduction, label_smoothing)
    if logits.is_cpu:
        return cpu.loss_and_grad(logits, target, weight, *options, beta=beta, want_grad=want_grad, inplace=inplace)
    dtype = None if inplace else gradient_dtype(logits)
    return cuda.loss_and_grad(
        logits, target, weight, *options, beta=beta, want_grad=want_grad, inplace=inplace, grad_dtype=dtype
    )


def gradient_dtype(logits: Tensor) -> torch.dtype:
    """Give the type of a kernel's gradient: a loss scale multiplies later what float16 would have rounded to zero."""
    return torch.float32 if logits.dtype == torch.float16 else logits.dtype


def _obstacle(kernel: str, input: Tensor, target: Tensor, weight: Tensor | None, beta: Beta) -> str | None:
    """Say why a kernel cannot run a call, or None where it can."""
    if isinstance(beta, Tensor):
        return "`beta` is a tensor"
    if math.isinf(beta):
        return "`beta` is inf, which is cross-entropy"
    for tensor in (input, target) if weight is None else (input, target, weight):
        if not (tensor.is_cpu if kernel == "cpu" else tensor.is_cuda):
            return f"a tensor is on {tensor.device}"
        if type(tensor) not in PLAIN:
            return f"an argument is a {type(tensor).__name__}"
        if tensor.requires_grad and tensor is not input:
            return "a derivative in `target` or `weight` is wanted"
        if kernel == "cuda" and tensor.dtype == torch.float64:
            return "a tensor is float64, which the kernel is not for"
    if input.numel() == 0:
        return "`input` is empty"
    # A trace takes Triton for granted, as the compiler of its graph does.
    triton = cuda.obstacle() if kernel == "cuda" and not torch.compiler.is_compiling() else None
    return _obstacle_of_context(input) or triton


def _obstacle_of_context(input: Tensor) -> str | None:
    """Say why no fused kernel can run here: one is differentiable backwards only."""
    if torch._C._are_functorch_transforms_active():
        return "it is inside a transform of torch.func"
    if torch.compiler.is_compiling():
        return None
    # Outside a dual level there is no tangent, and to ask for one costs more than all of the above.
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(input).tangent is not None:  # type: ignore[no-untyped-call]
        return "a forward-mode derivative is wanted"
    return None
