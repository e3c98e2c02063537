"""Run the program `mgce COMMAND`: the entry point of the command line."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

from mgce._files import NO_ROOM

STARTED = monotonic()  # when the process began, but for the time that Python takes to start
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # of Ctrl-C; and of what ends a process, such as `kill` or a scheduler


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code after an interruption: 128 + the signal's number in `error.args`, or else that of Ctrl-C."""
    number: int = (error.args or SIGNALS)[0]
    return 128 + number


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Interrupted: nothing was written.\n")
    os._exit(128 + number)


@contextmanager
def interrupted_by(handler: Callable[[int, FrameType | None], None] = _end) -> Iterator[None]:
    """Let `handler` handle Ctrl-C and SIGTERM in this block; by default, it prints a line and ends the process.

    An exception would not end an import: some libraries catch every exception, and go on half imported.
    """
    before: dict[int, Any] = {}
    # Of another thread, or where signals are ignored or have another handler, all stays as it is.
    if current_thread() is main_thread():
        own = (signal.default_int_handler, signal.SIG_DFL, _interrupt)
        before = {number: now for number in SIGNALS if (now := signal.getsignal(number)) in own}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, now in before.items():
            signal.signal(number, now)


def main() -> None:
    """Run the command line of `mgce`."""
    run("mgce.desk.cli.commands")


def run(commands: str) -> None:
    """Run `app` of the module named `commands`; on an error in the input, print one sentence and exit with code 2."""
    for stream in (sys.stdout, sys.stderr):
        # Show characters that the encoding cannot write as \u0434: that of a pipe on Windows lacks most letters.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for package in ("pandas", "rich", "typer"):
        if find_spec(package) is None:
            from mgce._messages import not_installed

            sys.stderr.write(f"Error: {not_installed('the command line needs', package, 'cli')}\n")
            sys.exit(2)
    with interrupted_by():
        from mgce._text import printable

        app = import_module(commands).app

    try:
        try:
            with interrupted_by(_interrupt):
                app()
        finally:
            sys.stdout.flush()  # here, where a full disk is still said
    except (ValueError, OSError) as error:
        said = str(error)
        # Files are named where they are written: what has no name is the output of a command.
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            said += ": standard output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python tries once more when it ends
        sys.stderr.write(f"Error: {printable(said)}\n")
        sys.exit(2)
