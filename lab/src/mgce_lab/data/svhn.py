"""Read SVHN: house numbers, cropped to single digits, in MATLAB files."""

from __future__ import annotations

import numpy as np

from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.data.sources import DataSource, Source

# The checksums are those of TensorFlow Datasets.
TRAIN = Source.named(
    "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
    "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
)
TEST = Source.named(
    "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
    "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
)


def load_svhn(data: DataSource) -> ImageDataset:
    """Read SVHN: 73,257 training and 26,032 test images (3, 32, 32), 10 digits, without the extra training images."""
    train, test = (_read(data, source) for source in (TRAIN, TEST))
    return ImageDataset("svhn", tuple("0123456789"), train, test)


def _read(data: DataSource, source: Source) -> Images:
    """Read n images from the arrays `X`, shape (height, width, 3, n), and `y`, shape (n, 1), where 10 is the digit 0.

    SciPy's reader can crash on a damaged file, so it reads only files whose checksum has been verified.
    """
    from scipy.io import loadmat

    content = loadmat(data.locate(source), variable_names=("X", "y"))
    images = np.ascontiguousarray(content["X"].transpose(3, 2, 0, 1))
    return Images(images, content["y"].ravel().astype(np.int64) % 10)
