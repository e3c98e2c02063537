from dataclasses import asdict

import pytest

from mgce_lab.data import IMAGE_NAMES
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.paper.image_settings import NOISE_RATES, PAPER

SHARED = {"epochs": 150, "batch_size": 128, "lr": 0.01, "milestones": (), "padding": 4, "crop": 32}


@pytest.mark.parametrize(
    ("name", "published"),
    [  # read from the paper, section 5.1 and appendix
        ("fashion_mnist", {"architecture": "resnet18", **SHARED}),
        ("svhn", {"architecture": "resnet18", **SHARED}),
        ("tiny_imagenet", {"architecture": "resnet18", **SHARED}),
        ("cifar10", {"architecture": "resnet34", **SHARED}),
        ("cifar100", {"architecture": "resnet34", **SHARED}),
        ("webvision", {"architecture": "resnet50", "epochs": 250, "batch_size": 512, "lr": 0.4, "crop": 224}),
        ("clothing1m", {"architecture": "resnet50", "epochs": 10, "batch_size": 512, "lr": 0.002}),
    ],
)
def test_settings_of_the_paper(name, published):
    settings = asdict(PAPER[name])
    published = {"momentum": 0.9, "l1": 1e-5, "max_norm": 5.0, **published}
    assert {key: settings[key] for key in published} == published
    assert name in IMAGE_NAMES


def test_settings_of_the_paper_cannot_be_changed():
    assert NOISE_RATES == (0.0, 0.2, 0.4)
    with pytest.raises(TypeError):
        PAPER["cifar10"] = ImageSettings()


def test_schedules_of_the_paper():
    webvision, clothing1m = PAPER["webvision"], PAPER["clothing1m"]
    assert [webvision.lr_at(epoch) for epoch in (0, 1, 249)] == pytest.approx([0.4, 0.388, 0.4 * 0.97**249])
    assert [clothing1m.lr_at(epoch) for epoch in (4, 5, 9)] == pytest.approx([2e-3, 2e-4, 2e-4])
    assert PAPER["cifar10"].lr_at(149) == 0.01
