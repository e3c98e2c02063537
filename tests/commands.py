"""Commands in this process: a new one would take seconds to import PyTorch."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from mgce.desk.cli import main
from mgce_lab.cli.commands import COMMANDS as LAB

MODULES = {"mgce": "mgce.desk.cli.commands", "mgce-lab": "mgce_lab.cli.commands"}


@dataclass(frozen=True)
class Done:
    """What a command left: the fields of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def mgce(*arguments: object, folder: Path, columns: int = 100) -> Done:
    """Run a command of `mgce`, or of `mgce-lab` if that has it, in a folder, on a terminal that is so wide."""
    return run(program_of(*arguments[:1]), *arguments, folder=folder, columns=columns)


def program_of(command: object = None) -> str:
    """Return the name of the program that has a command."""
    return "mgce-lab" if command in LAB else "mgce"


def run(program: str, *arguments: object, folder: Path, columns: int = 100) -> Done:
    """Run a program, `mgce` or `mgce-lab`, in a folder, on a terminal that is so wide."""
    output, errors, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with (
            mock.patch.object(sys, "argv", [program, *map(str, arguments)]),
            mock.patch.dict(os.environ, COLUMNS=str(columns)),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            main.run(MODULES[program])
    except SystemExit as stopped:
        return Done(int(stopped.code or 0), output.getvalue(), errors.getvalue())
    finally:
        os.chdir(before)
    raise AssertionError("a command ends by SystemExit")
