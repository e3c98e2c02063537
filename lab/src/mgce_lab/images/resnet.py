"""Define residual networks for images, with first layers (the stem) for small images or for ImageNet."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor, nn
from torch.nn import functional as F

from mgce._messages import check_choice, check_count
from mgce_lab.images.logit_layer import LogitLayer

# By stem, the smallest height and width of images whose every convolution with a stride of two meets two pixels. Where
# it meets one, oneDNN 3.12 in bfloat16 leaves the gradient of some weights as the memory was, numbers or NaN.
STEMS = {"cifar": 5, "imagenet": 17}
# Below so many input channels, as wide as the widest vector of float32, a 1 x 1 convolution with a stride is given only
# the pixels that it reads. PyTorch 2.13 with oneDNN writes beside its memory from 7 channels down, seen on AVX2.
FEW_CHANNELS = 16


class PaddedConv2d(nn.Conv2d):
    """A convolution without bias, padded such that stride 1 keeps height and width.

    For an image of one pixel, all weights but the centre of a filter are multiplied by padding. So only the centre is
    used for such images: the result is the same up to rounding, and is computed 1.1 times as fast. Such images occur in
    the last stage for inputs of 32 x 32 with the ImageNet stem.
    """

    step: int  # of the pixels that the convolution is given

    def __init__(self, in_channels: int, out_channels: int, size: int, stride: int = 1) -> None:
        sliced = size == 1 and in_channels < FEW_CHANNELS
        self.step, stride = (stride, 1) if sliced else (1, stride)
        super().__init__(in_channels, out_channels, size, stride, padding=size // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map N feature maps (N, in_channels, h, w) to (N, out_channels, h / stride, w / stride)."""
        if x.shape[2:] != (1, 1):
            return super().forward(x[:, :, :: self.step, :: self.step] if self.step > 1 else x)
        middle = self.kernel_size[0] // 2
        return F.linear(x.flatten(1), self.weight[:, :, middle, middle])[:, :, None, None]


class BasicBlock(nn.Module):
    """A residual block of two 3 x 3 convolutions, from (N, in_channels, h, w) to (N, width, h / stride, w / stride)."""

    expansion = 1

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = PaddedConv2d(in_channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = PaddedConv2d(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(in_channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block for feature maps x."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """A residual block of three convolutions, 1 x 1, 3 x 3 and 1 x 1.

    It maps N feature maps (N, in_channels, h, w) to (N, 4 width, h / stride, w / stride).

    The 3 x 3 convolution has the stride, as in torchvision. In the networks of He et al. the first convolution has the
    stride.
    """

    expansion = 4

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out_channels = width * self.expansion
        self.conv1 = PaddedConv2d(in_channels, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = PaddedConv2d(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = PaddedConv2d(width, out_channels, 1)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.downsample = _shortcut(in_channels, out_channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block for feature maps x."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and in_channels == out_channels:
        return None
    return nn.Sequential(PaddedConv2d(in_channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels))


Block: TypeAlias = type[BasicBlock] | type[Bottleneck]
ARCHITECTURES: dict[str, tuple[Block, tuple[int, ...]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
}


class ResNet(nn.Module):
    """A residual network that maps N images (N, in_channels, height, width) to logits (N, num_classes).

    Its weights have the names of torchvision's networks. With the stem `"imagenet"`, torchvision's weights can be
    loaded.

    Args:
        architecture: `"resnet18"`, `"resnet34"` or `"resnet50"`.
        num_classes: number of classes k.
        in_channels: number of channels of the images.
        stem: `"cifar"` begins with a 3 x 3 convolution that keeps the size; `"imagenet"` begins with a 7 x 7
            convolution and max pooling, which divide height and width by four.
        width: number of channels of the first of four stages, 64 in the published networks. It doubles in each stage.

    The initial weights are drawn from PyTorch's global generator.

    Raises:
        TypeError, ValueError: if an argument has a type or a value not allowed above.

    Example:
        >>> import torch
        >>> network = ResNet("resnet18", num_classes=10)
        >>> sum(parameter.numel() for parameter in network.parameters())
        11173962
        >>> network(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    Reference: He et al., "Deep residual learning for image recognition", CVPR 2016, sections 3 and 4.2.
    """

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def __init__(
        self, architecture: str, num_classes: int, *, in_channels: int = 3, stem: str = "cifar", width: int = 64
    ) -> None:
        super().__init__()
        check_choice("architecture", architecture, tuple(ARCHITECTURES))
        check_choice("stem", stem, tuple(STEMS))
        for name, value in (("num_classes", num_classes), ("in_channels", in_channels), ("width", width)):
            check_count(name, value)
        block, depths = ARCHITECTURES[architecture]
        size, stride = (3, 1) if stem == "cifar" else (7, 2)
        self.conv1 = PaddedConv2d(in_channels, width, size, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.Identity() if stem == "cifar" else nn.MaxPool2d(3, stride=2, padding=1)
        channels = width
        for stage, depth in enumerate(depths):
            blocks: list[nn.Module] = []
            for number in range(depth):
                stride = 2 if stage > 0 and number == 0 else 1
                blocks.append(block(channels, width << stage, stride))
                channels = (width << stage) * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = LogitLayer(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, in_channels, h, w) to logits (N, num_classes)."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(images))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
