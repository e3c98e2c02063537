"""The one place that chooses a backend for a call, and that says why one cannot be used."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mgce._validation import check_choice
from mgce.numerics.root import Beta

BACKENDS = ("auto", "cpu", "torch", "reference")


def choose(backend: str, input: Tensor, target: Tensor, weight: Tensor | None, beta: Beta) -> str:
    """Give the backend of a call: the one named, or for `"auto"` the fastest that can run it.

    Raises:
        ValueError: if `backend` is unknown.
        RuntimeError: if the backend named cannot run this call; the sentence says why.
    """
    check_choice("backend", backend, BACKENDS)
    if backend in ("torch", "reference"):
        return backend
    obstacle = obstacle_to_cpu(input, target, weight, beta)
    if obstacle is None:
        return "cpu"
    if backend == "auto":
        return "torch"
    raise RuntimeError(f"Expected a call that backend 'cpu' can run, but {obstacle}; use backend='auto'.")


def obstacle_to_cpu(input: Tensor, target: Tensor, weight: Tensor | None, beta: Beta) -> str | None:
    """Say why the fused CPU kernel cannot run a call, or None where it can."""
    if isinstance(beta, Tensor):
        return "`beta` is a tensor"
    if math.isinf(beta):
        return "`beta` is inf, which is cross-entropy"
    tensors = [tensor for tensor in (input, target, weight) if tensor is not None]
    for tensor in tensors:
        if tensor.device.type != "cpu":
            return f"a tensor is on {tensor.device}"
        if type(tensor) not in (Tensor, torch.nn.Parameter, torch.nn.Buffer):
            return f"an argument is a {type(tensor).__name__}"
        if tensor is not input and tensor.requires_grad:
            return "a derivative in `target` or `weight` is wanted"
    if input.numel() == 0:
        return "`input` is empty"
    return _obstacle_of_context(input)


def _obstacle_of_context(input: Tensor) -> str | None:
    """Say why no fused kernel can run here: one is differentiable backwards only."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "it is inside a transform of torch.func"
    if torch.compiler.is_compiling():
        return None
    tangent = forward_ad.unpack_dual(input).tangent  # type: ignore[no-untyped-call]
    if tangent is not None:
        return "a forward-mode derivative is wanted"
    return None
