"""Define the training settings of the protocols by data set, and deviations from these for single losses."""

from __future__ import annotations

from typing import Any

from mgce_lab.engine.methods import Method

Settings = dict[str, Any]

# P1, by which the published tables of losses were made: Ma et al. 2020, Zhou et al. 2021, Ye et al. 2023, Wang et al.
# 2024 and 2025. All training images, SGD with momentum .9, gradients clipped at 5, a cosine to 0, the last epoch.
_P1: Settings = {
    "batch_size": 128,
    "momentum": 0.9,
    "max_norm": 5.0,
    "schedule": "cosine",
    "standardization": "channels",
    "initialization": "uniform",
    "l1": 0.0,
}
_MNIST: Settings = {
    **_P1,
    **{"architecture": "convnet2", "epochs": 50, "lr": 0.01, "weight_decay": 1e-3},
    **{"padding": 0, "crop": 28, "flip": False},
}
P1: dict[str, Settings] = {
    "mnist": _MNIST,
    "fashion_mnist": _MNIST,
    "cifar10": {**_P1, "architecture": "convnet6", "epochs": 120, "lr": 0.01, "weight_decay": 1e-4},
    "cifar100": {
        **_P1,
        **{"architecture": "resnet34", "epochs": 200, "lr": 0.1, "weight_decay": 1e-5, "rotation": 20.0},
    },
}

# P2, human labels: Wei et al. 2022, whose numbers are of the best epoch. What they leave open is as in P1, but that
# nothing is clipped, nothing is turned, and weights are drawn as for residual networks, by He et al. 2015.
_P2: Settings = {
    **{"architecture": "resnet34", "epochs": 100, "batch_size": 128, "lr": 0.1, "milestones": (60,)},
    **{"weight_decay": 5e-4, "momentum": 0.9, "max_norm": None, "l1": 0.0, "standardization": "channels"},
}
P2: dict[str, Settings] = {"cifar10n": _P2, "cifar100n": _P2}
HUMAN = {"cifar10n": ("worst", "aggregate", "random1"), "cifar100n": ("noisy",)}

# Reduced: P1 with few images, and with them smaller batches, so that a run takes minutes on one core, and cross-entropy
# has time to learn the wrong labels by heart. Its numbers are to be compared with one another, and not with published
# ones. CIFAR-10 has the network of MNIST, a tenth as dear as its own, and no random crops, with which cross-entropy
# hardly memorises in 30 epochs.
_REDUCED: Settings = {
    **{"architecture": "convnet2", "epochs": 30, "batch_size": 32},
    **{"rows": 2_000, "test_rows": 2_000},
}
_REDUCED_CIFAR: Settings = {**P1["cifar10"], **_REDUCED, "rows": 5_000, "padding": 0}
REDUCED: dict[str, Settings] = {
    "mnist": {**P1["mnist"], **_REDUCED},
    "fashion_mnist": {**P1["fashion_mnist"], **_REDUCED},
    "cifar10": _REDUCED_CIFAR,
    "cifar10n": _REDUCED_CIFAR,
}

# Of smoke runs: on digits of 8 x 8 pixels, or on few images.
DIGITS: Settings = {**_MNIST, "epochs": 2, "crop": 8}
TINY: Settings = {"architecture": "convnet2", "epochs": 2, "rows": 128, "test_rows": 128}

# Of ANL-CE and, on CIFAR, JAL-CE: the L1 penalty on all parameters. Neither has weight decay but JAL-CE on CIFAR-100.
L1 = {"mnist": 1e-6, "cifar10": 5e-5, "cifar100": 5e-7}


def of_method(settings: Settings, dataset: str, method: Method) -> Settings:
    """Return the protocol's settings for a data set, with the changes that the authors of a loss made for this loss.

    Example:
        >>> of_method({"weight_decay": 1e-3, "l1": 0.0}, "mnist", Method("anl-ce"))
        {'weight_decay': 0.0, 'l1': 1e-06}
    """
    if method.name not in ("anl-ce", "jal-ce"):
        return settings
    dataset = dataset.removesuffix("n")
    kept = method.name == "jal-ce" and dataset == "cifar100"
    l1 = L1.get(dataset, L1["mnist"]) if method.name == "anl-ce" or dataset.startswith("cifar") else settings["l1"]
    return {**settings, "l1": l1, "weight_decay": settings["weight_decay"] if kept else 0.0}
