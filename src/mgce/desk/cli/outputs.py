"""Check output files before a command does its work, and write results as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mgce._files import to_json, write_files
from mgce._messages import expected
from mgce.desk.cli.terminal import Terminal
from mgce.desk.files.table_files import is_like
from mgce.desk.files.written_tables import check_excel

STDOUT = Path("-")
Json = Annotated[
    Path | None, typer.Option("--json", help="File for the results as JSON; - prints them, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def check_outputs(outputs: Mapping[str, Path | Sequence[Path] | None], read: Iterable[Path | None]) -> None:
    """Raise an error if an output cannot be created or replaced, or is an input or another output of the command.

    Links, and paths of one file that are spelled differently, count as the file itself.

    Args:
        outputs: the files to write, by the name of their option; None for an option that was left out. A file for
            results as JSON may also be `STDOUT`. An option whose name ends in `_dir` names the folder of its files.
        read: the files that the command reads; None for an option that was left out.

    Raises:
        ValueError: if a file cannot be written, or something else uses it.
    """
    inputs = {_identity(path) for path in read if path is not None}
    taken = {*inputs}
    written: list[Path] = []
    for option, given in outputs.items():
        for path in [given] if isinstance(given, Path) else given or []:
            if option == "json" and path == STDOUT:
                continue
            if path.is_dir():
                raise ValueError(expected(option, "the path of a file", f"{path}, which is a folder"))
            real = Path(os.path.realpath(path))
            # A file cannot be a folder of another one either, even if neither exists yet.
            if _identity(path) in taken or any(real in other.parents or other in real.parents for other in written):
                what, got = "the path of a file that nothing else uses", path
                if option.endswith("_dir"):
                    what, got = f"a folder with a file {path.name} that nothing else uses", path.parent
                used = "reads" if _identity(path) in inputs else "writes"
                raise ValueError(f"{expected(option, what, str(got))} This command {used} it too: give another path.")
            folder = next(parent for parent in path.absolute().parents if parent.exists())
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise ValueError(expected(option, "the path of a file in a folder that can be written to", str(path)))
            taken.add(_identity(path))
            written.append(real)


def _identity(path: Path) -> object:
    """Return a key that is equal for all paths of one file, whether the file exists or not."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # nothing is there, or no path may look like this
        return os.path.realpath(path) if "\0" not in str(path) else str(path)
    return found.st_dev, found.st_ino


def check_table(option: str, path: Path, like: Path | None = None) -> None:
    """Raise an error unless the name of an output table ends in .csv, .xlsx or .parquet, the formats that are written.

    Args:
        option: name of the option, for errors.
        path: the file to write.
        like: the file of a table; `path` may be a changed copy of it, and may then have its format.

    Raises:
        ValueError: if the file name ends otherwise, or in .xlsx and the library for Excel files is not installed.
    """
    if path.suffix.lower() not in (".csv", ".xlsx", ".parquet") and not (like and is_like(path, like)):
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


def terminal(json_file: Path | None, quiet: bool) -> Terminal:
    """Return the terminal of a command; it stays silent with --quiet, or if the JSON goes to standard output."""
    return Terminal(quiet=quiet or json_file == STDOUT)


def write_json(path: Path | None, document: Mapping[str, Any]) -> None:
    """Write results as JSON to a file, or to standard output if the path is "-"; do nothing if the path is None."""
    if path == STDOUT:
        sys.stdout.write(to_json(document).decode())
    elif path is not None:
        write_files(path.parent, {path.name: to_json(document)})
