"""Encode many pictures or texts, in blocks that survive a stop."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._files import alone_in, replacing
from mgce._validation import expected
from mgce.desk.encoders.inputs import Encoder, Inputs
from mgce.desk.encoders.pictures import on_unread
from mgce.features.feature_files import read_features, write_features

BLOCK = 16  # batches of a block, which is written as a whole: a stop loses half a minute of pictures on one core
OnRows = Callable[[int, int], None]  # is told how many rows are done, of how many


def embed(
    encoder: Encoder, inputs: Inputs, out: Path, *, batch: int = 32, half: bool = False, on_rows: OnRows | None = None
) -> bool:
    """Encode all inputs into a file of features.

    Blocks of rows are kept in the folder `OUT.parts` until all are there. The same call goes on after a stop, and
    writes the bytes that one without a stop writes. If the file is there already, of the same encoder and the same
    inputs, nothing is done.

    Args:
        encoder: the encoder.
        inputs: pictures or texts, of the encoder's kind, at least one.
        out: the file of features, its suffix one of :data:`mgce.features.feature_files.SUFFIXES`.
        batch: inputs that go through the network together.
        half: write float16 instead of float32.
        on_rows: is told the rows that are done, and their number, after each batch.

    Returns:
        Whether anything had to be encoded.

    Raises:
        ValueError: if the inputs are of another kind, or another call is writing the same file.
        OSError: if no picture can be read. Of some that cannot, the file has no row: see :func:`unread_pictures`.
    """
    if inputs.kind != encoder.card.kind:
        raise ValueError(expected("encoder", f"an encoder of {inputs.kind}", f"one of {encoder.card.kind}"))
    content, dtype = inputs.checksum(), "float16" if half else "float32"
    if _is_there(out, encoder, content, dtype):
        return False
    key = json.dumps([json.loads(encoder.card.to_json()), content, dtype, batch])
    parts = out.with_name(f"{out.name}.parts") / hashlib.sha256(key.encode()).hexdigest()[:16]
    _remove_others(parts)
    parts.mkdir(parents=True, exist_ok=True)
    try:
        with alone_in(parts):
            blocks = _encoded(encoder, inputs, parts, batch, dtype, on_rows)
            read = np.concatenate([~np.isnan(_block(path)).all(1) for path in blocks])
            if not read.any():
                encoder.encode(inputs.items[:1])  # which raises an error
            names = [name for name, there in zip(inputs.names, read, strict=True) if there]
            rows = (block[~np.isnan(block).all(1)] for block in map(_block, blocks))
            write_features(out, rows, dtype, names, encoder.card, content)
    except BlockingIOError:
        raise ValueError(expected("out", "a file that no other command writes now", str(out))) from None
    shutil.rmtree(parts.parent, ignore_errors=True)
    return True


def _encoded(
    encoder: Encoder, inputs: Inputs, parts: Path, batch: int, dtype: str, on_rows: OnRows | None
) -> list[Path]:
    """Encode the blocks that are not there yet; return the files of all."""
    files, size = [], batch * BLOCK
    for begin in range(0, len(inputs), size):
        path = parts / f"{begin // size:06d}.npy"
        files.append(path)
        end = min(begin + size, len(inputs))
        if not path.is_file():
            made: list[NDArray[np.float32]] = []
            for first in range(begin, end, batch):
                last = min(first + batch, end)
                made.append(encoder.encode_readable(inputs.items[first:last]))
                if on_rows is not None:
                    on_rows(last, len(inputs))
            with replacing(path) as temporary:
                np.save(temporary, np.concatenate(made).astype(dtype))
        elif on_rows is not None:
            on_rows(end, len(inputs))
    return files


def unread_pictures(inputs: Inputs, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of inputs that a file of features lacks, and a sentence on them, if there are any.

    Args:
        inputs: what was encoded.
        names: the names of the rows of features.
    """
    found = {*names}
    return on_unread([name for name in inputs.names if name not in found], len(inputs))


def _block(path: Path) -> NDArray[Any]:
    block: NDArray[Any] = np.load(path, allow_pickle=False)
    return block


def _is_there(out: Path, encoder: Encoder, content: str, dtype: str) -> bool:
    """Return whether the file holds the features of these inputs by this encoder already."""
    if not out.is_file():
        return False
    try:
        found = read_features(out)
    except ValueError:  # another file, which is replaced
        return False
    return (found.card, found.inputs, found.values.dtype) == (encoder.card, content, np.dtype(dtype))


def _remove_others(parts: Path) -> None:
    """Remove the blocks of an earlier call on other inputs, unless one is still at work there."""
    for folder in parts.parent.glob("*"):
        if folder != parts and folder.is_dir():
            try:
                with alone_in(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            except BlockingIOError:
                continue
