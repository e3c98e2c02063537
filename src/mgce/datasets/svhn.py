"""SVHN: house numbers, cropped to single digits, in MATLAB files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mgce._limits import read_at_most
from mgce.datasets.images import ImageDataset, Images
from mgce.datasets.mat import read_arrays
from mgce.datasets.sources import DataSource, Source, damaged

# The checksums are those of TensorFlow Datasets.
TRAIN = Source(
    "train_32x32.mat",
    "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
    "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
)
TEST = Source(
    "test_32x32.mat",
    "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
    "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
)


def load_svhn(data: DataSource) -> ImageDataset:
    """Read SVHN: 73,257 and 26,032 images (3, 32, 32), 10 digits; its extra images are left out."""
    train, test = (read_mat(data.locate(source)) for source in (TRAIN, TEST))
    return ImageDataset("svhn", tuple("0123456789"), train, test)


def read_mat(path: Path) -> Images:
    """Read `X` (h, w, c, n) and `y` (n, 1), where 10 is the digit 0.

    Raises:
        ValueError: if the file does not hold them.
    """
    try:
        with path.open("rb") as file:
            content = read_arrays(read_at_most(file), ("X", "y"))
    except ValueError as error:
        raise damaged(path, "the arrays X and y of a MATLAB file", error) from error
    images, labels = content.get("X"), content.get("y")
    if images is None or labels is None or images.ndim != 4 or labels.size != images.shape[3]:
        shapes = {name: value.shape for name, value in content.items()}
        raise damaged(path, "images X (h, w, c, n) and as many labels y", shapes)
    images = np.ascontiguousarray(images.transpose(3, 2, 0, 1), dtype=np.uint8)
    return Images(images, labels.ravel().astype(np.int64) % 10)
