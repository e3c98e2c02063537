"""Load the compiled library of CPU kernels for the instruction set of this machine.

The C++ files beside this module are compiled when the package is built, once for each instruction set. The kernels use
PyTorch's threads if they find PyTorch's OpenMP runtime. So `torch.set_num_threads` applies, no second thread pool
competes for the cores, and forked or concurrent callers are as safe as with PyTorch's operators.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

import torch

from mgce.kernels.options import SWITCHED_OFF, switched_off

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
