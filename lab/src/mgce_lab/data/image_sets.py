"""Define data sets of labelled images, in memory or in files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mgce.desk.files.images import ImageFiles


@dataclass(frozen=True)
class Images:
    """Images in memory: uint8 array `images` of shape (n, channels, height, width), and class indices `target`.

    The dimensions are ordered as `torch.nn.Conv2d` expects, so `torch.from_numpy(images)` needs no copy. `noisy` maps a
    name to further labels of the n images by human annotators.
    """

    images: NDArray[np.uint8]
    target: NDArray[np.int64]
    noisy: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.target)


@dataclass(frozen=True)
class ImageDataset:
    """A data set of images with its published training, test and, if there is one, validation part."""

    name: str
    classes: tuple[str, ...]
    train: Images | ImageFiles
    test: Images | ImageFiles
    validation: Images | ImageFiles | None = None

    def checksum(self) -> str:
        """Return a SHA-256 hash of all images and labels; for images in files, of file names and labels."""
        digest = hashlib.sha256("\n".join((self.name, *self.classes)).encode())
        for part in (self.train, self.test, self.validation):
            if part is not None:
                if isinstance(part, ImageFiles):
                    digest.update("\n".join(path.name for path in part.paths).encode())
                else:
                    digest.update(part.images.tobytes())
                digest.update(part.target.tobytes())
        return digest.hexdigest()
