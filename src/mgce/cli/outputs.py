"""Check output files before a command does its work, and write results as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mgce._files import to_json, write_files
from mgce._validation import expected
from mgce.cli.terminal import Terminal
from mgce.datasets.excel_files import check_excel

STDOUT = Path("-")
Json = Annotated[
    Path | None, typer.Option("--json", help="File for the results as JSON; - prints them, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def check_output(option: str, path: Path, *others: Path) -> None:
    """Raise an error if a file cannot be created or replaced, or is another file that the command reads or writes.

    Args:
        option: name of the option, for errors.
        path: the file to write.
        others: the other files that the command reads or writes.

    Raises:
        ValueError: if the file cannot be written, or is one of `others`.
    """
    if path.is_dir():
        raise ValueError(expected(option, "the path of a file", f"{path}, which is a folder"))
    if path.resolve() in [other.resolve() for other in others]:
        raise ValueError(expected(option, "the path of a file that serves for nothing else", str(path)))
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(expected(option, "the path of a file in a folder that can be written to", str(path)))


def check_table(option: str, path: Path) -> None:
    """Raise an error unless the name of an output table ends in .csv, .xlsx or .parquet, the formats that are written.

    Args:
        option: name of the option, for errors.
        path: the file to write.

    Raises:
        ValueError: if the file name ends otherwise, or in .xlsx and the library for Excel files is not installed.
    """
    if path.suffix.lower() not in (".csv", ".xlsx", ".parquet"):
        raise ValueError(expected(option, "the path of a .csv, .xlsx or .parquet file", str(path)))
    if path.suffix.lower() == ".xlsx":
        check_excel(option)


def check_folder(option: str, path: Path) -> None:
    """Raise an error if files cannot be written into a folder, or the folder does not exist and cannot be created.

    Args:
        option: name of the option, for errors.
        path: the folder.

    Raises:
        ValueError: if files cannot be written into it.
    """
    nearest = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        raise ValueError(expected(option, "the path of a folder", f"{path}, where {nearest} is a file"))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(expected(option, "the path of a folder that can be written to", str(path)))


def check_json(path: Path | None, *others: Path) -> None:
    """Raise an error if a file for results as JSON is given and cannot be written: see :func:`check_output`."""
    if path not in (None, STDOUT):
        check_output("json", path, *others)


def terminal(json_file: Path | None, quiet: bool) -> Terminal:
    """Return the terminal of a command; it stays silent with --quiet, or if the JSON goes to standard output."""
    return Terminal(quiet=quiet or json_file == STDOUT)


def write_json(path: Path | None, document: Mapping[str, Any]) -> None:
    """Write results as JSON to a file, or to standard output if the path is "-"; do nothing if the path is None."""
    if path == STDOUT:
        sys.stdout.write(to_json(document).decode())
    elif path is not None:
        write_files(path.parent, {path.name: to_json(document)})
