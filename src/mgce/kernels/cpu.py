"""Call the compiled C++ of the CPU: losses with their gradients, and which rows a trimmed loss keeps.

The C++ files beside this module are compiled when the package is built, once for each instruction set. The kernels use
PyTorch's threads if they find PyTorch's OpenMP runtime. So `torch.set_num_threads` applies, no second thread pool
competes for the cores, and forked or concurrent callers are as safe as with PyTorch's operators.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mgce._validation import target_out_of_range
from mgce.kernels.options import SWITCHED_OFF, LossArguments, LossOptions, SoftmaxArguments, SoftmaxTerms, switched_off

# Up to so many classes, some 15 microseconds of work, waking another thread costs more than it saves. Each row counts
# as ROW_CLASSES more, for the work that does not depend on their number.
SERIAL_CLASSES = 20_000
ROW_CLASSES = 100
# What a kernel returns. Any other number is that of a row whose label is not a class.
DONE, NO_MEMORY = -1, -2
# What PyTorch calls the instruction sets of the processor, and the variant compiled for each.
_VARIANTS = {"AVX512": "avx512", "AVX2": "avx2"}


@functools.cache
def obstacle() -> str | None:
    """Return why the kernels cannot be used on this machine; None if they can."""
    if switched_off():
        return SWITCHED_OFF
    try:
        library()
    except OSError as error:
        remedy = "install a wheel for this platform, or a C++ compiler (GCC or Clang) and then mgce again"
        return f"the compiled kernel cannot be loaded ({error}); {remedy}"
    return None


def variant() -> str:
    """Return the name of the instruction set that the kernels of this machine are compiled for."""
    return _VARIANTS.get(torch.backends.cpu.get_cpu_capability(), "default")


def threads(n: int, k: int) -> int:
    """Return how many threads are worth waking for logits of n rows and k classes."""
    return torch.get_num_threads() if n * (k + ROW_CLASSES) > SERIAL_CLASSES else 1


@functools.cache
def library() -> ctypes.CDLL:
    """Load the library; its functions accept addresses and 64-bit numbers.

    Raises:
        OSError: if there is no library, or if it was compiled from other sources than these.
    """
    suffix = ".dll" if sys.platform == "win32" else ".so"
    loaded = ctypes.CDLL(str(Path(__file__).with_name(f"_cpu_{variant()}{suffix}")))
    try:
        _declare(loaded)
    except AttributeError as error:  # a function is missing
        raise OSError(f"it was compiled from other sources: {error}") from error
    return loaded


def _declare(loaded: ctypes.CDLL) -> None:
    """Set the types of the arguments of all functions."""
    address, count = ctypes.c_void_p, ctypes.c_int64
    for name in ("float32", "float64"):
        names = ("make_plan", "loss", "softmax_loss", "trim")
        make, run, softmax, trim = (getattr(loaded, f"mgce_{what}_{name}") for what in names)
        make.argtypes, make.restype = (address,), address
        # A structure of all arguments, packed into bytes: ctypes takes half as long for it as for so many arguments.
        run.argtypes, run.restype = (ctypes.c_char_p,), count
        softmax.argtypes, softmax.restype = (ctypes.c_char_p,), count
        trim.argtypes, trim.restype = (count, address, address, *(count,) * 3, *(address,) * 4), count
    loaded.mgce_free_plan.argtypes, loaded.mgce_free_plan.restype = (address,), None


@functools.cache
def team() -> int:
    """Return the address of the function of PyTorch's OpenMP runtime that starts threads; 0 if it is not found."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):  # another OpenMP runtime, or none: a kernel starts threads itself
        return 0


_ARGUMENTS = struct.Struct("11Q").pack  # the C structure `Arguments` of cpu_kernel.cpp
# What is written beside the loss, which without a target is -t.
_GRADIENT, _WORST_CASE, _MINIMAX = 0, 1, 2
_ROWS = LossOptions(reduction="none")


class _Options(ctypes.Structure):
    """The C structure `Options` of cpu_kernel.cpp."""

    _fields_ = (
        ("classes", ctypes.c_int64),
        ("ignore_index", ctypes.c_int64),
        ("mean", ctypes.c_int64),
        ("beta", ctypes.c_double),
        ("label_smoothing", ctypes.c_double),
        ("output", ctypes.c_int64),
    )


def loss_and_grad(
    logits: Tensor, arguments: LossArguments, *, want_grad: bool = True, inplace: bool = False
) -> tuple[Tensor, Tensor | None]:
    r"""Compute the MGCE loss of a batch, and its gradient with respect to the logits, in one pass.

    .. math:: \ell_i = -\sum_y q_{iy} (f_{iy} + \varphi_\beta(f_i)), \qquad
              \partial \ell_i / \partial f_i = \Big(\sum_y q_{iy}\Big) p_\beta(f_i) - q_i

    with q the one-hot or given targets after label smoothing and class weights, as in cross-entropy, phi the normalizer
    and p the worst-case probabilities. Only the range of the labels is checked.

    Args:
        logits: f, shape (N, k) for N rows and k classes, contiguous, float32 or float64; -inf masks a class.
        arguments: the target contains labels in int64, or probabilities in the dtype of `logits`. The class weights
            have that dtype too. Both are contiguous. Beta is in [1, 2^64).
        want_grad: whether to compute the gradient of the reduced loss; for "none", that of the sum over the rows.
        inplace: whether to write the gradient into the memory of the logits.

    Returns:
        The loss, shape (N,) for "none", else (); and the gradient, shape (N, k), or None. A row that contains NaN or
        +inf, or only -inf, gives NaN in both.

    Raises:
        IndexError: if a label is neither `ignore_index` nor in [0, k).
        MemoryError: if the kernel cannot allocate its working memory.
    """
    n, k = logits.shape
    target, weight, options, beta = arguments
    plan = _plan(options, beta, k, logits.dtype, _GRADIENT)
    loss = logits.new_empty(n) if plan.scalar is None else torch.empty_like(plan.scalar)
    grad = (logits if inplace else torch.empty_like(logits)) if want_grad else None
    labels = target.dtype is torch.int64
    status = plan.run(
        n,
        logits.data_ptr(),
        target.data_ptr() if labels else 0,
        0 if labels else target.data_ptr(),
        0 if weight is None else weight.data_ptr(),
        loss.data_ptr() if plan.scalar is None else 0,
        0 if plan.scalar is None else loss.data_ptr(),
        0 if grad is None else grad.data_ptr(),
    )
    if status != DONE:
        raise IndexError(target_out_of_range(int(target[status]), k, options.ignore_index))
    return loss, grad


def root_and_probs(logits: Tensor, *, beta: float, minimax: bool) -> tuple[Tensor, Tensor]:
    """Compute `t = phi + max f` and the minimax probabilities h, or the worst-case probabilities p, of logits f.

    phi is the normalizer of MGCE.

    Args:
        logits: as for :func:`loss_and_grad`.
        beta: float in [1, 2^64).
        minimax: whether to compute h instead of p.

    Returns:
        t, shape (N,), and the probabilities, shape (N, k). A row that contains NaN or +inf, or only
            -inf, gives NaN.

    Raises:
        MemoryError: if the kernel cannot allocate its working memory.
    """
    minus_t, probs = logits.new_empty(len(logits)), torch.empty_like(logits)
    plan = _plan(_ROWS, beta, logits.shape[1], logits.dtype, _MINIMAX if minimax else _WORST_CASE)
    plan.run(len(logits), logits.data_ptr(), 0, 0, 0, minus_t.data_ptr(), 0, probs.data_ptr())
    return minus_t.neg_(), probs


class _Plan:
    """The kernel's precomputed data for some options, freed when this object is deleted."""

    def __init__(self, options: LossOptions, beta: float, k: int, dtype: torch.dtype, output: int) -> None:
        self.scalar = None if options.reduction == "none" else _scalar(dtype)
        self._k = k
        self._run = _function("loss", dtype)
        filled = _Options(k, options.ignore_index, options.reduction == "mean", beta, options.label_smoothing, output)
        self._address = _function("make_plan", dtype)(ctypes.byref(filled))
        if not self._address:
            raise MemoryError("The kernel found no memory to work in.")
        self._free = library().mgce_free_plan

    def run(self, n: int, *pointers: int) -> int:
        """Run the kernel on n rows; return its status: a row's number if the label of the row is not a class.

        Raises:
            MemoryError: if the kernel cannot allocate its working memory.
        """
        status: int = self._run(_ARGUMENTS(self._address, n, *pointers, threads(n, self._k), team()))
        if status == NO_MEMORY:
            raise MemoryError("The kernel found no memory to work in.")
        return status

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            self._free(self._address)


# An annealed beta leaves a plan of 2 KB behind at each step.
_plan = functools.lru_cache(maxsize=256)(_Plan)


_SOFTMAX_ARGUMENTS = struct.Struct("10Q").pack  # the C structure `Arguments` of cpu_softmax.cpp


class _SoftmaxOptions(ctypes.Structure):
    """The C structure `Options` of cpu_softmax.cpp."""

    _fields_ = (
        ("classes", ctypes.c_int64),
        ("ignore_index", ctypes.c_int64),
        ("mean", ctypes.c_int64),
        ("a", ctypes.c_double),
        ("b", ctypes.c_double),
        ("beta", ctypes.c_double),
    )


def softmax_loss_and_grad(
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
    packed = _SOFTMAX_ARGUMENTS(
        ctypes.addressof(_filled(options, terms, k)),
        n,
        logits.data_ptr(),
        target.data_ptr(),
        0 if weight is None else weight.data_ptr(),
        loss.data_ptr() if scalar is None else 0,
        0 if scalar is None else loss.data_ptr(),
        0 if grad is None else grad.data_ptr(),
        threads(n, k),
        team(),
    )
    status: int = _function("softmax_loss", logits.dtype)(packed)
    if status != DONE:
        raise IndexError(target_out_of_range(int(target[status]), k, options.ignore_index))
    return loss, grad


@functools.cache
def _scalar(dtype: torch.dtype) -> Tensor:
    """Return a scalar: `empty_like` of it allocates a loss faster than `empty` with shape and dtype."""
    return torch.empty((), dtype=dtype, device="cpu")


@functools.lru_cache(maxsize=256)  # a schedule of beta has new options at each step
def _filled(options: LossOptions, terms: SoftmaxTerms, k: int) -> _SoftmaxOptions:
    return _SoftmaxOptions(k, options.ignore_index, options.reduction == "mean", *terms)


_INFINITE = -1  # returned if a row that is not kept has an infinite loss


def rows_to_keep(
    losses: Tensor, target: Tensor, ignored: int, stored: Tensor, count: Tensor, share: Tensor
) -> tuple[Tensor, int | None]:
    """Store losses, and find the rows whose loss is not above the quantile of their label.

    The results are those of :meth:`mgce.losses.trimmed.RecentLosses.forward`, which explains them.

    Args:
        losses: of n rows, shape (n,), float32 or float64. Rows with a NaN, or with none of the labels, are kept.
        target: labels, shape (n,), int64.
        ignored: the label of rows that are neither stored nor kept.
        stored: the most recent losses of each label, shape (labels + 1, window + 1), dtype of `losses`, changed in
            place.
        count: number of losses seen for each label, shape (labels + 1,), int64, changed in place.
        share: for each label, the fraction of its rows to leave out, shape (labels,), in units of 2^-36.

    Returns:
        The mask, shape (n,), bool, and the number of rows kept; 1 if no row is kept though some are not ignored. The
            number is None if a row that is not kept has an infinite loss. All tensors are contiguous and on the CPU.
    """
    kept = torch.empty(target.shape, dtype=torch.bool, device="cpu")
    labels, window = stored.shape[0] - 1, stored.shape[1] - 1
    number: int = _function("trim", losses.dtype)(
        len(target),
        losses.data_ptr(),
        target.data_ptr(),
        ignored,
        labels,
        window,
        stored.data_ptr(),
        count.data_ptr(),
        share.data_ptr(),
        kept.data_ptr(),
    )
    return kept, None if number == _INFINITE else number


@functools.cache
def _function(name: str, dtype: torch.dtype) -> Any:
    return getattr(library(), f"mgce_{name}_{str(dtype).removeprefix('torch.')}")
