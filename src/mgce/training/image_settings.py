"""How a network for images is trained."""

from __future__ import annotations

from dataclasses import dataclass

from mgce._validation import check_choice, check_count, check_fraction, expected
from mgce.training.resnet import ARCHITECTURES, STEMS
from mgce.training.settings import DescentSettings


@dataclass(frozen=True, kw_only=True)
class ImageSettings(DescentSettings):
    """How a network for images is trained by SGD; the defaults are those of the paper's section 5.1.

    There is no weight decay beside the penalty.

    Attributes:
        architecture: `"resnet18"`, `"resnet34"` or `"resnet50"`.
        stem: first layers, for images as small as those of `"cifar"` or as large as those of `"imagenet"`.
        width: channels of the first stage.
        size: height and width to which images in files are resized; None where they have one size.
        padding: pixels of value zero, after the subtraction of the mean, on each side before the random crop.
        crop: height and width of that crop; a test image is cropped in the middle.
        jitter: brightness, contrast and saturation of a training image are changed by factors that are uniform in
            [1 - jitter, 1 + jitter]; in [0, 1), 0 leaves the colours.
        validation_size: share of the training images that choose the epoch, in [0, 1), where no validation part is
            published; 0 takes the last epoch.

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
    jitter: float = 0.0
    validation_size: float = 0.1
    lr: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("architecture", self.architecture, tuple(ARCHITECTURES))
        check_choice("stem", self.stem, STEMS)
        for name in ("width", "crop"):
            check_count(name, getattr(self, name))
        check_count("padding", self.padding, minimum=0)
        if self.size is not None:
            check_count("size", self.size)
        for name in ("jitter", "validation_size"):
            check_fraction(name, getattr(self, name))
            if getattr(self, name) == 1:
                raise ValueError(expected(name, "a float in [0, 1)", 1))
