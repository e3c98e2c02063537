"""Prepare pictures for a network: upright, the central square, scaled, normalised."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mgce._messages import NAMED, listed
from mgce._text import printable
from mgce.desk.files.images import ImageFiles, as_rgb


def upright(image: Any) -> Any:
    """Return a PIL image in RGB, turned upright by the orientation in its EXIF data."""
    from PIL import ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a camera wrote and cannot be read, which leaves the picture as it is
        return as_rgb(ImageOps.exif_transpose(image))


@dataclass(frozen=True)
class CentralSquare:
    """Turn a PIL image into a tensor (3, size, size): cut out the central square, and scale it.

    Pixels are normalised. By default, mean and deviation are those of ImageNet, as networks trained on it expect.
    """

    size: int
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    deviation: tuple[float, ...] = (0.229, 0.224, 0.225)

    def __call__(self, image: Any) -> Tensor:
        """Return the tensor of a picture, normalised."""
        pixels = torch.from_numpy(np.asarray(upright(image)).copy()).permute(2, 0, 1).float() / 255
        side = min(pixels.shape[1:])
        top, left = ((length - side) // 2 for length in pixels.shape[1:])
        square = (pixels[:, top : top + side, left : left + side] - _column(self.mean)) / _column(self.deviation)
        # Without antialiasing, a picture that shrinks loses the pixels between those that are read.
        shrinks = side > self.size
        made = F.interpolate(square[None], size=self.size, mode="bicubic", align_corners=False, antialias=shrinks)
        return made[0]

    def __str__(self) -> str:
        return (
            f"upright, central square, {self.size} x {self.size} bicubic, mean {self.mean}, deviation {self.deviation}"
        )


def on_unread(names: Sequence[str], n: int) -> list[str]:
    """Return a sentence on pictures that cannot be read, if there are any.

    Args:
        names: the names of these pictures.
        n: the number of pictures in all.
    """
    said = f"of the {n:,} pictures could not be read and {'was' if len(names) == 1 else 'were'} left out"
    return [printable(f"{len(names):,} {said}: {listed(names, NAMED)}.")] if names else []


def thumbnail(path: Path, size: int = 160) -> bytes:
    """Return a small JPEG of the picture in a file: at most `size` pixels wide and high.

    At 160 pixels, about 5 kB, a person sees what the picture shows.

    Raises:
        OSError: if the file is no picture that can be read.
    """
    image = ImageFiles((path,), np.zeros(1, np.int64), upright)[0][0]
    image.thumbnail((size, size))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=85)
    return content.getvalue()


def _column(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values)[:, None, None]
