"""Define the small convolutional networks on which papers compare robust losses, for MNIST and CIFAR-10."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mgce._messages import check_choice, check_count, expected
from mgce_lab.images.logit_layer import LogitLayer

# Channels of the convolutions of each block; a block ends by halving height and width. And units of the hidden layer.
CONVNETS: dict[str, tuple[tuple[tuple[int, ...], ...], int]] = {
    "convnet2": (((32,), (64,)), 128),
    "convnet6": (((64, 64), (128, 128), (196, 196)), 256),
}


class ConvNet(nn.Module):
    """A convolutional network that maps N images (N, in_channels, height, width) to logits (N, num_classes).

    The network consists of blocks of 3 x 3 convolutions, a hidden layer and a linear output layer. Batch normalisation
    and ReLU follow each convolution and the hidden layer. Each block ends with max pooling over 2 x 2 pixels.

    Args:
        architecture: `"convnet2"` for MNIST: two convolutions with 32 and 64 channels, and 128 hidden units.
            `"convnet6"` for CIFAR-10: two convolutions each with 64, 128 and 196 channels, and 256 hidden units.
        num_classes: number of classes k.
        in_channels: number of channels of the images.
        size: height and width of the images.

    The initial weights are drawn from PyTorch's global generator.

    Raises:
        TypeError, ValueError: if an argument is not one of those above, or the images are too small for the blocks.

    Example:
        >>> network = ConvNet("convnet2", num_classes=10, in_channels=1, size=28)
        >>> network(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])

    Reference: Ma et al., "Normalized loss functions for deep learning with noisy labels", ICML 2020, section 4.
    """

    def __init__(self, architecture: str, num_classes: int, *, in_channels: int, size: int) -> None:
        super().__init__()
        check_choice("architecture", architecture, tuple(CONVNETS))
        for name, value in (("num_classes", num_classes), ("in_channels", in_channels), ("size", size)):
            check_count(name, value)
        blocks, units = CONVNETS[architecture]
        side = size >> len(blocks)
        if side == 0:
            raise ValueError(expected("size", f"at least {1 << len(blocks)}", size))
        channels, layers = in_channels, list[nn.Module]()
        for widths in blocks:
            layers += _block(channels, widths)
            channels = widths[-1]
        self.blocks = nn.Sequential(*layers)
        self.hidden = nn.Sequential(
            nn.Flatten(), nn.Linear(channels * side * side, units), nn.BatchNorm1d(units), nn.ReLU()
        )
        self.fc = LogitLayer(units, num_classes)
        initialize_uniformly(self)
        # The channels of a pixel side by side in memory: on one core a step of training takes a third less time.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # PyTorch's types lack this form

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, in_channels, size, size) to logits (N, num_classes)."""
        images = images.contiguous(memory_format=torch.channels_last)
        logits: Tensor = self.fc(self.hidden(self.blocks(images)))
        return logits


def initialize_uniformly(network: nn.Module) -> None:
    """Draw the initial weights of convolutions by He's uniform distribution, of linear layers by Glorot's."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)


def _block(channels: int, widths: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    # The maximum before max(0, .) is the maximum after it, at a quarter of the work.
    layers.insert(len(layers) - 1, nn.MaxPool2d(2))
    return layers
