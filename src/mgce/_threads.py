"""How many threads NumPy's and SciPy's matrix products, and PyTorch's, may use for a while.

One policy holds for all estimators and commands: work in small steps is done on one thread, and only a step of more
than `SERIAL_WORK` multiplications on as many threads as BLAS and PyTorch have. So a fit takes the time of one core
whatever else runs beside it, its sums have one order, and a process that was forked after a small prediction can make
another (PyTorch's threads do not survive a fork, and whoever asks for them then waits for ever).
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
    """Hold the BLAS of NumPy and SciPy to one thread in the block, for products of small matrices.

    The threads of several libraries would only keep each other from the cores there.

    The number of BLAS's threads belongs to the process, while blocks may run on several Python threads at once. The
    first block sets it, and puts it back at its own end; blocks that begin in between leave it alone. If each of them
    noted the number and put it back, the last one to end could put back the 1 of another. Nor may the last one put back
    what the first one noted: from threadpoolctl 3.8 on, the thread that has set the number of OpenBLAS is the only one
    that can change it. So after the first block ends, others may have all threads for their rest: put this block around
    the whole of what runs side by side.
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
    """Hold BLAS and PyTorch to one thread in the block, unless its steps have more work than `SERIAL_WORK`."""
    with ExitStack() as stack:
        if multiplications <= SERIAL_WORK:
            stack.enter_context(one_blas_thread())
            stack.enter_context(one_torch_thread())
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Hold PyTorch to one thread in the block, as far as it is called from this Python thread.

    A new Python thread takes over the number that was set last, by whichever thread. So of blocks that run side by side
    all put back the number that the first of them has found, and none the 1 of another.
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
    """The blocks of one_torch_thread that there are now in all Python threads, and the number that they put back."""

    def __init__(self) -> None:
        self.lock, self.here = Lock(), local()
        self.count, self.threads = 0, 1


_torch = _TorchBlocks()


def _forget_blocks() -> None:
    """Forget the blocks of the other threads, of which there are none in a process that was just forked."""
    global _torch
    _torch = _TorchBlocks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_blocks)
