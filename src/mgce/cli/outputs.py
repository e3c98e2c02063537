"""Check that a command can write its files, before it does its work."""

from __future__ import annotations

import os
from pathlib import Path

from mgce._validation import expected


def check_output(option: str, path: Path, *others: Path) -> None:
    """Require that a file can be created or replaced, and is none of the others that the command reads or writes.

    Args:
        option: name of the option that the error speaks of.
        path: the file.
        others: files that it must differ from.

    Raises:
        ValueError: if it cannot, or is one of the others.
    """
    if path.is_dir():
        raise ValueError(expected(option, "the path of a file", f"{path}, which is a folder"))
    if path.resolve() in [other.resolve() for other in others]:
        raise ValueError(expected(option, "the path of a file that serves for nothing else", str(path)))
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(expected(option, "the path of a file in a folder that can be written to", str(path)))


def check_folder(option: str, path: Path) -> None:
    """Require that files can be written into a folder, which may be there or not.

    Args:
        option: name of the option that the error speaks of.
        path: the folder.

    Raises:
        ValueError: if they cannot.
    """
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise ValueError(expected(option, "the path of a folder", f"{path}, where {there} is a file"))
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(expected(option, "the path of a folder that can be written to", str(path)))
