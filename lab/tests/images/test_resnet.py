import pytest
import torch

from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.images.resnet import ARCHITECTURES, STEMS, PaddedConv2d, ResNet


def n_parameters(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("architecture", "stem", "num_classes", "published"),
    [
        ("resnet18", "imagenet", 1000, 11_689_512),  # torchvision's documentation
        ("resnet34", "imagenet", 1000, 21_797_672),
        ("resnet50", "imagenet", 1000, 25_557_032),
        ("resnet18", "cifar", 10, 11_173_962),  # timm and MONAI
        ("resnet34", "cifar", 10, 21_282_122),
    ],
)
def test_number_of_parameters_is_the_published_one(architecture, stem, num_classes, published):
    with torch.device("meta"):
        network = ResNet(architecture, num_classes, stem=stem)
        assert n_parameters(network) == published
        assert network(torch.empty(2, 3, 32, 32)).shape == (2, num_classes)


@pytest.mark.parametrize(("stem", "sides"), [("cifar", (32, 16, 8, 4)), ("imagenet", (8, 4, 2, 1))])
def test_stem_decides_the_size_of_each_stage(stem, sides):
    network = ResNet("resnet18", 10, stem=stem, width=2, in_channels=1)
    found = []
    for stage in (network.layer1, network.layer2, network.layer3, network.layer4):
        stage.register_forward_hook(lambda module, args, output: found.append(output.shape[2:]))
    assert network(torch.zeros(2, 1, 32, 32)).shape == (2, 10)
    assert found == [(side, side) for side in sides]


@pytest.mark.parametrize("size", [1, 3, 7])
def test_one_pixel_is_convolved_as_pytorch_has_it(size):
    """There only the middle of a filter is computed with; the rest of its gradient is zero."""
    ours = PaddedConv2d(5, 3, size).double()
    plain = torch.nn.Conv2d(5, 3, size, padding=size // 2, bias=False).double()
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(4, 5, 1, 1, dtype=torch.float64)
    gradients = []
    for module in (ours, plain):
        images = x.clone().requires_grad_()
        out = module(images)
        out.square().sum().backward()
        gradients.append((out, images.grad, module.weight.grad))
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("stem", STEMS)
def test_no_stride_meets_one_pixel(architecture, stem):
    """There the gradient in bfloat16 is what the memory held, and now and then NaN."""

    def narrowest(side):
        network = ResNet(architecture, 10, stem=stem, width=2).eval()
        sides = []
        for module in network.modules():
            if isinstance(module, torch.nn.Conv2d) and module.kernel_size[0] > module.stride[0] > 1:
                module.register_forward_pre_hook(lambda module, args: sides.append(args[0].shape[-1]))
        network(torch.zeros(1, 3, side, side))
        return min(sides)

    smallest = STEMS[stem]
    assert narrowest(smallest) == 2 and narrowest(smallest - 1) == 1
    settings = {"architecture": architecture, "stem": stem}
    assert ImageSettings(**settings, crop=smallest).crop == smallest
    with pytest.raises(ValueError, match=f"Expected `crop` to be an integer of at least {smallest}"):
        ImageSettings(**settings, crop=smallest - 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"architecture": "resnet20"}, "Expected `architecture` to be one of"),
        ({"stem": "none"}, "Expected `stem` to be one of"),
        ({"width": 0}, "Expected `width` to be an integer of at least 1"),
    ],
)
def test_bad_arguments(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        ResNet(**{"architecture": "resnet18", "num_classes": 10, **arguments})


@pytest.mark.parametrize("channels", [1, 4, 7, 15, 16])
def test_a_strided_convolution_of_few_channels_is_given_only_the_pixels_that_it_reads(channels):
    """With fewer than 8 channels PyTorch 2.13 writes beside its memory, unless it is given only these pixels."""
    x = torch.randn(3, channels, 9, 8, dtype=torch.float64)
    ours = PaddedConv2d(channels, 2 * channels, 1, stride=2).to(memory_format=torch.channels_last)
    assert (ours.stride == (1, 1)) == (channels < 16)
    plain = torch.nn.Conv2d(channels, 2 * channels, 1, stride=2, bias=False).double()  # no such fault in float64
    plain.load_state_dict(ours.state_dict())
    found, expected = ours(x.float().to(memory_format=torch.channels_last)), plain(x)
    torch.testing.assert_close(found, expected.float())
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.weight.grad, plain.weight.grad.float())
