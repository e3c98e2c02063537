"""Files that are whole or not there, and the JSON that is written into them."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

if sys.platform != "win32":  # where what a killed process left stays there
    import fcntl

_PREFIX, _SUFFIX = ".mgce-", ".tmp"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Return a temporary path near `path`; what is written there takes the place of `path` at the end of the block.

    Other programs see the earlier file or the new one, never a part of it; after an exception they see the earlier
    one. The same holds of a folder, as long as there is none at `path` yet. The new one is on the disk, not only in
    memory, before it takes its place, and so is its place when the block has ended.

    The temporary path lies in a folder beside `path` that nobody else can open, and whose name nobody can foresee, so
    that no link can be put in its way. What killed processes left of such folders is removed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "notes.txt")
        ...     with replacing(path) as temporary:
        ...         _ = temporary.write_text("all of it")
        ...     path.read_text(), len(list(path.parent.iterdir()))
        ('all of it', 1)
    """
    with _private_folder(path.parent) as folder:
        temporary = folder / path.name
        yield temporary
        _to_disk(temporary)
        temporary.replace(path)  # unlike `rename`, also where there is a file on Windows
        _sync(path.parent)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write all of the files or, if one cannot be written, none; they take their places in the order given.

    Files that are written together belong together. So the earlier ones are gone, but for the first, before the first
    of the new ones is there: whoever finds several finds those of one call.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for name, content in reversed(list(files.items())):  # a stack is left in the reverse order
            temporary = stack.enter_context(replacing(directory / name))
            temporary.write_bytes(content)
            _sync(temporary)  # now, since a full disk may say so as late as this
        for name in list(files)[1:]:
            if (directory / name).is_file():
                (directory / name).unlink()


def to_json(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON that any reader takes: an infinite beta as the text `inf`, NaN as null."""
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


@contextmanager
def _private_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for temporary files that is removed at the end, or by the next process if this one is killed.

    It is locked as long as this process lives: a folder that can be locked is one whose process is gone.
    """
    _remove_abandoned(parent)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, suffix=_SUFFIX, dir=parent))
        lock = _lock(folder)
        if folder.exists():  # another process may have taken it for abandoned, just before it was locked
            break
        _unlock(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(lock)


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*{_SUFFIX}"):
        lock = _lock(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            _unlock(lock)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep others out of a folder that they enter in this way too; where folders cannot be locked, do nothing.

    Raises:
        BlockingIOError: if another is in it.
    """
    try:
        lock = _locked(folder)
    except OSError as error:
        # What file systems without such locks say; EBADF that NFS does, which locks only what may be written.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF):
            raise
        lock = None
    try:
        yield
    finally:
        _unlock(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder and give the descriptor that holds the lock; None if it is locked, or cannot be."""
    try:
        return _locked(folder)
    except OSError:  # it is locked, gone, no folder, or that of another user
        return None


def _locked(folder: Path) -> int | None:
    """Lock a folder and give the descriptor that holds the lock; None on Windows, which locks no folders."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _to_disk(path: Path) -> None:
    """Have the system write a file, or a folder and all in it, to the disk."""
    if path.is_dir():
        for part in path.rglob("*"):
            _sync(part)
    _sync(path)


def _sync(path: Path) -> None:
    if sys.platform == "win32":  # Windows opens no folders, and no files to read, for this
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that have nothing to sync
            raise
    finally:
        os.close(descriptor)
