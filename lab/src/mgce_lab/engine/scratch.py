"""Manage the scratch folders of long runs, which contain checkpoints from which a stopped run resumes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mgce._files import alone_in
from mgce._messages import expected
from mgce_lab.engine.place import Place


@contextlib.contextmanager
def folder_of(place: Place, name: str) -> Iterator[Path]:
    """Lock the scratch folder of a run for the `with` block, and yield it; without `place.scratch` it is temporary.

    A folder in `place.scratch` is kept after the block: until the run's records are stored, nothing else of the run
    exists.
    """
    if place.scratch is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
        return
    folder = place.scratch / name
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        yield folder


def remove(place: Place, name: str) -> None:
    """Delete the folder of a finished run, unless another command is using it."""
    if place.scratch is not None:
        with contextlib.suppress(OSError), alone_in(place.scratch / name):
            shutil.rmtree(place.scratch / name, ignore_errors=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone_in(folder))
        except BlockingIOError:
            what = "that of one command for the same runs at a time"
            raise ValueError(expected("out_dir", what, f"run {folder.name}, which another command is at")) from None
        yield
