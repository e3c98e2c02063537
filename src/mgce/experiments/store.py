"""Files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def write_files(directory: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write every file under a temporary name, then rename all: none is ever seen half-written."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = {name: directory / f".{name}.{os.getpid()}.tmp" for name in files}
    try:
        for name, content in files.items():
            temporary[name].write_bytes(content)
        return [temporary[name].rename(directory / name) for name in files]
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
