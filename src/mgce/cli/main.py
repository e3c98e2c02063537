"""Run the program `mgce COMMAND`: the entry point of the command line."""

from __future__ import annotations

import io
import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line. An error in the input prints one sentence to standard error and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        # Show characters that the encoding cannot write as \u0434: that of a pipe on Windows lacks most letters.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for package in ("pandas", "rich", "skops", "typer"):
        if find_spec(package) is None:
            from mgce._validation import not_installed

            sys.stderr.write(f"Error: {not_installed('the command line needs', package, 'cli')}\n")
            sys.exit(2)
    from mgce._text import printable
    from mgce.cli.commands import app

    try:
        app()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"Error: {printable(str(error))}\n")
        sys.exit(2)
