"""Define the settings for training a network for images."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mgce._messages import check_choice, check_count, check_fraction, check_number, expected
from mgce_lab.images.convnet import CONVNETS
from mgce_lab.images.resnet import ARCHITECTURES, STEMS
from mgce_lab.training.settings import DescentSettings


@dataclass(frozen=True, kw_only=True)
class ImageSettings(DescentSettings):
    """Settings for training a network for images by SGD; the defaults are those of the paper's section 5.1.

    Attributes:
        architecture: `"resnet18"`, `"resnet34"` or `"resnet50"`; or `"convnet2"` or `"convnet6"`, see `ConvNet`. A
            `ConvNet` does not use `stem` and `width`.
        stem: the first layers: `"cifar"` for small images, `"imagenet"` for large ones.
        width: number of channels of the first stage.
        initialization: initial weights of a residual network: `"normal"` as He et al. draw the convolutions, or
            `"uniform"` as in the convolutional networks, by He's and Glorot's uniform distributions.
        standardization: `"pixel"` subtracts the mean of each pixel. `"channels"` subtracts the mean of each channel
            and divides by its standard deviation. Both are computed from the training images.
        size: height and width to which images in files are resized; None if all have the same size.
        padding: number of pixels added on each side before the random crop, see
            :class:`~mgce_lab.images.image_data.Preprocessing`.
        crop: height and width of the crop, at least 5 for the stem `"cifar"` and 17 for `"imagenet"`. Test images are
            cropped in the centre.
        flip: whether training images are mirrored with probability 1/2.
        rotation: largest angle in degrees. Each training image is rotated about its centre by an angle uniform in
            [-rotation, rotation], with the nearest pixel; empty pixels become zero. 0 means no rotation.
        jitter: size of random colour changes, in [0, 1). Brightness, contrast and saturation of each training image
            are changed by factors uniform in [1 - jitter, 1 + jitter]. 0 means no change.
        validation_size: fraction of the training images, in [0, 1), that is held out to select the best epoch, unless
            a validation part is published. 0 selects the last epoch.
        weight_decay: weight decay of all weights and biases, in addition to the penalty; gradient clipping ignores it.
        nesterov: whether to use Nesterov momentum; `momentum` then has to be above 0.
        schedule: `"steps"` multiplies the learning rate at the milestones; `"cosine"` decreases it from `lr` to 0
            along half a cosine wave.

    The other settings are those of `DescentSettings`; `batch_size` is the number of images of a step on all devices
    together.

    Raises:
        TypeError, ValueError: if a setting has a type or a value not allowed above.

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
