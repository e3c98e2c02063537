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


@pytest.fixture
def models():
    try:
        import torchvision
    except ModuleNotFoundError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:  # a build for another PyTorch: its compiled operators are not there, and none is called
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision.models


@pytest.mark.parametrize("architecture", ["resnet18", "resnet50"])
def test_network_is_that_of_torchvision(models, architecture):
    reference = getattr(models, architecture)(num_classes=7).eval()
    network = ResNet(architecture, 7, stem="imagenet").eval()
    network.load_state_dict(reference.state_dict())
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(network(images), reference(images))


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
