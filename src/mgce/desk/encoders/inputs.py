"""What is to be encoded: the pictures of a folder, or a column of texts or of files of pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mgce._column_types import texts
from mgce._text import printable
from mgce._validation import expected
from mgce.desk.encoders.encoder import Item
from mgce.desk.files.table_files import require_column, tables_in
from mgce.features.card import PICTURES, TEXTS

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")  # of the formats that `mgce.desk.files.images` reads


@dataclass(frozen=True)
class Inputs:
    """The n pictures or texts to encode, with the name of each row of features."""

    kind: str  # one of `mgce.features.card.KINDS`
    items: tuple[Item, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()  # sentences on files that were left out

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def of_folder(cls, folder: Path) -> Inputs:
        """Return the pictures in a folder and the folders below, by their path from there; hidden files are left out.

        Files whose name is no UTF-8 are left out too, since no file of features, table or page could name them.

        Raises:
            ValueError: if there is none.
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
        """Return a column of a table: of pictures, if its first cell names a file, else of texts.

        Args:
            frame: the table.
            column: the column of texts or of files.
            folder: where the paths of files begin.
            id: the column that names the rows; None for the files as names, and numbers from 1 for texts.

        Raises:
            ValueError: if there is no such column, or it has cells without a value, or files that do not exist.
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
        """Return one of so many parts of about equal length; parts are counted from 1."""
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
    """Return whether a name from the file system is UTF-8; Python stands surrogates for bytes that are not."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def _on_names(names: list[str], n: int) -> tuple[str, ...]:
    if not names:
        return ()
    first = min(names).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    have = "has a name that is no UTF-8, and was" if len(names) == 1 else "have names that are no UTF-8, and were"
    return (printable(f"{len(names):,} of the {n:,} pictures {have} left out ({first}, for one)."),)


def pictures_in(folder: Path) -> Iterator[Path]:
    """Yield the pictures in a folder and the folders below; hidden files are left out."""
    return (path for path in folder.rglob("*") if _is_picture(path, folder))


def _is_picture(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def _is_file(folder: Path, cell: str) -> bool:
    try:
        return (folder / cell).is_file()
    except (OSError, ValueError):  # a text that is too long for a path, or holds a null character
        return False
