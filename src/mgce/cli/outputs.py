"""Whether the files that a command will write can be written, asked before its work."""

from __future__ import annotations

import os
from pathlib import Path

from mgce._validation import expected


def check_output(option: str, path: Path, *others: Path) -> None:
    """Require that a file can be created or replaced, and is none of the others.

    Raises:
        ValueError: if not.
    """
    if path.is_dir():
        raise ValueError(expected(option, "the path of a file", f"{path}, which is a folder"))
    if path.resolve() in [other.resolve() for other in others]:
        raise ValueError(expected(option, "the path of a file that serves for nothing else", str(path)))
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(expected(option, "the path of a file in a folder that can be written to", str(path)))
