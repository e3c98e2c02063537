"""Write files completely or not at all, lock folders, and convert documents to JSON."""

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

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a disk is full, or a file larger than it may be
_PREFIX, _SUFFIX = ".mgce-", ".tmp"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in a `with` block; at its end, move what was written there to `path`.

    Other programs see either the old file or the complete new file. After an exception they see the old file. A folder
    can be written in the same way if nothing exists at `path` yet. The new content is written through to the disk
    before it is moved, and the move is written through before the block ends.

    The temporary path lies in a private folder beside `path` with an unpredictable name, so nobody can place a link
    there. Such folders that were left by killed processes are removed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "notes.txt")
        ...     with replacing(path) as temporary:
        ...         _ = temporary.write_text("all of it")
        ...     path.read_text(), len(list(path.parent.iterdir()))
        ('all of it', 1)
    """
    with _named(path), _private_folder(path.parent) as folder:
        temporary = folder / path.name
        yield temporary
        _to_disk(temporary)
        temporary.replace(path)  # unlike `rename`, also where there is a file on Windows
        _sync(path.parent)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the name of the file to an error of a full disk, which the system raises without a name."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM or _names_a_file(error):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _names_a_file(error: OSError) -> bool:
    """Return whether an error names a file that the caller knows, and not a temporary one."""
    return error.filename is not None and _PREFIX not in str(error.filename)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write all of the files, or none if one of them cannot be written; move them into place in the given order.

    Old files with these names, except the first, are removed before the first new file is moved into place. So if
    several of the files exist, the same call has written them.
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
    """Return a document as the bytes of standard JSON; infinite numbers become the texts `inf` or `-inf`, NaN null."""
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
    """Make a folder for temporary files, and remove it at the end of the block.

    The folder is locked as long as this process lives. If this process is killed, a later process can lock the folder.
    The lock shows that process that it may remove the folder.
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
    """Lock a folder in a `with` block; do nothing if the system cannot lock folders.

    The lock excludes only other blocks of this function, in this process or in another one.

    Raises:
        BlockingIOError: if another block has locked the folder.
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
    """Lock a folder and return the file descriptor of the lock; None if the folder cannot be locked now."""
    try:
        return _locked(folder)
    except OSError:  # it is locked, gone, no folder, or that of another user
        return None


def _locked(folder: Path) -> int | None:
    """Lock a folder and return the file descriptor of the lock; None on Windows, which cannot lock folders."""
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
    """Flush a file, or a folder with all its content, from memory to the disk."""
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
