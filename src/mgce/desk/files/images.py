"""Read images from files, one by one on access, in red, green and blue."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from mgce._messages import not_installed

# Of images in files: the formats of photographs, and so many pixels as ordinary cameras take. The readers of other
# formats follow the sizes of a damaged file into gigabytes.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
PIXELS = 50_000_000
GROUNDS = ("white", "black")  # of transparent pixels


@dataclass(frozen=True)
class ImageFiles(Dataset[tuple[Any, int]]):
    """Images in files, for a `torch.utils.data.DataLoader`: n `paths`, and `target`, n indices into the classes.

    Image i is read as RGB when it is indexed: see :func:`as_rgb`. `transform` converts the PIL image to the input of
    the model. Without a transform, the image becomes a uint8 tensor (3, height, width). Use `dataclasses.replace` to
    set a transform or other labels.
    """

    paths: tuple[Path, ...]
    target: NDArray[np.int64]
    transform: Callable[[Any], Any] | None = None

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        try:
            from PIL import Image
        except ModuleNotFoundError as error:
            raise ImportError(not_installed("Images in files need", "Pillow", "vision")) from error
        path = self.paths[index]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of Pillow, on files that it can read all the same
                with Image.open(path, formats=FORMATS) as file:
                    if file.width * file.height > PIXELS:
                        raise ValueError(f"{file.width} x {file.height} pixels, more than {PIXELS:,}")
                    image = as_rgb(file)
        except Exception as error:  # Pillow raises whatever it meets in a damaged file
            raise OSError(f"Expected {path} to be an image, but got: {error}.") from error
        if self.transform is not None:
            return self.transform(image), int(self.target[index])
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1), int(self.target[index])


def as_rgb(image: Any) -> Any:
    """Return a PIL image of any mode in RGB, such that its content can be seen.

    Grey levels of 16 bits become levels of 8 bits: white stays white. Floats are levels from 0 to 1, or from 0 to 255
    if one is above 1. Transparent pixels become white, or black if nothing could be seen on white.

    Raises:
        ValueError: if grey levels lie outside these ranges.
    """
    from PIL import Image

    if image.mode[0] in "IF":
        made = Image.fromarray(_levels(np.asarray(image, dtype=np.float64), image.mode)).convert("RGB")
    elif image.has_transparency_data:
        made = _on_ground(image.convert("RGBA"))
    else:
        return image.convert("RGB")
    made.info = {key: value for key, value in image.info.items() if key != "transparency"}  # how it is to be turned
    return made


def _levels(values: NDArray[np.float64], mode: str) -> NDArray[np.uint8]:
    """Return grey levels, scaled to 0 to 255; `mode` is a mode of integers, I or I;16, or the mode of floats, F."""
    least, most = float(values.min(initial=0)), float(values.max(initial=0))
    top = float(np.iinfo(np.uint16).max) if mode[0] == "I" else (255.0 if most > 1 else 1.0)
    if not 0 <= least <= most <= top:
        raise ValueError(f"grey levels from {least:g} to {most:g}, outside 0 to {top:g}")
    return np.rint(values * (255 / top)).astype(np.uint8)


def _on_ground(image: Any) -> Any:
    """Return an image of mode RGBA on a white ground, or on a black one if it shows nothing on white."""
    from PIL import Image

    white, black = (
        Image.alpha_composite(Image.new("RGBA", image.size, colour), image).convert("RGB") for colour in GROUNDS
    )
    return black if white.getextrema() == ((255, 255),) * 3 else white
