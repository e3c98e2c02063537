import pytest
import torch

from mgce.training.resnet import ResNet


def n_parameters(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("architecture", "stem", "n_classes", "published"),
    [
        ("resnet18", "imagenet", 1000, 11_689_512),  # torchvision's documentation
        ("resnet34", "imagenet", 1000, 21_797_672),
        ("resnet50", "imagenet", 1000, 25_557_032),
        ("resnet18", "cifar", 10, 11_173_962),  # timm and MONAI
        ("resnet34", "cifar", 10, 21_282_122),
    ],
)
def test_number_of_parameters_is_the_published_one(architecture, stem, n_classes, published):
    with torch.device("meta"):
        assert n_parameters(ResNet(architecture, n_classes, stem=stem)) == published


@pytest.mark.parametrize(("stem", "sides"), [("cifar", (32, 16, 8, 4)), ("imagenet", (8, 4, 2, 1))])
def test_stem_decides_the_size_of_each_stage(stem, sides):
    network = ResNet("resnet18", 10, stem=stem, width=2, in_channels=1)
    found = []
    for stage in (network.layer1, network.layer2, network.layer3, network.layer4):
        stage.register_forward_hook(lambda module, args, output: found.append(output.shape[2:]))
    assert network(torch.zeros(2, 1, 32, 32)).shape == (2, 10)
    assert found == [(side, side) for side in sides]


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
        ResNet(**{"architecture": "resnet18", "n_classes": 10, **arguments})
