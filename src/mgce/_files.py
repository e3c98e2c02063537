"""Files that are whole or not there, and the JSON that is written into them."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; what is written there takes the place of `path` at the end of the block.

    Other programs see the earlier file or the new one, never a part of it; after an exception they see the earlier
    one. The same holds of a folder, as long as there is none at `path` yet.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "notes.txt")
        ...     with replacing(path) as temporary:
        ...         _ = temporary.write_text("all of it")
        ...     path.read_text(), len(list(path.parent.iterdir()))
        ('all of it', 1)
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _remove(temporary)  # a process that was killed may have had this number
    try:
        yield temporary
        temporary.replace(path)  # unlike `rename`, also where there is a file on Windows
    finally:
        _remove(temporary)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write all of the files or, if one cannot be written, none; they take their places in the order given."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for name, content in reversed(list(files.items())):  # a stack is left in the reverse order
            stack.enter_context(replacing(directory / name)).write_bytes(content)


def to_json(document: Mapping[str, Any]) -> bytes:
    """Give a document as JSON that any reader takes: an infinite beta as the text `inf`, NaN as null."""
    return (json.dumps(plain(document), indent=1, allow_nan=False) + "\n").encode()


def plain(value: Any) -> Any:
    """Replace tuples by lists, an infinite number by the text `inf` or `-inf`, and NaN by None, for JSON."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
