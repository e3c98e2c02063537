"""Read CIFAR-10 and CIFAR-100 from their binary versions; the Python versions are pickled and are never read."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from mgce._limits import EXPANDED_BYTES, TooLargeError, read_at_most
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.data.sources import DataSource, Source, damaged

# The checksums of the archives are those of TensorFlow Datasets; for the files inside none is published.
CIFAR10 = Source.named(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
CIFAR100 = Source.named(
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
)
# Memory that unpacking xz may take besides the result: `xz -9`, its largest preset, needs 65 MB.
XZ_MEMORY = 1 << 28
SHAPE = (3, 32, 32)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def load_cifar10(data: DataSource) -> ImageDataset:
    """Read CIFAR-10: 50,000 training and 10,000 test images (3, 32, 32), 10 classes.

    The images are read from the folder `cifar-10-batches-bin/` in the data directory if it exists, with the files
    data_batch_1.bin to _5.bin and test_batch.bin, or the same compressed as .bin.xz. The sizes of the files and the
    number of images of every class are checked. Without this folder, the archive cifar-10-binary.tar.gz is read.
    """
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    files = _files(CIFAR10, "cifar-10-batches-bin", names, data)
    parts = [read_records(content, path) for path, content in files]
    _check_balance(data.folder / "cifar-10-batches-bin", parts[:5], parts[5:], 10)
    return ImageDataset("cifar10", CLASSES, _join(parts[:5]), _join(parts[5:]))


def load_cifar100(data: DataSource) -> ImageDataset:
    """Read CIFAR-100: 50,000 training and 10,000 test images (3, 32, 32), 100 fine classes.

    The images are read from the folder `cifar-100-binary/` in the data directory if it exists, with the files
    train.bin, test.bin and fine_label_names.txt. The same checks apply as for CIFAR-10. Without this folder, the
    archive cifar-100-binary.tar.gz is read.
    """
    names = ["train.bin", "test.bin", "fine_label_names.txt"]
    files = _files(CIFAR100, "cifar-100-binary", names, data)
    train, test = (read_records(content, path, label_bytes=2) for path, content in (next(files), next(files)))
    _check_balance(data.folder / "cifar-100-binary", [train], [test], 100)
    path, content = next(files)
    classes = tuple(content.decode(errors="replace").split())
    if len(classes) != 100:
        raise damaged(path, "the names of 100 classes", len(classes))
    return ImageDataset("cifar100", classes, _join([train]), _join([test]))


def read_records(content: bytes, path: Path, label_bytes: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Split a binary file of CIFAR into n images, shape (n, 3, 32, 32), and n labels.

    A record of CIFAR-10 starts with one label byte. A record of CIFAR-100 starts with two; the second is the fine
    label. Then 1024 bytes each of red, green and blue follow.

    Raises:
        ValueError: if the file does not contain a whole number of records.
    """
    size = label_bytes + int(np.prod(SHAPE))
    if not content or len(content) % size:
        raise damaged(path, f"rows of {size} bytes", f"{len(content)} bytes")
    rows = np.frombuffer(content, np.uint8).reshape(-1, size)
    return rows[:, label_bytes:].reshape(-1, *SHAPE), rows[:, label_bytes - 1]


def _files(archive: Source, folder: str, names: list[str], data: DataSource) -> Iterator[tuple[Path, bytes]]:
    if (data.folder / folder).is_dir():
        for name in names:
            yield _read(data, f"{folder}/{name}", archive)
        return
    with tarfile.open(data.locate(archive)) as tar:
        for name in names:
            member = tar.extractfile(f"{folder}/{name}")
            assert member is not None  # the checksum has been verified
            yield data.folder / archive.path, read_at_most(member)


def _read(data: DataSource, name: str, archive: Source) -> tuple[Path, bytes]:
    path, packed = data.folder / name, data.folder / f"{name}.xz"
    if path.is_file():
        with path.open("rb") as file:
            return path, read_at_most(file)
    if not packed.is_file():
        raise data.missing(name, f"get the binary version from {archive.url} and unpack it")
    try:
        with packed.open("rb") as file:
            return packed, read_xz(file)
    except (lzma.LZMAError, ValueError) as error:
        raise damaged(packed, "xz-compressed content", error) from error


def read_xz(file: IO[bytes], limit: int = EXPANDED_BYTES) -> bytes:
    """Return the decompressed content of a file with one xz stream.

    Raises:
        TooLargeError: if the decompressed content is longer than the limit.
        lzma.LZMAError: if the file is damaged or cut off, or needs more memory to decompress than any preset of xz.
    """
    stream, packed = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY), read_at_most(file, limit)
    unpacked = stream.decompress(packed, limit + 1)
    if len(unpacked) > limit:
        raise TooLargeError(f"more than {limit:,} bytes when unpacked")
    if not stream.eof or stream.unused_data:
        raise lzma.LZMAError("the stream is cut off" if not stream.eof else "more follows the first stream")
    return unpacked


Part = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def _check_balance(folder: Path, train: list[Part], test: list[Part], n_classes: int) -> None:
    for name, parts, rows in (("training", train, 50_000), ("test", test, 10_000)):
        counts = np.bincount(np.concatenate([labels for _, labels in parts]), minlength=n_classes)
        if counts.tolist() != [rows // n_classes] * n_classes:
            raise damaged(folder, f"{rows // n_classes} {name} images of each of {n_classes} classes", counts.tolist())


def _join(parts: list[Part]) -> Images:
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Images(images, labels.astype(np.int64))
