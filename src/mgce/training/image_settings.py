"""How a network for images is trained, and the settings of the paper's experiments with images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mgce._validation import check_choice, check_count, check_fraction, expected
from mgce.training.resnet import ARCHITECTURES, STEMS


@dataclass(frozen=True)
class ImageSettings:
    r"""How a network for images is trained by SGD; the defaults are those of the paper's section 5.1.

    The objective is the mean loss and a penalty,
    :math:`\frac1n \sum_i \ell_\beta(f_i, y_i) + \lambda_0 \lVert \mu \rVert_1`: the paper's :math:`V_\beta` with one
    constant for all of lambda. It is no certificate. There is no weight decay beside the penalty.

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
        epochs: passes over the training images.
        batch_size: images in a step, over all devices.
        lr: learning rate.
        momentum: of SGD, in [0, 1).
        milestones: numbers of epochs after which the learning rate is multiplied by `gamma`.
        gamma: that factor.
        l1: lambda_0, at least 0.
        l1_on: weights that the penalty is on, those of the `"last"` layer, or `"all"` weights and biases.
        max_norm: largest norm of the gradient, penalty included; a longer one is scaled down.

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
    epochs: int = 150
    batch_size: int = 128
    lr: float = 0.01
    momentum: float = 0.9
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1
    l1: float = 1e-5
    l1_on: str = "all"
    max_norm: float = 5.0

    def __post_init__(self) -> None:
        check_choice("architecture", self.architecture, tuple(ARCHITECTURES))
        check_choice("stem", self.stem, STEMS)
        check_choice("l1_on", self.l1_on, ("last", "all"))
        for name in ("width", "crop", "epochs", "batch_size"):
            check_count(name, getattr(self, name))
        check_count("padding", self.padding, minimum=0)
        if self.size is not None:
            check_count("size", self.size)
        for epoch in self.milestones:
            check_count("milestones", epoch)
        for name in ("jitter", "validation_size", "momentum"):
            check_fraction(name, getattr(self, name))
            if getattr(self, name) == 1:
                raise ValueError(expected(name, "a float in [0, 1)", 1))
        for name in ("lr", "gamma", "max_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(expected(name, "a positive float", getattr(self, name)))
        if not self.l1 >= 0:
            raise ValueError(expected("l1", "a float of at least 0", self.l1))

    def lr_at(self, epoch: int) -> float:
        """Give the learning rate of an epoch, counted from 0."""
        return self.lr * self.gamma ** sum(milestone <= epoch for milestone in self.milestones)


# Rates of symmetric noise in Table 1; the labels of WebVision and Clothing-1M are noisy as they are.
NOISE_RATES = (0.0, 0.2, 0.4)

# By the data set's name in `mgce.datasets`. Where the paper says nothing, the choice is ours and said so.
PAPER: Mapping[str, ImageSettings] = MappingProxyType(
    {
        # Section 5.1, Tables 1 and 2, Figure 3.
        "fashion_mnist": ImageSettings(architecture="resnet18"),
        "svhn": ImageSettings(architecture="resnet18"),
        "cifar10": ImageSettings(architecture="resnet34"),
        "cifar100": ImageSettings(architecture="resnet34"),
        # Section 5.1, Figure 3. Ours: images of 64 x 64 are resized to 32 x 32, since a crop of 32 out of 72
        # leaves out most of an image.
        "tiny_imagenet": ImageSettings(architecture="resnet18", size=32),
        # Appendix "Experimental setup for the real-world noisy WebVision dataset", Figure 4. Ours: how far images are
        # shifted (a tenth) and jittered, and that no images are held out: the figure shows all epochs.
        "webvision": ImageSettings(
            architecture="resnet50",
            stem="imagenet",
            size=224,
            padding=22,
            crop=224,
            jitter=0.2,
            validation_size=0.0,
            epochs=250,
            batch_size=512,
            lr=0.4,
            milestones=tuple(range(1, 250)),
            gamma=0.97,
        ),
        # Appendix "Evaluation on real-world noisy Clothing-1M dataset", Figure 5. Ours: the size, that of WebVision,
        # and initial weights that are not pretrained.
        "clothing1m": ImageSettings(
            architecture="resnet50",
            stem="imagenet",
            size=224,
            crop=224,
            epochs=10,
            batch_size=512,
            lr=0.002,
            milestones=(5,),
        ),
    }
)
