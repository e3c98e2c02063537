"""Limit the threads of BLAS (the matrix products of NumPy and SciPy) and of PyTorch in a `with` block.

One policy holds for all estimators and commands. Small steps of work run on one thread. Only steps of more than
`SERIAL_WORK` multiplications run on all threads of BLAS and PyTorch. So the time of a fit does not depend on other
processes, and its sums are always added in the same order. A process that was forked after a small prediction can also
predict: PyTorch's threads do not survive a fork, and a process that needs them then waits for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, local

# Multiplications of a step, a tenth of a second on one core, below which a second thread gains little. It costs much
# where other processes have the cores: the threads of a step wait for one another, and spin while they do.
SERIAL_WORK = 2e9

_limited = Lock()  # held by the block that has limited BLAS


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS of NumPy and SciPy to one thread in a `with` block, for products of small matrices.

    On small matrices, the threads of several libraries would only compete for the cores.

    The number of BLAS threads is set for the whole process, but blocks may run on several Python threads at once. The
    first block sets the number to 1, and restores it when it ends; blocks that begin in between do not change it. If
    each block saved and restored the number, the last one to end could restore the 1 that another block had set. The
    last block cannot restore the number of the first one either: from threadpoolctl 3.8 on, only the thread that set
    the number for OpenBLAS can change it. So blocks that outlast the first block may use all threads from then on. Put
    one block around all work that runs in parallel.
    """
    from threadpoolctl import threadpool_limits

    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        _limited.release()


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """Limit BLAS and PyTorch to one thread in a `with` block, unless its steps exceed `SERIAL_WORK` multiplications."""
    with ExitStack() as stack:
        if multiplications <= SERIAL_WORK:
            stack.enter_context(one_blas_thread())
            stack.enter_context(one_torch_thread())
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Limit PyTorch to one thread in a `with` block, for calls from this Python thread.

    A new Python thread starts with the number of threads that any Python thread has set last. So all blocks that run in
    parallel restore the number that the first of them has found. Otherwise a block could restore the number 1 that
    another block has set.
    """
    import torch

    blocks = _torch
    if getattr(blocks.here, "inside", False):
        yield
        return
    with blocks.lock:
        if blocks.count == 0:
            blocks.threads = torch.get_num_threads()
        blocks.count += 1
        threads = blocks.threads
    blocks.here.inside = True
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        blocks.here.inside = False
        with blocks.lock:
            blocks.count -= 1


class _TorchBlocks:
    """The number of active blocks of `one_torch_thread` in all Python threads, and the thread count to restore."""

    def __init__(self) -> None:
        self.lock, self.here = Lock(), local()
        self.count, self.threads = 0, 1


_torch = _TorchBlocks()


def _forget_blocks() -> None:
    """Reset the count of blocks after a fork: the new process has none of the other Python threads."""
    global _torch
    _torch = _TorchBlocks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_blocks)
