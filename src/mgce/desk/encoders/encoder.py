"""An encoder of pictures or texts: its card, and a function from a batch to its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mgce._validation import expected, not_installed
from mgce.desk.files.images import ImageFiles
from mgce.features.card import PICTURES, Card, checksum_of

Item = str | Path  # a text, or the file of a picture


@dataclass(frozen=True)
class Encoder:
    """A pretrained network that is not trained further.

    Attributes:
        card: names it, its weights and its preprocessing.
        prepare: from a PIL image to a tensor, or from a text to what `embed` takes.
        embed: from a list of those to the features, a tensor or an array of shape (n, width).
    """

    card: Card
    prepare: Callable[[Any], Any]
    embed: Callable[[list[Any]], Any]

    def encode(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Return the features of a batch, shape (n, width), float32.

        Raises:
            OSError: if a file is no picture that can be read.
            ValueError: if a feature is not finite.
        """
        with torch.inference_mode():
            found = torch.as_tensor(self.embed(self._prepared(items))).float().cpu().numpy()
        bad = np.flatnonzero(~np.isfinite(found).all(1))
        if bad.size:
            raise ValueError(expected("encoder", "one whose features are finite", f"others for {items[bad[0]]}"))
        return np.ascontiguousarray(found)

    def encode_readable(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Return the features of a batch as :meth:`encode` does, with NaN in the rows of files that cannot be read."""
        try:
            return self.encode(items)
        except OSError:
            found = np.full((len(items), self.card.width), np.nan, np.float32)
            readable = [row for row, item in enumerate(items) if self._reads(item)]
            if readable:
                found[readable] = self.encode([items[row] for row in readable])
            return found

    def _reads(self, item: Item) -> bool:
        try:
            self._prepared([item])
        except OSError:
            return False
        return True

    def _prepared(self, items: Sequence[Item]) -> list[Any]:
        if self.card.kind != PICTURES:
            return [self.prepare(str(item)) for item in items]
        files = ImageFiles(tuple(map(Path, items)), np.zeros(len(items), np.int64), self.prepare)
        return [files[number][0] for number in range(len(items))]


def of_module(name: str, kind: str, model: torch.nn.Module, preprocessing: str, prepare: Any, embed: Any) -> Encoder:
    """Set a network to evaluation, and return its encoder; embedding one made-up input gives the width."""
    model.eval().requires_grad_(False)
    with torch.inference_mode():
        width = int(torch.as_tensor(embed([prepare(_example(kind))])).shape[1])
    return Encoder(Card(name, kind, checksum_of(model), preprocessing, width), prepare, embed)


def _example(kind: str) -> Any:
    """Return a small picture, or a text."""
    if kind != PICTURES:
        return "a text"
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ImportError(not_installed("Encoders of pictures need", "Pillow", "images")) from error
    return Image.new("RGB", (8, 8))
