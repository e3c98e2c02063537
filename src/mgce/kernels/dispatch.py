"""The one place that chooses a backend for a call, and that says why one cannot be used."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mgce._validation import check_choice
from mgce.numerics.root import Beta

BACKENDS = ("auto", "cpu", "torch", "reference")
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
    for tensor in (input, target) if weight is None else (input, target, weight):
        if not tensor.is_cpu:
            return f"a tensor is on {tensor.device}"
        if type(tensor) not in PLAIN:
            return f"an argument is a {type(tensor).__name__}"
        if tensor.requires_grad and tensor is not input:
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
    # Outside a dual level there is no tangent, and to ask for one costs more than all of the above.
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(input).tangent is not None:  # type: ignore[no-untyped-call]
        return "a forward-mode derivative is wanted"
    return None
