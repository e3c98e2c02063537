"""Define the paper's settings for images by data set, and the noise rates of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mgce_lab.images.image_settings import ImageSettings

# Rates of symmetric noise in Tables 1 and 3; the labels of WebVision and Clothing-1M are noisy as they are.
NOISE_RATES = (0.0, 0.2, 0.4)

# Which human labels are trained on, of the data sets that have them: of CIFAR-10 the worst of three, 40 % of which are
# wrong, as are those of CIFAR-100.
HUMAN: Mapping[str, str] = MappingProxyType({"cifar10n": "worst", "cifar100n": "noisy"})

# By the data set's name in `mgce.desk.files`. What the paper does not say is our choice, and stands behind "Ours".
PAPER: Mapping[str, ImageSettings] = MappingProxyType(
    {
        # Section 5.1, Tables 1 and 2, Figure 3.
        "fashion_mnist": ImageSettings(architecture="resnet18"),
        "svhn": ImageSettings(architecture="resnet18"),
        "cifar10": ImageSettings(architecture="resnet34"),
        "cifar100": ImageSettings(architecture="resnet34"),
        # Not in the paper: the images of CIFAR with the labels that people gave them, so its network for CIFAR.
        "cifar10n": ImageSettings(architecture="resnet34"),
        "cifar100n": ImageSettings(architecture="resnet34"),
        # Section 5.1, Figure 3. Ours: images of 64 x 64 are resized to 32 x 32, since a crop of 32 out of 72
        # leaves out most of an image.
        "tiny_imagenet": ImageSettings(architecture="resnet18", size=32),
        # Appendix "Experimental setup for the real-world noisy WebVision dataset", Figure 4. Ours: that images are
        # shifted by up to a tenth of their size and how much their colours change, and that no images are held out: the
        # figure shows all epochs.
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
