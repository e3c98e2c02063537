"""Run the program `mgce COMMAND`: the entry point of the command line."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from time import monotonic
from types import FrameType

from mgce._files import NO_ROOM

STARTED = monotonic()  # when the process began, but for the time that Python takes to start
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


def main() -> None:
    """Run the command line of `mgce`."""
    run("mgce.desk.cli.commands")


def run(commands: str) -> None:
    """Run the program `app` of a module; an error in the input prints one sentence, and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        # Show characters that the encoding cannot write as \u0434: that of a pipe on Windows lacks most letters.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for package in ("pandas", "rich", "typer"):
        if find_spec(package) is None:
            from mgce._messages import not_installed

            sys.stderr.write(f"Error: {not_installed('the command line needs', package, 'cli')}\n")
            sys.exit(2)
    with one_line_if_interrupted():
        from mgce._text import printable

        app = import_module(commands).app

    try:
        try:
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
