"""How a network for images is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mgce._validation import check_choice, check_count, check_fraction, check_number, expected
from mgce.training.convnet import CONVNETS
from mgce.training.resnet import ARCHITECTURES, STEMS
from mgce.training.settings import DescentSettings


@dataclass(frozen=True, kw_only=True)
class ImageSettings(DescentSettings):
    """How a network for images is trained by SGD; the defaults are those of the paper's section 5.1.

    Attributes:
        architecture: `"resnet18"`, `"resnet34"` or `"resnet50"`; or `"convnet2"` or `"convnet6"`, see `ConvNet`, to
            which `stem` and `width` mean nothing.
        stem: first layers, for images as small as those of `"cifar"` or as large as those of `"imagenet"`.
        width: channels of the first stage.
        initialization: of a residual network, `"normal"` as He et al. draw its convolutions, or `"uniform"` as the
            convolutional networks have it: He's and Glorot's uniform distributions.
        standardization: what is subtracted from images, the mean of each `"pixel"`; or the mean of each of the
            `"channels"`, and they are then divided by the standard deviation; both of the training images.
        size: height and width to which images in files are resized; None where they have one size.
        padding: pixels on each side before the random crop, see :class:`~mgce.training.image_data.Preprocessing`.
        crop: height and width of that crop, at least 5 for the stem `"cifar"` and 17 for `"imagenet"`; a test image is
            cropped in the middle.
        flip: whether half of the training images are mirrored.
        rotation: a training image is turned by an angle uniform in [-rotation, rotation] degrees, about its centre and
            with the nearest pixel, zero where there is none; 0 leaves it.
        jitter: brightness, contrast and saturation of a training image are changed by factors that are uniform in
            [1 - jitter, 1 + jitter]; in [0, 1), 0 leaves the colours.
        validation_size: share of the training images that choose the epoch, in [0, 1), where no validation part is
            published; 0 takes the last epoch.
        weight_decay: of all weights and biases, beside the penalty and not part of the clipped gradient.
        nesterov: whether the momentum is Nesterov's; then it is above 0.
        schedule: `"steps"` as the milestones say, or `"cosine"`, half a wave from `lr` down to 0.

    The other settings are those of `DescentSettings`; `batch_size` counts the images of a step on all devices together.

    Raises:
        TypeError, ValueError: if a setting is not one of those above.

    Example:
        >>> ImageSettings(lr=0.4, milestones=(2, 4), gamma=0.5).lr_at(2)
        0.2

    Reference: paper, section 5.1.
    """

    architecture: str = "resnet18"
    stem: str = "cifar"
    width: int = 64
    size: int | None = None
    padding: int = 4
    crop: int = 32
    flip: bool = True
    rotation: float = 0.0
    jitter: float = 0.0
    initialization: str = "normal"
    standardization: str = "pixel"
    validation_size: float = 0.1
    lr: float = 0.01
    weight_decay: float = 0.0
    nesterov: bool = False
    schedule: str = "steps"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("architecture", self.architecture, (*ARCHITECTURES, *CONVNETS))
        check_choice("initialization", self.initialization, ("normal", "uniform"))
        check_choice("standardization", self.standardization, ("pixel", "channels"))
        check_choice("schedule", self.schedule, ("steps", "cosine"))
        for name in ("flip", "nesterov"):
            check_choice(name, getattr(self, name), (True, False))
        if self.nesterov and self.momentum == 0:
            raise ValueError(expected("momentum", "above 0, with Nesterov's", self.momentum))
        check_number("rotation", self.rotation, 0, 180)
        check_number("weight_decay", self.weight_decay, 0)
        check_choice("stem", self.stem, tuple(STEMS))
        check_count("width", self.width)
        check_count("crop", self.crop, minimum=STEMS[self.stem] if self.architecture in ARCHITECTURES else 1)
        check_count("padding", self.padding, minimum=0)
        if self.size is not None:
            check_count("size", self.size)
        for name in ("jitter", "validation_size"):
            check_fraction(name, getattr(self, name))
            if getattr(self, name) == 1:
                raise ValueError(expected(name, "a float in [0, 1)", 1))

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0."""
        if self.schedule == "steps":
            return super().lr_at(epoch)
        return self.lr * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
