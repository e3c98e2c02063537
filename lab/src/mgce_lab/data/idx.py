"""Read MNIST and Fashion-MNIST, whose images and labels are in files of the IDX format."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mgce._limits import read_at_most
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.data.sources import DataSource, Source, damaged

# The checksums are those of torchvision, whose folders these are.
MNIST = (
    "MNIST/raw",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
FASHION_MNIST = (
    "FashionMNIST/raw",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
DIGITS = tuple("0123456789")
GARMENTS = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load_mnist(data: DataSource) -> ImageDataset:
    """Read MNIST: 60,000 training and 10,000 test images (1, 28, 28), 10 digits."""
    return _load("mnist", DIGITS, MNIST, data)


def load_fashion_mnist(data: DataSource) -> ImageDataset:
    """Read Fashion-MNIST: 60,000 training and 10,000 test images (1, 28, 28), 10 kinds of garment."""
    return _load("fashion_mnist", GARMENTS, FASHION_MNIST, data)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of unsigned bytes that a gzipped IDX file holds.

    The file starts with two zero bytes, the code 8 for unsigned bytes, and the number d of dimensions in one byte. Then
    come d sizes of four bytes each, most significant byte first, and the values.

    Raises:
        ValueError: if the file does not have this format.
    """
    try:
        with gzip.open(path) as file:
            content = read_at_most(file)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise damaged(path, "gzipped content", error) from error
    if len(content) < 4 or content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise damaged(path, "the header of an IDX file of bytes", content[:4])
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if len(content) != start + math.prod(shape):
        raise damaged(path, f"{math.prod(shape)} values, as its header says", len(content) - start)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _load(
    name: str,
    classes: tuple[str, ...],
    published: tuple[str, str, dict[str, str]],
    data: DataSource,
) -> ImageDataset:
    folder, url, checksums = published
    arrays = [
        read_idx(data.locate(Source(f"{folder}/{file}", f"{url}/{file}", f"md5:{checksum}")))
        for file, checksum in checksums.items()
    ]
    train, test = (
        Images(images[:, None].copy(), labels.astype(np.int64)) for images, labels in (arrays[:2], arrays[2:])
    )
    return ImageDataset(name, classes, train, test)
