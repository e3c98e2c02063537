"""Folders in which long runs keep what they need to go on after a stop, each under the name of its run."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mgce._files import alone_in
from mgce._validation import expected
from mgce.runs.place import Place
from mgce.runs.store import former_names, run_name


@contextlib.contextmanager
def folder_of(place: Place, name: str) -> Iterator[Path]:
    """Return the folder of a run, which nobody else enters meanwhile; without `place.scratch` a temporary one.

    A folder in `place.scratch` stays: until the run's records are written, it is all there is of the run.
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
    """Remove the folder of a run that is finished, but not from under another command."""
    if place.scratch is not None:
        with contextlib.suppress(OSError), alone_in(place.scratch / name):
            shutil.rmtree(place.scratch / name, ignore_errors=True)


def carry_over(place: Place, documents: Iterable[Mapping[str, Any]]) -> None:
    """Rename what runs left under the name of an earlier version to the name that they have now.

    That is the folder of a run that was stopped, and the logits of one that is finished. What lies under the new name
    already stays as it is.

    Args:
        place: with the folders.
        documents: the specifications of the runs.
    """
    for specification in documents:
        name = run_name(specification)
        for former in former_names(specification):
            if place.scratch is not None and _is_movable(place.scratch / former, place.scratch / name):
                with _alone(place.scratch / former):
                    (place.scratch / former).rename(place.scratch / name)
            if place.logits is not None and _is_movable(place.logits / f"{former}.npz", place.logits / f"{name}.npz"):
                (place.logits / f"{former}.npz").rename(place.logits / f"{name}.npz")


def _is_movable(before: Path, after: Path) -> bool:
    return before.exists() and not after.exists()


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone_in(folder))
        except BlockingIOError:
            what = "that of one command for the same runs at a time"
            raise ValueError(expected("out_dir", what, f"run {folder.name}, which another command is at")) from None
        yield
