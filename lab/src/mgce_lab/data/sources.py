"""Find local copies of published files of data sets, verify their checksums, or download the files."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from mgce._files import replacing

TIMEOUT = 60  # seconds without a byte, after which a download fails
CHUNK = 1 << 20  # bytes that are hashed at a time, so that a file of gigabytes needs a megabyte of memory


@dataclass(frozen=True)
class Source:
    """A published file: its `path` below the data directory, `url`, and `checksum`, "md5:..." or "sha256:..."."""

    path: str
    url: str
    checksum: str

    @classmethod
    def named(cls, url: str, checksum: str, folder: str = "") -> Source:
        """Return the source of a file that is stored in a folder of the data, under the file name of its URL."""
        return cls(f"{folder}/{url.rpartition('/')[2]}".lstrip("/"), url, checksum)


@dataclass(frozen=True)
class DataSource:
    """The directory of local copies of data sets, and whether to download missing files.

    Attributes:
        data_dir: the directory of the local copies; None for $MGCE_DATA_DIR, or ./data if that is not set.
        download: whether missing files are downloaded into this directory.
    """

    data_dir: str | os.PathLike[str] | None = None
    download: bool = False

    @property
    def folder(self) -> Path:
        """The directory of the local copies."""
        return Path(os.environ.get("MGCE_DATA_DIR", "data") if self.data_dir is None else self.data_dir)

    def locate(self, source: Source) -> Path:
        """Return the path of the local copy of a file after verifying its checksum; download it first if allowed.

        Raises:
            FileNotFoundError: if there is no local copy and `download` is false.
            ValueError: if the checksum differs; a downloaded file with a wrong checksum is not kept.
            OSError: if the download fails.
        """
        path = self.folder / source.path
        if path.is_file():
            _verify(path, source, path)
        elif self.download:
            _fetch(source, path)
        else:
            raise self.missing(source.path, f"get it from {source.url}, or ask for the download")
        return path

    def missing(self, path: str, remedy: str) -> FileNotFoundError:
        """Return the error for a missing file; the message says where to get it."""
        return FileNotFoundError(f"Expected `data_dir` to hold {path}, but there is no {self.folder / path}: {remedy}.")


def damaged(path: Path, what: str, got: object) -> ValueError:
    """Return the error for a file whose content is not as expected; the message says to download it again."""
    remedy = "the file is damaged or another version, so delete it and get it anew"
    reason = (str(got).splitlines() or ["nothing"])[0].rstrip(".")
    return ValueError(f"Expected {path} to have {what}, but got {reason}: {remedy}.")


def _verify(path: Path, source: Source, final: Path) -> None:
    algorithm, _, checksum = source.checksum.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != checksum:
        raise damaged(final, f"the {algorithm} checksum {checksum}", digest.hexdigest())


def _fetch(source: Source, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        try:
            with urlopen(source.url, timeout=TIMEOUT) as response, temporary.open("wb") as file:
                shutil.copyfileobj(response, file)
        except OSError as error:
            sentence = (
                f"Expected {source.url} to be downloadable, but got {error}: get it otherwise and put it at {path}."
            )
            raise OSError(sentence) from error
        _verify(temporary, source, path)
