"""Turn arrays of images into square images of one size, the input of a small network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from mgce._limits import EXPANDED_BYTES
from mgce._messages import expected
from mgce.desk.encoders.pictures import upright
from mgce.desk.files.images import ImageFiles

LEAST_SIZE = 4  # of the network: it halves height and width twice
MOST_CHANNELS = 4  # red, green, blue and opacity
AT_ONCE = 1024  # images that are scaled together: their numbers in float32 take tens of megabytes

Pixels = NDArray[Any]  # uint8 or float32, (n, channels, height, width)


def as_pixels(x: Any, name: str = "x") -> Pixels:
    """Return images with their channels in front, shape (n, channels, height, width).

    Args:
        x: array of n images, shape (n, height, width) or (n, height, width, channels). Bytes stay bytes, all other
            numbers become float32.
        name: the name of the array, for errors.

    Raises:
        ValueError: if it is no such array, or holds a number that is not finite.

    Example:
        >>> as_pixels(np.zeros((5, 8, 6))).shape
        (5, 1, 8, 6)
    """
    x = np.asarray(x)
    channels = x.shape[3] if x.ndim == 4 else 1
    if x.ndim not in (3, 4) or x.dtype.kind not in "buif" or not 1 <= channels <= MOST_CHANNELS:
        what = f"numbers of shape (n, height, width) or (n, height, width, channels), at most {MOST_CHANNELS} channels"
        raise ValueError(expected(name, what, f"{x.dtype} of shape {x.shape}"))
    if min(x.shape[1:3]) < LEAST_SIZE or not len(x):
        what = f"at least one image of {LEAST_SIZE} x {LEAST_SIZE} pixels or more"
        raise ValueError(expected(name, what, f"an array of shape {x.shape}"))
    if x.dtype != np.uint8:
        x = x.astype(np.float32)
        if not np.isfinite(x).all():
            raise ValueError(expected(name, "finite numbers, as float32", "others"))
    return np.ascontiguousarray(x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2))


def squared(pixels: Pixels, size: int) -> Pixels:
    """Return the central square of each image, scaled to `size` x `size` pixels.

    Example:
        >>> squared(np.arange(8.0, dtype=np.float32).reshape(1, 1, 2, 4), 1)
        array([[[[3.5]]]], dtype=float32)
    """
    side = min(pixels.shape[2:])
    top, left = ((length - side) // 2 for length in pixels.shape[2:])
    square = pixels[:, :, top : top + side, left : left + side]
    if side == size:
        return np.ascontiguousarray(square)
    made = np.empty((*pixels.shape[:2], size, size), pixels.dtype)
    for start in range(0, len(pixels), AT_ONCE):
        part = torch.from_numpy(square[start : start + AT_ONCE].astype(np.float32))
        # Without antialiasing, an image that shrinks loses the pixels between those that are read.
        scaled = F.interpolate(part, size=size, mode="bilinear", align_corners=False, antialias=True)
        made[start : start + AT_ONCE] = (scaled.round().clamp(0, 255) if pixels.dtype == np.uint8 else scaled).numpy()
    return made


def with_channels(pixels: Pixels, channels: int) -> Pixels:
    """Return images with one channel, their mean, or with three, the grey one repeated.

    Raises:
        ValueError: if images have other numbers of channels.
    """
    if pixels.shape[1] == channels:
        return pixels
    if channels == 1:
        return np.asarray(pixels.mean(1, keepdims=True).astype(pixels.dtype))
    if pixels.shape[1] == 1:
        return np.asarray(pixels.repeat(channels, 1))
    raise ValueError(expected("images", f"of {channels} channels, or of one", pixels.shape[1]))


@dataclass(frozen=True)
class UprightSquare:
    """From a PIL image to its central square, upright, in red, green and blue: uint8, shape (3, size, size)."""

    size: int

    def __call__(self, image: Any) -> NDArray[np.uint8]:
        """Return the square, made by PIL's bilinear filter (number 2), which averages what a pixel covers."""
        from PIL import ImageOps

        square = ImageOps.fit(upright(image), (self.size, self.size), 2)
        return np.asarray(square, dtype=np.uint8).transpose(2, 0, 1)


def read_squares(
    paths: Sequence[Path], size: int, on_picture: Callable[[int], None] = lambda done: None
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Read pictures as central squares of `size` x `size` pixels; one channel if all pictures are grey, else three.

    Also return which of the n files could be read; only these have a square.

    Args:
        paths: the n files.
        size: height and width.
        on_picture: called with the number of pictures read so far.

    Raises:
        OSError: if no file is a picture that can be read.
        ValueError: if all of them together would need too much memory.
    """
    if 3 * size * size * len(paths) > EXPANDED_BYTES:
        most = f"such that {len(paths):,} pictures take at most {EXPANDED_BYTES:,} bytes"
        raise ValueError(expected("size", most, size))
    files = ImageFiles(tuple(paths), np.zeros(len(paths), np.int64), UprightSquare(size))
    pixels = np.empty((len(paths), 3, size, size), np.uint8)
    read = np.ones(len(paths), dtype=bool)
    for row in range(len(files)):
        try:
            pixels[row] = files[row][0]
        except OSError:
            read[row] = False
        on_picture(row + 1)
    if not read.any():
        files[0]  # raises an error
    pixels = pixels[read]
    return (pixels[:, :1].copy() if (pixels == pixels[:, :1]).all() else pixels), read
