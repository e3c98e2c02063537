"""An encoder that is small enough for a test, and a folder of pictures for it."""

import numpy as np
import torch

from mgce.desk.encoders import libraries
from mgce.desk.encoders.embedding import of_module
from mgce.desk.encoders.pictures import CentralSquare
from mgce.features.feature_files import PICTURES

WIDTH = 6


def tiny(kind=PICTURES, seed=0):
    """Return an encoder of pictures by a convolution, or of texts by the counts of their bytes."""
    torch.manual_seed(seed)
    if kind == PICTURES:
        model = torch.nn.Conv2d(3, WIDTH, 2)
        prepare = CentralSquare(4)
        return of_module(
            "tiny:net",
            kind,
            model,
            f"{prepare}; mean",
            prepare,
            lambda batch: model(torch.stack(batch)).mean((2, 3)),
        )
    model = torch.nn.Linear(256, WIDTH)

    def counted(text):
        return torch.bincount(torch.tensor(list(text.encode()), dtype=torch.long), minlength=256).float()

    return of_module("tiny:net", kind, model, "counts of bytes", counted, lambda batch: model(torch.stack(batch)))


def register(patch, seed=0):
    """Let commands load the encoder by the name `tiny:net`."""
    patch.setitem(libraries.LOADERS, "tiny", lambda source, kind, device, dtype: tiny(kind, seed))


def pictures(folder, n=20, classes=("dark", "light")):
    """Write n pictures by turns of each class, whose brightness tells it, into a folder for each; return labels."""
    from PIL import Image

    rng = np.random.default_rng(0)
    labels = {}
    for number in range(n):
        label = classes[number % len(classes)]
        level = 60 + 120 * (number % len(classes)) / max(1, len(classes) - 1)
        shape = (6 + number % 3, 8, 3)
        pixels = np.clip(rng.normal(level, 25, shape), 0, 255).astype(np.uint8)
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / label / f"{number:03d}.png")
        labels[f"{label}/{number:03d}.png"] = label
    return labels
