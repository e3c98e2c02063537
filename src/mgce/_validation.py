"""Check arguments; all errors have one wording, which states what was expected and what was passed."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from mgce._messages import check_choice, expected

REDUCTIONS = ("none", "mean", "sum")
HALF_TYPES = (torch.float16, torch.bfloat16)
WITHOUT_FLOAT64 = ("mps",)  # device types; Metal, on Apple's GPUs, has no float64
# Allowed errors of probabilities: the square root of float32's precision. It also holds for float64, because results of
# float32 are often stored in float64.
SINGLE_ERRORS = math.sqrt(torch.finfo(torch.float32).eps)


def check_beta(beta: Any) -> float | Tensor:
    """Require `beta` to be a real number or a floating-point tensor in [1, inf]; return it as a float or tensor.

    The values of a tensor are checked only on the CPU. Reading them from an accelerator would
    synchronise it, and tensors under tracing or vmap have no values to read.
    """
    if type(beta) is float and beta >= 1:  # as nearly always, and much quicker to see than that it is a number
        return beta
    what = "a float in [1, inf]"
    if isinstance(beta, Tensor):
        if not beta.is_floating_point():
            raise TypeError(expected("beta", what + " or a floating-point tensor of such", beta.dtype))
        if is_concrete(beta) and not bool((beta >= 1).all()):
            raise ValueError(expected("beta", "a tensor of values in [1, inf]", beta.min().item()))
        return beta
    if isinstance(beta, bool) or not isinstance(beta, Real):
        raise TypeError(expected("beta", what, beta))
    try:
        number = float(beta)
    except OverflowError:  # an integer that is larger than any float
        number = math.inf if beta >= 1 else -math.inf  # type: ignore[operator]  # a Real compares with numbers
    if not number >= 1:  # NaN is not
        raise ValueError(expected("beta", what, beta))
    return number


def broadcast_beta(beta: Tensor, rows: torch.Size) -> Tensor:
    """Broadcast a tensor of betas to the shape of the rows; raise an error if the shapes do not fit."""
    try:
        return beta.broadcast_to(rows)
    except RuntimeError:
        sentence = expected("beta", f"of a shape that broadcasts to the rows, {tuple(rows)}", tuple(beta.shape))
        raise ValueError(sentence) from None


def check_device(device: str) -> None:
    """Require a device on which this PyTorch can create tensors and read their values."""
    try:
        torch.empty(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # a build without CUDA asserts
        got = f"{device}: {str(error).splitlines()[0]}"
        raise ValueError(expected("device", "a device that this PyTorch can use", got)) from None


def check_cross_entropy(reduction: str, ignore_index: Any, label_smoothing: Any) -> None:
    """Check the options of cross-entropy that are no tensors."""
    check_choice("reduction", reduction, REDUCTIONS)
    check_ignore_index(ignore_index)
    check_label_smoothing(label_smoothing)


def check_label_smoothing(label_smoothing: Any) -> None:
    """Require a float or a scalar tensor in [0, 1]; raise the same types of errors as PyTorch's cross_entropy."""
    if isinstance(label_smoothing, Tensor):
        is_number = not (label_smoothing.ndim or label_smoothing.requires_grad or label_smoothing.is_complex())
    else:
        is_number = isinstance(label_smoothing, Real) and not isinstance(label_smoothing, Fraction)
    if not is_number:
        raise TypeError(expected("label_smoothing", "a float in [0, 1]", label_smoothing))
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(expected("label_smoothing", "a float in [0, 1]", label_smoothing))


def check_ignore_index(ignore_index: Any) -> None:
    """Require an integer in the range of int64, the type of labels, or a tensor of one integer."""
    if isinstance(ignore_index, Tensor):
        no_integers = ignore_index.is_floating_point() or ignore_index.is_complex() or ignore_index.dtype == torch.bool
        is_integer = ignore_index.numel() == 1 and not no_integers
    else:
        is_integer = isinstance(ignore_index, Integral) and not isinstance(ignore_index, bool)
    if not is_integer:
        raise TypeError(expected("ignore_index", "an integer", ignore_index))
    if not isinstance(ignore_index, Tensor) and not -(2**63) <= ignore_index < 2**63:
        raise ValueError(expected("ignore_index", "an integer of 64 bits", ignore_index))


def check_dim(dim: object, what: str = "an integer or None") -> None:
    """Require an integer; negative ones count dimensions from the end. Callers that accept None check for it first."""
    if isinstance(dim, bool) or not isinstance(dim, Integral):
        raise TypeError(expected("dim", what, dim))


def check_class_weight(weight: object) -> None:
    """Require class weights to be a tensor or None. A common mistake is to pass beta here without its name."""
    if weight is not None and not isinstance(weight, Tensor):
        raise TypeError(expected("weight", "a tensor with a number for each class, or None", weight))


def check_floating(logits: Tensor, name: str) -> None:
    """Require a tensor of a floating-point type."""
    if not isinstance(logits, Tensor):
        raise TypeError(expected(name, "a torch.Tensor", type(logits).__name__))
    if not logits.is_floating_point():
        raise RuntimeError(expected(name, "a floating-point tensor", logits.dtype))


def class_dim(logits: Tensor) -> int:
    """Return the class dimension of logits (C), (N, C) or (N, C, d1, ..., dK); 0 for objects that are no tensors."""
    return 1 if isinstance(logits, Tensor) and logits.ndim > 1 else 0


def check_logits(logits: Tensor, dim: int | None, name: str = "logits") -> int:
    """Require a floating-point tensor with a class along `dim`; return `dim`, or for None that of `class_dim`."""
    check_floating(logits, name)
    dim = class_dim(logits) if dim is None else dim
    if logits.ndim == 0:
        raise ValueError(expected(name, "a tensor with a dimension of classes", "a scalar"))
    if type(dim) is not int and not torch.compiler.is_compiling():  # which knows numbers of NumPy's as arrays
        check_dim(dim, "an integer")
    if not -logits.ndim <= dim < logits.ndim:
        raise IndexError(expected("dim", f"in [{-logits.ndim}, {logits.ndim - 1}]", dim))
    if logits.shape[dim] == 0:
        raise RuntimeError(expected(name, "a tensor with at least one class", tuple(logits.shape)))
    return dim


def target_out_of_range(label: float, k: int, ignore_index: int) -> str:
    """Return the error message for a class index that is out of the range of k classes."""
    return expected("target", f"class indices in [0, {k}) or ignore_index={ignore_index}", label)


def has_float64(device: torch.device) -> bool:
    """Return whether a device can compute in float64; Apple's GPUs cannot."""
    return device.type not in WITHOUT_FLOAT64


def is_concrete(tensor: Tensor) -> bool:
    """Return whether the values of `tensor` can be read without synchronising a device or breaking a trace."""
    return (
        tensor.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and type(tensor) in (Tensor, torch.nn.Parameter)
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and torch._C._get_tracing_state() is None
        and torch._C._len_torch_dispatch_stack() == 0  # make_fx and fake tensors trace by such a mode
    )


def sum_tolerance(probs: Tensor, least: float) -> float:
    """Return the tolerance for the sum of a row of probabilities (..., k), due to rounding; it is at least `least`.

    A softmax in a half type (float16, bfloat16) rounds its normalizer and its quotients, each by half a machine epsilon
    (eps) of its value. It rounds subnormal probabilities by half of the smallest number. For k classes together this is
    eps + k tiny eps / 2, with tiny the smallest normal number. This tolerance is returned if a half type can represent
    all values, whatever their dtype: NumPy holds bfloat16 as float32.
    """
    tolerances = [least]
    for half in HALF_TYPES:
        if torch.equal(probs.to(half).to(probs.dtype), probs):
            info = torch.finfo(half)
            tolerances.append(info.eps + probs.shape[-1] * info.smallest_normal * info.eps / 2)
    return max(tolerances)


def check_probs(probs: Tensor, name: str = "probs") -> None:
    """Require a floating-point tensor of N rows of k probabilities that sum to one, up to :func:`sum_tolerance`."""
    if not isinstance(probs, Tensor):
        raise TypeError(expected(name, "a torch.Tensor", type(probs).__name__))
    if not probs.is_floating_point():
        raise ValueError(expected(name, "a floating-point tensor", probs.dtype))
    if probs.ndim != 2 or probs.numel() == 0:
        raise ValueError(expected(name, "a tensor of shape (N, k) with N, k >= 1", tuple(probs.shape)))
    tolerance = sum_tolerance(probs.detach(), SINGLE_ERRORS)
    values = probs.detach().double()
    inside = (values >= -tolerance) & (values <= 1 + tolerance)  # False for NaN
    if not bool(inside.all()):
        raise ValueError(expected(name, "probabilities in [0, 1], not logits", values[~inside][0].item()))
    sums = values.sum(1)
    far = (sums - 1).abs() > tolerance
    if bool(far.any()):
        raise ValueError(expected(name, "a tensor whose rows sum to one", sums[far][0].item()))


def check_transition(transition: Tensor) -> None:
    """Require a square matrix of probabilities whose rows sum to one."""
    check_probs(transition, "transition")
    if transition.shape[0] != transition.shape[1]:
        raise ValueError(expected("transition", "a square matrix", tuple(transition.shape)))


def check_labels(labels: Tensor, n_classes: int, name: str = "target") -> None:
    """Require an integer tensor of shape (N,) with values in [0, n_classes)."""
    if not isinstance(labels, Tensor):
        raise TypeError(expected(name, "a torch.Tensor", type(labels).__name__))
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(expected(name, "a tensor of integers", labels.dtype))
    if labels.ndim != 1:
        raise ValueError(expected(name, "a tensor of shape (N,)", tuple(labels.shape)))
    outside = (labels < 0) | (labels >= n_classes)
    if bool(outside.any()):
        raise ValueError(expected(name, f"integers in [0, {n_classes - 1}]", labels[outside][0].item()))
