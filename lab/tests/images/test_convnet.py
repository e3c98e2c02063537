import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mgce_lab.images.convnet import ConvNet, initialize_uniformly
from mgce_lab.images.resnet import ResNet


def test_it_is_the_network_of_the_papers():
    """Convolution, normalisation, max(0, .), and only then the maximum of 2 x 2 pixels."""
    network = ConvNet("convnet2", 10, in_channels=1, size=28).double()
    images = torch.randn(5, 1, 28, 28, dtype=torch.double)
    found = network(images)
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    hidden, last = (module for module in network.modules() if isinstance(module, nn.Linear))
    x = images
    for convolution in convolutions:
        x = F.conv2d(x, convolution.weight, convolution.bias, padding=1)
        x = F.max_pool2d(F.relu(F.batch_norm(x, None, None, training=True)), 2)
    x = F.relu(F.batch_norm(hidden(x.flatten(1)), None, None, training=True))
    torch.testing.assert_close(found, last(x))


@pytest.mark.parametrize(
    "name, channels, size, widths, features, units",
    [
        ("convnet2", 1, 28, [32, 64], 64 * 7 * 7, 128),
        ("convnet6", 3, 32, [64, 64, 128, 128, 196, 196], 196 * 4 * 4, 256),
    ],
)
def test_sizes(name, channels, size, widths, features, units):
    network = ConvNet(name, 10, in_channels=channels, size=size)
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert [module.out_channels for module in convolutions] == widths
    hidden, last = (module for module in network.modules() if isinstance(module, nn.Linear))
    assert (hidden.in_features, hidden.out_features, last.out_features) == (features, units, 10)


@pytest.mark.parametrize("network", [ConvNet("convnet2", 10, in_channels=1, size=28), ResNet("resnet18", 10, width=8)])
def test_weights_are_uniform_within_the_bounds_of_he_and_glorot(network):
    initialize_uniformly(network)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            bound = (6 / (module.in_channels * module.kernel_size[0] ** 2)) ** 0.5
        elif isinstance(module, nn.Linear):
            bound = (6 / (module.in_features + module.out_features)) ** 0.5
        else:
            continue
        size = module.weight.abs().max().item()
        assert size <= bound and size > 0.9 * bound


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="Expected `architecture` to be one of 'convnet2', 'convnet6'"):
        ConvNet("convnet3", 10, in_channels=1, size=28)
    with pytest.raises(ValueError, match="Expected `size` to be at least 8, but got 7"):
        ConvNet("convnet6", 10, in_channels=3, size=7)


@pytest.mark.parametrize("architecture", ["convnet2", "resnet18"])
def test_logits_are_not_rounded_in_mixed_precision(architecture):
    if architecture == "resnet18":
        network = ResNet(architecture, 10, in_channels=1, width=8)
    else:
        network = ConvNet(architecture, 10, in_channels=1, size=28)
    images = torch.randn(8, 1, 28, 28)
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(images)
    assert logits.dtype == torch.float32
    assert (logits != logits.bfloat16()).float().mean() > 0.9
    torch.testing.assert_close(logits, network(images), rtol=0, atol=0.1)  # some per cent of their size
