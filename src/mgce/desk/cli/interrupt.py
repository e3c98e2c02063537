"""End a command that is interrupted while it imports libraries: with one line, since nothing was done yet."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # the exit code: 128 + the number of SIGINT


@contextmanager
def one_line_if_interrupted() -> Iterator[None]:
    """On Ctrl-C in this block, print one line, and end the process at once.

    An exception would not do: libraries catch it, and go on half imported.
    """
    # Of another thread, or where signals are ignored or have another handler, all stays as it is.
    try:
        before = signal.getsignal(signal.SIGINT)
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, _end)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Interrupted: nothing was written.\n")
    os._exit(INTERRUPTED)
