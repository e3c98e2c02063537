"""Compute losses of the label's softmax probability, and their gradients, in one call of compiled C++."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch
from torch import Tensor

from mgce._validation import target_out_of_range
from mgce.kernels import cpu_library
from mgce.kernels.options import LossOptions, SoftmaxArguments, SoftmaxTerms


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
    reduced = options.reduction != "none"
    loss = logits.new_empty(() if reduced else n)
    grad = torch.empty_like(logits) if want_grad else None
    run, address = _function(logits.dtype), ctypes.addressof(_filled(options, terms, k))
    status: int = run(
        address,
        n,
        logits.data_ptr(),
        target.data_ptr(),
        None if weight is None else weight.data_ptr(),
        None if reduced else loss.data_ptr(),
        loss.data_ptr() if reduced else None,
        None if grad is None else grad.data_ptr(),
        cpu_library.threads(n, k),
        cpu_library.team(),
    )
    if status != cpu_library.DONE:
        raise IndexError(target_out_of_range(int(target[status]), k, options.ignore_index))
    return loss, grad


@functools.cache
def _function(dtype: torch.dtype) -> Any:
    return getattr(cpu_library.library(), f"mgce_softmax_{str(dtype).removeprefix('torch.')}")


@functools.lru_cache(maxsize=256)  # a schedule of beta has new options at each step
def _filled(options: LossOptions, terms: SoftmaxTerms, k: int) -> _Options:
    return _Options(k, options.ignore_index, options.reduction == "mean", *terms)
