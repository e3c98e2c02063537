"""A small network for images with the names of its classes: training it in a loop that is kept, and its file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mgce._arrays import IntArray
from mgce._limits import check_zip
from mgce._messages import expected
from mgce._seeds import derived_seed
from mgce._text import printable
from mgce.loop.keeper import ModelKeeper
from mgce.losses.protocol import evaluating, link_of
from mgce_lab.data.image_sets import Images
from mgce_lab.images.convnet import ConvNet
from mgce_lab.images.image_data import Preprocessing, standardizing
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.images.square_images import Pixels, as_pixels, squared, with_channels
from mgce_lab.seeds import derived_generator

FORMAT = 1  # of the file
ARCHITECTURE = "convnet2"
# Adam's learning rate, the rows of a step, and the pixels by which colour images are shifted: those of the networks in
# docs/lab/training-loops.md, by which the recipes were compared.
LR, BATCH_SIZE, SHIFT = 0.001, 64, 2
AT_ONCE = 500  # rows that are predicted together


class ImageModel(nn.Module):
    """A network for square images, with its classes and the scaling of its inputs.

    Args:
        classes: the names of the k classes.
        size: height and width of the images, in pixels.
        mean: the mean of each channel, divided by 255, shape (channels, size, size).
        std: its standard deviation, likewise.
    """

    def __init__(self, classes: Sequence[str], size: int, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.classes, self.size = tuple(classes), size
        self.preprocessing = Preprocessing(mean, settings_of(size), std)
        self.network = ConvNet(ARCHITECTURE, len(self.classes), in_channels=len(mean), size=size)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, channels, size, size) to logits (n, k)."""
        logits: Tensor = self.network(self.preprocessing(images))
        return logits

    @torch.inference_mode()
    def logits(self, pixels: Pixels) -> Tensor:
        """Return the logits (n, k) of an array of images, on the CPU, by the network in evaluation mode."""
        self.eval()
        device = self.preprocessing.mean.device
        parts = torch.split(torch.from_numpy(pixels), AT_ONCE)
        return torch.cat([self(part.to(device)).cpu() for part in parts])

    def probabilities(self, criterion: nn.Module, pixels: Pixels) -> Tensor:
        """Return class probabilities (n, k) of an array of images, as they belong to the loss trained with."""
        with evaluating(criterion):
            found: Tensor = link_of(criterion)(self.logits(pixels))
        return found

    def predict(self, x: Any) -> NDArray[np.str_]:
        """Return the class of each image, shape (n,).

        Args:
            x: array of n images, shape (n, height, width) or (n, height, width, channels), with numbers as those
                trained on. Their central squares are scaled to the network's size.

        Raises:
            ValueError: if it is no such array.
        """
        pixels = squared(with_channels(as_pixels(x), len(self.preprocessing.mean)), self.size)
        return np.asarray(np.array(self.classes)[self.logits(pixels).argmax(1).numpy()])

    def to_bytes(self) -> bytes:
        """Return the content of a file that :func:`load_image_model` reads."""
        buffer = io.BytesIO()
        state = {name: value.cpu() for name, value in self.state_dict().items()}
        torch.save({"format": FORMAT, "classes": list(self.classes), "size": self.size, "state": state}, buffer)
        return buffer.getvalue()


def load_image_model(path: Path | str) -> ImageModel:
    """Read a network that `mgce-lab train` wrote, in evaluation mode, without running code from the file.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if it is damaged, or no such file.
    """
    path = Path(path)
    try:
        with ZipFile(path) as archive:
            check_zip(archive)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']}, not {FORMAT}")
        state = content["state"]
        mean, std = (state[f"preprocessing.{name}"] for name in ("mean", "std"))
        model = ImageModel([*map(str, content["classes"])], content["size"], mean, std)
        model.load_state_dict(state)
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile and PyTorch raise whatever they meet
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        sentence = expected(
            "path", "a network that `mgce-lab train` wrote", f"{path}, which could not be read: {reason}"
        )
        raise ValueError(printable(sentence)) from error
    return model.eval()


def settings_of(size: int) -> ImageSettings:
    """Return how images are prepared, and how colour images are changed at random while a network trains."""
    return ImageSettings(
        architecture=ARCHITECTURE, crop=size, padding=SHIFT, flip=True, standardization="channels", validation_size=0.0
    )


class ImageLoop:
    """A training loop for a small network, on images in memory.

    Args:
        pixels: the images, shape (n, channels, size, size).
        target: their given labels, as indices of classes, shape (n,).
        classes: the names of the k classes.
        epochs: passes over the training rows, at most.
        changed: whether training images are shifted and mirrored at random.
        seed: of the initial weights, of the order of the rows and of the changes.
        device: where the network is trained.
    """

    def __init__(
        self,
        pixels: Pixels,
        target: IntArray,
        classes: Sequence[str],
        *,
        epochs: int,
        changed: bool,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self.pixels, self.classes, self.epochs, self.changed, self.seed = pixels, classes, epochs, changed, seed
        self.device = torch.device(device)
        self.images, self.target = (torch.from_numpy(part).to(self.device) for part in (pixels, target))
        size = pixels.shape[2]
        # The mean and the deviation need no labels, so they may be those of all rows.
        self.mean, std = standardizing(Images(pixels, target), settings_of(size), seed, 0)
        self.std = torch.where(std > 0, std, 1)  # of a channel whose pixels are all equal

    def run(
        self,
        criterion: nn.Module,
        rows: IntArray,
        validation: IntArray,
        on_epoch: Callable[[int], None] = lambda done: None,
    ) -> Iterator[ModelKeeper]:
        """Train a new network with a criterion, and yield its keeper after each epoch.

        Args:
            criterion: a loss that is called with logits, targets, and the place of each row among `rows`.
            rows: indices of the training rows.
            validation: indices of the validation rows, by whose labels the keeper chooses.
            on_epoch: called with the number of finished epochs.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(self.seed, "weights"))
            model = ImageModel(self.classes, self.pixels.shape[2], self.mean, self.std).to(self.device)
        criterion = criterion.to(self.device)
        optimizer = torch.optim.Adam(model.parameters(), LR)
        keeper = ModelKeeper(model, criterion, classes=self.classes)
        held_out = torch.from_numpy(validation).to(self.device)
        every = torch.from_numpy(rows).to(self.device)
        for epoch in range(self.epochs):
            model.train()
            order = torch.randperm(len(rows), generator=derived_generator(self.seed, "order", epoch)).to(self.device)
            for step, index in enumerate(torch.split(order, BATCH_SIZE)):
                if len(index) < 2:  # batch normalisation needs two rows
                    continue
                images, target = self.images[every[index]], self.target[every[index]]
                logits = model.network(self._prepared(model, images, epoch, step))
                optimizer.zero_grad()
                criterion(logits, target, index).backward()
                optimizer.step()
                keeper.step(logits, target)
            keeper.end_epoch([(self.images[part], self.target[part]) for part in torch.split(held_out, AT_ONCE)])
            on_epoch(epoch + 1)
            yield keeper

    def _prepared(self, model: ImageModel, images: Tensor, epoch: int, step: int) -> Tensor:
        """Return the inputs of the network for a step of training."""
        if not self.changed:
            prepared: Tensor = model.preprocessing(images)
            return prepared
        return model.preprocessing.augmented(images, derived_generator(self.seed, "changes", epoch, step))
