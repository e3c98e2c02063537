"""The losses that papers on label noise compare, by name, with the hyperparameters published for data sets.

Sources: Ma et al. 2020 for NCE+RCE and NCE+MAE, and its settings of SCE and GCE (APL); Zhou et al. 2021 for AGCE and
NCE+AGCE (ALF); Ye et al. 2023 for ANL-CE; Wang et al. 2025 for JAL-CE; Wang et al. 2024 for CE_eps+MAE and
CE+LogitClip. FashionMNIST has those of MNIST. Where paper and public configuration differ the paper counts.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mgce._validation import check_choice, expected
from mgce.losses.asymmetric import AGCELoss, AMSELoss
from mgce.losses.base import Loss
from mgce.losses.capped import CappedMGCELoss
from mgce.losses.clipped import LogitClip
from mgce.losses.forward import ForwardCorrection
from mgce.losses.modules import GCELoss, MGCELoss
from mgce.losses.normalized import NCELoss, NNCELoss
from mgce.losses.reweighted import EpsilonSoftmaxLoss, FocalLoss, TaylorCELoss
from mgce.losses.scale import LogitScale
from mgce.losses.sums import SumLoss
from mgce.losses.symmetric import RCELoss, UnhingedLoss
from mgce.losses.tempered import BiTemperedLoss
from mgce.losses.trimmed import WINDOW, TrimmedLoss

Keywords = Mapping[str, Any]

# GCE at its two ends; its cross-entropy is computed in float32 for half types.
_ce = partial(GCELoss, beta=math.inf)
_mae = partial(GCELoss, beta=1.0)


def _sum(parts: Mapping[Callable[..., nn.Module], tuple[str, ...]]) -> Callable[..., SumLoss]:
    """Give the constructor of a sum of losses, each with the names of its own hyperparameters."""

    def make(*, weights: Sequence[float] = (1.0, 1.0), **keywords: Any) -> SumLoss:
        own = [{name: keywords.pop(name) for name in names if name in keywords} for names in parts.values()]
        return SumLoss([part(**keywords, **own_one) for part, own_one in zip(parts, own, strict=True)], weights)

    return make


def _clipped_ce(*, delta: float = 1.0, **keywords: Any) -> LogitClip:
    return LogitClip(_ce(**keywords), delta)


def _clipped_mgce(*, delta: float = 1.0, **keywords: Any) -> LogitClip:
    return LogitClip(MGCELoss(**keywords), delta)


def _scaled(loss: Callable[..., nn.Module]) -> Callable[..., LogitScale]:
    """Give the constructor of a loss of scaled logits."""

    def make(*, scale: float = 1.0, **keywords: Any) -> LogitScale:
        return LogitScale(loss(**keywords), scale)

    return make


def _forward_ce(*, transition: Any, **keywords: Any) -> ForwardCorrection:
    return ForwardCorrection(_ce(**keywords), _matrix(transition))


def _forward_mgce(*, transition: Any, **keywords: Any) -> ForwardCorrection:
    return ForwardCorrection(MGCELoss(**keywords), _matrix(transition))


def _matrix(transition: Any) -> Tensor:
    """Give a transition matrix as a tensor, from whatever holds its numbers."""
    try:
        return torch.as_tensor(transition)
    except (TypeError, ValueError, RuntimeError):  # rows of several lengths, or words
        raise ValueError(expected("transition", "a matrix of numbers, (k, k)", transition)) from None


def _trimmed(loss: Callable[..., nn.Module]) -> Callable[..., TrimmedLoss]:
    """Give the constructor of a loss of the rows that cost least."""

    def make(
        *,
        trim: float | Sequence[float] | Tensor,
        n_classes: int,
        window: int = WINDOW,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        **keywords: Any,
    ) -> TrimmedLoss:
        reduction = Loss(None, size_average, reduce=reduce, reduction=reduction).reduction
        return TrimmedLoss(loss(reduction="none", **keywords), trim, n_classes, window=window, reduction=reduction)

    return make


LOSSES: Mapping[str, Callable[..., nn.Module]] = {
    "ce": _ce,
    "mae": _mae,
    "gce": partial(GCELoss, beta=1 / 0.7),  # q = .7
    "mgce": MGCELoss,
    "rce": RCELoss,
    "sce": _sum({_ce: (), RCELoss: ("log_zero",)}),
    "nce": NCELoss,
    "nce+rce": _sum({NCELoss: (), RCELoss: ("log_zero",)}),
    "nce+mae": _sum({NCELoss: (), _mae: ()}),
    "agce": AGCELoss,
    "nce+agce": _sum({NCELoss: (), AGCELoss: ("a", "q")}),
    "anl-ce": _sum({NCELoss: (), NNCELoss: ("floor",)}),
    "jal-ce": _sum({NCELoss: (), AMSELoss: ("c",)}),
    "ce_eps": EpsilonSoftmaxLoss,
    "ce_eps+mae": _sum({EpsilonSoftmaxLoss: ("m", "floor"), _mae: ()}),
    "ce+logitclip": _clipped_ce,
    "ce+forward": _forward_ce,
    "bi-tempered": BiTemperedLoss,
    "focal": FocalLoss,
    "taylor-ce": TaylorCELoss,
    "poly-1": _sum({_ce: (), _mae: ()}),
    "unhinged": UnhingedLoss,
    # Variants of MGCE, to find out where it is weak; and of others, to see that it is not they that gain.
    "ce+scale": _scaled(_ce),
    "gce+scale": _scaled(partial(GCELoss, beta=1 / 0.7)),
    "mgce+nce": _sum({MGCELoss: ("beta",), NCELoss: ()}),
    "mgce+rce": _sum({MGCELoss: ("beta",), RCELoss: ("log_zero",)}),
    "mgce+logitclip": _clipped_mgce,
    "mgce+scale": _scaled(MGCELoss),
    "mgce+forward": _forward_mgce,
    "mgce+cap": CappedMGCELoss,
    # A row counts as long as its label has at least half of the probability: no other class can have as much.
    "mgce+trunc": partial(CappedMGCELoss, threshold=0.5),
    "ce+trunc": partial(CappedMGCELoss, beta=math.inf, threshold=0.5),
    "mgce+trim": _trimmed(MGCELoss),
    "ce+trim": _trimmed(_ce),
}
# What each takes besides the arguments of cross-entropy; those of `REQUIRED` have no default.
HYPERPARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("ce", "mae", "nce", "unhinged"), ()),
    **dict.fromkeys(("gce", "mgce", "mgce+cap"), ("beta",)),
    **dict.fromkeys(("nce+mae", "poly-1"), ("weights",)),
    **dict.fromkeys(("sce", "nce+rce"), ("weights", "log_zero")),
    "rce": ("log_zero",),
    "agce": ("a", "q"),
    "nce+agce": ("weights", "a", "q"),
    "anl-ce": ("weights", "floor"),
    "jal-ce": ("weights", "c"),
    "ce_eps": ("m", "floor"),
    "ce_eps+mae": ("weights", "m", "floor"),
    "ce+logitclip": ("delta",),
    "ce+forward": ("transition",),
    "bi-tempered": ("t1", "t2"),
    "focal": ("gamma",),
    "taylor-ce": ("order",),
    "ce+scale": ("scale",),
    "gce+scale": ("scale", "beta"),
    "mgce+nce": ("weights", "beta"),
    "mgce+rce": ("weights", "beta", "log_zero"),
    "mgce+logitclip": ("delta", "beta"),
    "mgce+scale": ("scale", "beta"),
    "mgce+forward": ("transition", "beta"),
    "mgce+trunc": ("threshold", "beta"),
    "ce+trunc": ("threshold",),
    "mgce+trim": ("trim", "n_classes", "window", "beta"),
    "ce+trim": ("trim", "n_classes", "window"),
}
REQUIRED = ("transition", "trim", "n_classes")
SHARED = tuple(inspect.signature(Loss.__init__).parameters)[1:]
WITH_BETA = tuple(name for name in LOSSES if "beta" in HYPERPARAMETERS[name])

# `weights` are those of the two losses of a sum. The L1 penalty of ANL-CE and JAL-CE is of the network's parameters,
# not of its logits: it is the trainer's, and so is their weight decay.
_SCE: Mapping[str, Keywords] = {
    "mnist": {"weights": (0.01, 1.0)},
    "cifar10": {"weights": (0.1, 1.0)},
    "cifar100": {"weights": (6.0, 0.1)},
    "webvision": {"weights": (10.0, 1.0)},
}
PRESETS: Mapping[str, Mapping[str, Keywords]] = {
    "sce": _SCE,
    "mgce+rce": _SCE,  # SCE with MGCE for its cross-entropy
    "nce+rce": {
        "mnist": {"weights": (1.0, 10.0)},
        "cifar10": {"weights": (1.0, 1.0)},
        "cifar100": {"weights": (10.0, 0.1)},
        "webvision": {"weights": (50.0, 0.1)},
    },
    "nce+mae": {
        "mnist": {"weights": (1.0, 10.0)},
        "cifar10": {"weights": (1.0, 1.0)},
        "cifar100": {"weights": (10.0, 0.1)},
    },
    "gce": {"clothing1m": {"beta": 1 / 0.6}},
    "agce": {
        "mnist": {"a": 4.0, "q": 0.2},
        "cifar10": {"a": 0.6, "q": 0.6},
        "cifar100": {"a": 0.6, "q": 0.6},
        "webvision": {"a": 1e-5, "q": 0.5},
    },
    "nce+agce": {
        "mnist": {"weights": (0.0, 1.0), "a": 4.0, "q": 0.2},
        "cifar10": {"weights": (1.0, 4.0), "a": 6.0, "q": 1.5},
        "cifar100": {"weights": (10.0, 0.1), "a": 1.8, "q": 3.0},
        "webvision": {"weights": (50.0, 0.1), "a": 2.5, "q": 3.0},
    },
    "anl-ce": {
        "mnist": {"weights": (1.0, 1.0)},
        "cifar10": {"weights": (5.0, 5.0)},
        "cifar100": {"weights": (10.0, 1.0)},
        "webvision": {"weights": (20.0, 1.0)},
    },
    "jal-ce": {
        "cifar10": {"weights": (1.0, 1.0), "c": 30.0},
        "cifar100": {"weights": (5.0, 1.0), "c": 20.0},
        "webvision": {"weights": (50.0, 1.0), "c": 30.0},
    },
    # Its MAE is 2 (1 - p_y), so that the second weight here is twice the paper's.
    "ce_eps+mae": {
        "cifar10": {"weights": (0.01, 10.0), "m": 1e5},
        "cifar100": {"weights": (0.1, 2.0), "m": 1e4},
        "webvision": {"weights": (0.015, 0.6), "m": 1e3},
    },
    "ce+logitclip": {"cifar10": {"delta": 1.0}, "cifar100": {"delta": 0.5}, "webvision": {"delta": 1.2}},
}

# What replaces them for some kinds of noise, by the rate up to which it does; a larger rate has that of the largest.
PRESETS_BY_NOISE: Mapping[tuple[str, str], Mapping[str, Mapping[float, Keywords]]] = {
    # Asymmetric noise is in the public configuration alone, https://github.com/cswjl/eps-softmax.
    ("ce_eps+mae", "cifar10"): {"asymmetric": {0.0: {}, 0.4: {"weights": (0.02, 10.0), "m": 1e3}}},
    ("ce_eps+mae", "cifar100"): {
        "symmetric": {
            0.0: {},
            0.2: {"weights": (0.05, 2.0)},
            0.4: {"weights": (0.03, 2.0)},
            0.6: {"weights": (0.0125, 2.0)},  # .00125 in the public configuration
            0.8: {"weights": (0.0075, 2.0)},
        },
        "asymmetric": {
            0.0: {},
            0.1: {"weights": (0.015, 2.0), "m": 1e2},
            0.2: {"weights": (0.007, 2.0), "m": 1e2},
            0.3: {"weights": (0.005, 2.0), "m": 1e2},
            0.4: {"weights": (0.004, 2.0), "m": 1e2},
        },
    },
    ("ce+logitclip", "cifar10"): {
        "symmetric": {0.4: {}, 0.8: {"delta": 1.5}},
        "asymmetric": {0.0: {}, 0.4: {"delta": 2.5}},
    },
    ("ce+logitclip", "cifar100"): {"asymmetric": {0.0: {}, 0.4: {"delta": 2.5}}},
}

# A share from 0 to 1, as people and Python write it: .4, 0.4, 1e-05.
RATE = re.compile(r"0?\.[0-9]+|0|1(\.0*)?|[1-9](\.[0-9]+)?e-[0-9]+")

DATA = tuple(sorted({data for by_data in PRESETS.values() for data in by_data} | {"fashion_mnist"}))


def preset(name: str, data: str, noise: str | None = None) -> dict[str, Any]:
    """Give the hyperparameters of a loss that were published for a data set, or else those for CIFAR-10.

    CIFAR-10 is what most comparisons begin with.

    Args:
        name: of the loss, a key of `LOSSES`.
        data: name of the data set, as in `DATA`: `"mnist"`, `"cifar10"`, ...; `"fashion_mnist"` is as MNIST.
        noise: kind and rate, as `"symmetric 0.8"` or `"asymmetric 0.4"`, for the few losses whose authors tell one from
            another. A rate between those published has what was for the next larger one.

    Returns:
        Keywords for :func:`robust_loss`; none where nothing was published for CIFAR-10 either, and the defaults hold.

    Raises:
        TypeError, ValueError: if there is no loss or data set of that name, or the noise is not as above.

    Example:
        >>> preset("nce+agce", "cifar10")
        {'weights': (1.0, 4.0), 'a': 6.0, 'q': 1.5}
        >>> preset("ce+logitclip", "cifar10", "symmetric 0.8")
        {'delta': 1.5}
        >>> preset("ce_eps+mae", "mnist") == preset("ce_eps+mae", "cifar10")
        True
    """
    check_choice("name", name, tuple(LOSSES))
    check_choice("data", data, DATA)
    data = "mnist" if data == "fashion_mnist" else data
    kind, rate = _kind_and_rate(noise)
    published = PRESETS.get(name, {})
    data = data if data in published else "cifar10"
    by_rate = PRESETS_BY_NOISE.get((name, data), {}).get(kind, {0.0: {}})
    by_noise = by_rate[min((known for known in by_rate if known >= rate), default=max(by_rate))]
    return {**published.get(data, {}), **by_noise}


def robust_loss(name: str, data: str | None = None, noise: str | None = None, **keywords: Any) -> nn.Module:
    """Make a loss by the name that it has in papers.

    Args:
        name: `"ce"`, `"gce"`, `"nce+rce"`, ...: a key of `mgce.losses.presets.LOSSES`.
        data: name of a data set, for the hyperparameters published for it or else for CIFAR-10, as :func:`preset`
            gives them; None for the defaults.
        noise: kind and rate of the noise, as for :func:`preset`.
        keywords: hyperparameters, `weights` for those of a sum, which replace the others, and any of the arguments
            of `nn.CrossEntropyLoss`.

    Returns:
        A module that takes logits and targets, and has a `link`.

    Raises:
        TypeError, ValueError, RuntimeError: if there is no loss or data set of that name, the noise is not as above, or
            a hyperparameter is not one of the loss's, or missing.

    Example:
        >>> criterion = robust_loss("nce+rce", "cifar10")
        >>> criterion(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(7.5407)
    """
    check_choice("name", name, tuple(LOSSES))
    if data is None and noise is not None:
        raise ValueError(expected("data", "given where `noise` is", data))
    own = HYPERPARAMETERS[name]
    for keyword in keywords:
        if keyword not in (*own, *SHARED):
            takes = ", ".join(own) or "none"
            raise TypeError(expected(keyword, f"a hyperparameter of {name!r}, which has {takes}", keywords[keyword]))
    for keyword in own:
        if keyword in REQUIRED and keyword not in keywords:
            raise TypeError(expected(keyword, f"given, as {name!r} has no default of it", "nothing"))
    found = preset(name, data, noise) if data is not None else {}
    return LOSSES[name](**{**found, **keywords})


def _kind_and_rate(noise: str | None) -> tuple[str, float]:
    """Give the kind and the rate of noise."""
    if noise is None:
        return "", 0.0
    kind, _, rate = noise.partition(" ") if isinstance(noise, str) else ("", "", "")
    if kind not in ("symmetric", "asymmetric") or not RATE.fullmatch(rate):
        raise ValueError(expected("noise", "a kind and a rate, as 'symmetric 0.4' or 'asymmetric 0.4'", noise))
    return kind, float(rate)
