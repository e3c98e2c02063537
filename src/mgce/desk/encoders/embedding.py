"""Encode pictures or texts into a file of features, in blocks that are kept if the program is stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from mgce._column_types import texts
from mgce._files import alone_in, replacing
from mgce._messages import expected, not_installed
from mgce._text import printable
from mgce.desk.encoders.pictures import on_unread
from mgce.desk.files.images import ImageFiles
from mgce.desk.files.table_files import require_column, tables_in
from mgce.features.feature_files import PICTURES, TEXTS, Card, checksum_of, read_features, write_features

if TYPE_CHECKING:
    import pandas as pd

Item = str | Path  # a text, or the file of a picture


@dataclass(frozen=True)
class Encoder:
    """A pretrained network that is not trained further.

    Attributes:
        card: describes the network: its name, its weights and its preprocessing.
        prepare: turns a PIL image into a tensor, or a text into an input of `embed`.
        embed: turns a list of n prepared inputs into their features, a tensor or an array of shape (n, width).
    """

    card: Card
    prepare: Callable[[Any], Any]
    embed: Callable[[list[Any]], Any]

    def encode(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Return the features of a batch, shape (n, width), float32.

        Raises:
            OSError: if a file is no picture that can be read.
            ValueError: if a feature is not finite.
        """
        with torch.inference_mode():
            found = torch.as_tensor(self.embed(self._prepared(items))).float().cpu().numpy()
        bad = np.flatnonzero(~np.isfinite(found).all(1))
        if bad.size:
            raise ValueError(expected("encoder", "one whose features are finite", f"others for {items[bad[0]]}"))
        return np.ascontiguousarray(found)

    def encode_readable(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Return the features of a batch as :meth:`encode` does, with NaN in the rows of files that cannot be read."""
        try:
            return self.encode(items)
        except OSError:
            found = np.full((len(items), self.card.width), np.nan, np.float32)
            readable = [row for row, item in enumerate(items) if self._reads(item)]
            if readable:
                found[readable] = self.encode([items[row] for row in readable])
            return found

    def _reads(self, item: Item) -> bool:
        try:
            self._prepared([item])
        except OSError:
            return False
        return True

    def _prepared(self, items: Sequence[Item]) -> list[Any]:
        if self.card.kind != PICTURES:
            return [self.prepare(str(item)) for item in items]
        files = ImageFiles(tuple(map(Path, items)), np.zeros(len(items), np.int64), self.prepare)
        return [files[number][0] for number in range(len(items))]


def of_module(name: str, kind: str, model: torch.nn.Module, preprocessing: str, prepare: Any, embed: Any) -> Encoder:
    """Set a network to evaluation, and return its encoder, whose width is found by embedding a made-up input."""
    model.eval().requires_grad_(False)
    with torch.inference_mode():
        width = int(torch.as_tensor(embed([prepare(_example(kind))])).shape[1])
    return Encoder(Card(name, kind, checksum_of(model), preprocessing, width), prepare, embed)


def _example(kind: str) -> Any:
    """Return a made-up input of a kind: a small picture, or a text."""
    if kind != PICTURES:
        return "a text"
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ImportError(not_installed("Encoders of pictures need", "Pillow", "images")) from error
    return Image.new("RGB", (8, 8))


SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")  # of the formats that `mgce.desk.files.images` reads


@dataclass(frozen=True)
class Inputs:
    """The n pictures or texts to encode, each with the name that its row of features gets."""

    kind: str  # one of `mgce.features.feature_files.KINDS`
    items: tuple[Item, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()  # sentences on files that were left out

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def of_folder(cls, folder: Path) -> Inputs:
        """Return the pictures in a folder and the folders below, named by their path from it; leave out hidden files.

        Files whose name is no UTF-8 are left out too, since no file of features, table or page could name them.

        Raises:
            ValueError: if there is no picture.
        """
        every = {path.relative_to(folder).as_posix(): path for path in pictures_in(folder)}
        files = {name: path for name, path in every.items() if _is_text(name)}
        if not files:
            what, got = f"a folder of pictures ({', '.join(SUFFIXES)})", f"none in {folder}{tables_in(folder)}"
            raise ValueError(expected("source", what, got))
        names = tuple(sorted(files))
        notes = _on_names([name for name in every if name not in files], len(every))
        return cls(PICTURES, tuple(files[name] for name in names), names, notes)

    @classmethod
    def of_column(cls, frame: pd.DataFrame, column: str, folder: Path, id: str | None = None) -> Inputs:
        """Return the inputs in a column of a table: pictures if its first cell names a file, and otherwise texts.

        Args:
            frame: the table.
            column: the column of texts or of files.
            folder: where the paths of files begin.
            id: the column that names the rows; None for the files as names, and numbers from 1 for texts.

        Raises:
            ValueError: if there is no such column, or the column has cells without a value or names missing files.
        """
        require_column(frame, column, "column")
        if id is not None:
            require_column(frame, id, "id")
        missing = frame[column].isna()
        if missing.any():
            got = f"none in row {int(missing.to_numpy().argmax()) + 1}"
            raise ValueError(expected("column", "a column with a value in every row", got))
        cells = tuple(texts(frame[column]))
        named = cells if id is None else tuple(texts(frame[id]).fillna(""))
        if not _is_file(folder, cells[0]):
            numbers = tuple(map(str, range(1, len(cells) + 1)))
            return cls(TEXTS, cells, numbers if id is None else named)
        absent = [cell for cell in cells if not _is_file(folder, cell)]
        if absent:
            got = f"{len(absent):,} that do not, such as {absent[0]!r}"
            raise ValueError(expected("column", f"a column of files that exist, seen from {folder}", got))
        return cls(PICTURES, tuple(folder / cell for cell in cells), named)

    def part(self, number: int, parts: int) -> Inputs:
        """Return part `number`, counted from 1, of `parts` parts of about equal length."""
        begin, end = (place * len(self) // parts for place in (number - 1, number))
        return replace(self, items=self.items[begin:end], names=self.names[begin:end])

    def checksum(self) -> str:
        """Return the SHA-256 hash of all names and of all texts or contents of files."""
        digest = hashlib.sha256(f"{self.kind} {len(self)}\n".encode())
        for name, item in zip(self.names, self.items, strict=True):
            content = item.read_bytes() if isinstance(item, Path) else item.encode("utf-8", "surrogatepass")
            for part in (name.encode("utf-8", "surrogatepass"), content):
                digest.update(hashlib.sha256(part).digest())
        return digest.hexdigest()


def _is_text(name: str) -> bool:
    """Return whether a name from the file system is UTF-8; Python replaces bytes that are no UTF-8 by surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def _on_names(names: list[str], n: int) -> tuple[str, ...]:
    if not names:
        return ()
    first = min(names).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    have = "has a name that is no UTF-8, and was" if len(names) == 1 else "have names that are no UTF-8, and were"
    return (printable(f"{len(names):,} of the {n:,} pictures {have} left out ({first}, for one)."),)


def pictures_in(folder: Path) -> Iterator[Path]:
    """Yield the pictures in a folder and the folders below; hidden files are left out."""
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            yield path


def _is_file(folder: Path, cell: str) -> bool:
    try:
        return (folder / cell).is_file()
    except (OSError, ValueError):  # a text that is too long for a path, or holds a null character
        return False


BLOCK = 16  # batches of a block, which is written as a whole: a stop loses half a minute of pictures on one core
OnRows = Callable[[int, int], None]  # is told how many rows are done, of how many


def embed(
    encoder: Encoder, inputs: Inputs, out: Path, *, batch: int = 32, half: bool = False, on_rows: OnRows | None = None
) -> bool:
    """Encode all inputs into a file of features.

    Blocks of rows are kept in the folder `OUT.parts` until all are encoded. After a stop, the same call continues, and
    writes the same bytes as a call without a stop. If `out` already holds the features of these inputs by this encoder,
    nothing is done.

    Args:
        encoder: the encoder.
        inputs: pictures or texts, of the encoder's kind, at least one.
        out: the file of features, its suffix one of :data:`mgce.features.feature_files.SUFFIXES`.
        batch: inputs that go through the network together.
        half: write float16 instead of float32.
        on_rows: called after each batch with the number of rows that are done and the number of all rows.

    Returns:
        Whether anything had to be encoded.

    Raises:
        ValueError: if the encoder is not for this kind of inputs, or another call is writing the same file.
        OSError: if no picture can be read. If some can be read, the others get no row: see :func:`unread_pictures`.
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
    """Encode the blocks whose files do not exist yet; return the files of all blocks."""
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


def unread_pictures(inputs: Inputs, names: Iterable[str] | None) -> tuple[list[str], list[str]]:
    """Return the names of inputs that a file of features lacks, and a sentence on them, if there are any.

    Args:
        inputs: the inputs that were encoded.
        names: the names of the rows of features; None if the rows have no names, and so belong to all inputs.
    """
    found = {*(inputs.names if names is None else names)}
    lost = [name for name in inputs.names if name not in found]
    return lost, on_unread(lost, len(inputs))


def _block(path: Path) -> NDArray[Any]:
    block: NDArray[Any] = np.load(path, allow_pickle=False)
    return block


def _is_there(out: Path, encoder: Encoder, content: str, dtype: str) -> bool:
    """Return whether `out` holds the features by this encoder, as `dtype`, of inputs of the checksum `content`."""
    if not out.is_file():
        return False
    try:
        found = read_features(out)
    except ValueError:  # another file, which is replaced
        return False
    return (found.card, found.inputs, found.values.dtype) == (encoder.card, content, np.dtype(dtype))


def _remove_others(parts: Path) -> None:
    """Remove the blocks that earlier calls with other inputs or settings left, unless such a call is still running."""
    for folder in parts.parent.glob("*"):
        if folder != parts and folder.is_dir():
            try:
                with alone_in(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            except BlockingIOError:
                continue
