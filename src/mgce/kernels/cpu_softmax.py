"""Compute losses of the label's softmax probability, and their gradients, in one call of compiled C++."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any

import torch
from torch import Tensor

from mgce._validation import target_out_of_range
from mgce.kernels import cpu_library
from mgce.kernels.options import LossOptions, SoftmaxArguments, SoftmaxTerms

_ARGUMENTS = struct.Struct("10Q").pack  # the C structure `Arguments` of cpu_softmax.cpp


class _Options(ctypes.Structure):
    """The C structure `Options` of cpu_softmax.cpp."""

    _fields_ = (
        ("classes", ctypes.c_int64),
        ("ignore_index", ctypes.c_int64),
        ("mean", ctypes.c_int64),
        ("a", ctypes.c_double),
        ("b", ctypes.c_double),
        ("beta", ctypes.c_double),
    )


def loss_and_grad(
    logits: Tensor, arguments: SoftmaxArguments, *, want_grad: bool = True
) -> tuple[Tensor, Tensor | None]:
    r"""Compute a loss of the softmax probability of the label, and its gradient with respect to the logits.

    .. math:: \ell_i = w_i \Big(-a \log p_{iy} + b \beta \big(1 - p_{iy}^{1/\beta}\big)\Big), \qquad
              \frac{\partial \ell_i}{\partial f_i} = w_i \big(a + b p_{iy}^{1/\beta}\big) (p_i - e_y), \qquad
              p_i = \mathrm{softmax}(f_i)

    with w the class weight of the label y, and a, b and beta the `terms` of the arguments. Only the range of the labels
    is checked.

    Args:
        logits: f, shape (N, k) for N rows and k classes, contiguous, float32 or float64; -inf masks a class.
        arguments: the target contains labels in int64. Class weights have the dtype of `logits`. Both are contiguous.
        want_grad: whether to compute the gradient of the reduced loss; for "none", that of the sum over the rows.

    Returns:
        The loss, shape (N,) for "none", else (); and the gradient, shape (N, k), or None. A row that contains NaN or
        +inf, or only -inf, gives NaN in both.

    Raises:
        IndexError: if a label is neither `ignore_index` nor in [0, k).
    """
    n, k = logits.shape
    target, weight, options, terms = arguments
    scalar = None if options.reduction == "none" else _scalar(logits.dtype)
    loss = logits.new_empty(n) if scalar is None else torch.empty_like(scalar)
    grad = torch.empty_like(logits) if want_grad else None
    packed = _ARGUMENTS(
        ctypes.addressof(_filled(options, terms, k)),
        n,
        logits.data_ptr(),
        target.data_ptr(),
        0 if weight is None else weight.data_ptr(),
        loss.data_ptr() if scalar is None else 0,
        0 if scalar is None else loss.data_ptr(),
        0 if grad is None else grad.data_ptr(),
        cpu_library.threads(n, k),
        cpu_library.team(),
    )
    status: int = _function(logits.dtype)(packed)
    if status != cpu_library.DONE:
        raise IndexError(target_out_of_range(int(target[status]), k, options.ignore_index))
    return loss, grad


@functools.cache
def _scalar(dtype: torch.dtype) -> Tensor:
    """Return a scalar: to allocate a loss like it is faster than to allocate the loss by shape and dtype."""
    return torch.empty((), dtype=dtype, device="cpu")


@functools.cache
def _function(dtype: torch.dtype) -> Any:
    return getattr(cpu_library.library(), f"mgce_softmax_loss_{str(dtype).removeprefix('torch.')}")


@functools.lru_cache(maxsize=256)  # a schedule of beta has new options at each step
def _filled(options: LossOptions, terms: SoftmaxTerms, k: int) -> _Options:
    return _Options(k, options.ignore_index, options.reduction == "mean", *terms)
