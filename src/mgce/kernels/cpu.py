"""Compute the MGCE loss and its gradient on the CPU, in one call of compiled C++.

`cpu_kernel.cpp` is compiled when the package is built, once for each instruction set, and loaded at the first call. The
kernel uses PyTorch's threads if it finds PyTorch's OpenMP runtime. So `torch.set_num_threads` applies, no second thread
pool competes for the cores, and forked or concurrent callers are as safe as with PyTorch's operators.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

import torch
from torch import Tensor

from mgce._validation import target_out_of_range
from mgce.kernels.options import SWITCHED_OFF, LossArguments, LossOptions, switched_off

# Up to so many classes, some 15 microseconds of work, waking another thread costs more than it saves. Each row counts
# as ROW_CLASSES more, for the work that does not depend on their number.
SERIAL_CLASSES = 20_000
ROW_CLASSES = 100

_DONE, _NO_MEMORY = -1, -2
# What is written beside the loss, which without a target is -t.
_GRADIENT, _WORST_CASE, _MINIMAX = 0, 1, 2
_ROWS = LossOptions(reduction="none")
# What PyTorch calls the instruction sets of the processor, and the variant compiled for each.
_VARIANTS = {"AVX512": "avx512", "AVX2": "avx2"}


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


@functools.cache
def obstacle() -> str | None:
    """Return why the kernel cannot be used on this machine; None if it can."""
    if switched_off():
        return SWITCHED_OFF
    try:
        _library()
    except OSError as error:
        remedy = "install a wheel for this platform, or a C++ compiler (GCC or Clang) and then mgce again"
        return f"the compiled kernel cannot be loaded ({error}); {remedy}"
    return None


def variant() -> str:
    """Return the name of the instruction set that the kernel of this machine is compiled for."""
    return _VARIANTS.get(torch.backends.cpu.get_cpu_capability(), "default")


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
    reduced = options.reduction != "none"
    loss = logits.new_empty(() if reduced else n)
    grad = (logits if inplace else torch.empty_like(logits)) if want_grad else None
    labels = not target.is_floating_point()
    status = _run(
        logits,
        _plan(options, beta, k, logits.dtype, _GRADIENT),
        target.data_ptr() if labels else None,
        None if labels else target.data_ptr(),
        None if weight is None else weight.data_ptr(),
        None if reduced else loss.data_ptr(),
        loss.data_ptr() if reduced else None,
        None if grad is None else grad.data_ptr(),
    )
    if status != _DONE:
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
    _run(logits, plan, None, None, None, minus_t.data_ptr(), None, probs.data_ptr())
    return minus_t.neg_(), probs


def _run(logits: Tensor, plan: _Plan, *pointers: int | None) -> int:
    """Run the kernel; return its status, which is the number of a row if the label of this row is not a class."""
    n, k = logits.shape
    threads = torch.get_num_threads() if n * (k + ROW_CLASSES) > SERIAL_CLASSES else 1
    status: int = plan.run(plan.address, n, logits.data_ptr(), *pointers, threads, _team())
    if status == _NO_MEMORY:
        raise MemoryError("The kernel found no memory to work in.")
    return status


class _Plan:
    """The kernel's precomputed data for some options, freed when this object is deleted."""

    def __init__(self, options: LossOptions, beta: float, k: int, dtype: torch.dtype, output: int) -> None:
        library, name = _library(), str(dtype).removeprefix("torch.")
        self.run = getattr(library, f"mgce_run_{name}")
        mean = options.reduction == "mean"
        filled = _Options(k, options.ignore_index, mean, beta, options.label_smoothing, output)
        self.address = getattr(library, f"mgce_make_plan_{name}")(ctypes.byref(filled))
        if not self.address:
            raise MemoryError("The kernel found no memory to work in.")
        self._free = library.mgce_free_plan

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self._free(self.address)


# An annealed beta leaves a plan of 1 KB behind at each step.
_plan = functools.lru_cache(maxsize=256)(_Plan)


@functools.cache
def _library() -> ctypes.CDLL:
    suffix = ".dll" if sys.platform == "win32" else ".so"
    library = ctypes.CDLL(str(Path(__file__).with_name(f"_cpu_{variant()}{suffix}")))
    address, count = ctypes.c_void_p, ctypes.c_int64
    for name in ("float32", "float64"):
        make, run = getattr(library, f"mgce_make_plan_{name}"), getattr(library, f"mgce_run_{name}")
        make.argtypes, make.restype = (address,), address
        run.argtypes, run.restype = (address, count, *(address,) * 7, count, address), count
    library.mgce_free_plan.argtypes, library.mgce_free_plan.restype = (address,), None
    return library


@functools.cache
def _team() -> int | None:
    """Return the address of the function of PyTorch's OpenMP runtime that starts threads; None if it is not found."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):  # another OpenMP runtime, or none: the kernel starts threads itself
        return None
