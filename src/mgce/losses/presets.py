"""The losses that papers on label noise compare, by name, with the hyperparameters published for data sets.

FashionMNIST has those of MNIST. Where paper and public configuration differ the paper counts.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import nn

from mgce import losses
from mgce._validation import check_choice, check_fraction, expected
from mgce.losses.named import SHARED, NamedLoss


def _losses() -> Mapping[str, NamedLoss]:
    """Collect what the modules of this room name, in the order that they say."""
    modules = (import_module(f"{losses.__name__}.{module.name}") for module in pkgutil.iter_modules(losses.__path__))
    named: list[NamedLoss] = [loss for module in modules for loss in getattr(module, "NAMED", ())]
    found = {loss.name: loss for loss in sorted(named, key=lambda loss: (loss.order, loss.name))}
    if len(found) < len(named):
        raise ValueError(expected("NAMED", "losses of different names", sorted(loss.name for loss in named)))
    return found


LOSSES = _losses()

DATA = tuple(sorted({data for loss in LOSSES.values() for data in loss.presets.by_data} | {"fashion_mnist"}))


def preset(name: str, data: str, noise_type: str | None = None, noise_rate: float | None = None) -> dict[str, Any]:
    """Return the hyperparameters of a loss that were published for a data set, or else those for CIFAR-10.

    CIFAR-10 is what most comparisons begin with.

    Args:
        name: of the loss, a key of `LOSSES`.
        data: name of the data set, as in `DATA`: `"mnist"`, `"cifar10"`, ...; `"fashion_mnist"` is as MNIST.
        noise_type: `"symmetric"` or `"asymmetric"`, for the few losses whose authors tell one noise from another.
        noise_rate: share of wrong labels, in [0, 1]; given with `noise_type`, and only then. A rate between those
            published has what was for the next larger one.

    Returns:
        Keywords for :func:`robust_loss`; none where nothing was published for CIFAR-10 either, and the defaults hold.

    Raises:
        TypeError, ValueError: if there is no loss or data set of that name, or the noise is not as above.

    Example:
        >>> preset("nce+agce", "cifar10")
        {'weights': (1.0, 4.0), 'a': 6.0, 'q': 1.5}
        >>> preset("ce+logitclip", "cifar10", "symmetric", 0.8)
        {'inverse_norm': 1.5}
        >>> preset("ce_eps+mae", "mnist") == preset("ce_eps+mae", "cifar10")
        True
    """
    check_choice("name", name, tuple(LOSSES))
    check_choice("data", data, DATA)
    data = "mnist" if data == "fashion_mnist" else data
    if (noise_type is None) != (noise_rate is None):
        missing, given = ("noise_rate", "noise_type") if noise_rate is None else ("noise_type", "noise_rate")
        raise ValueError(expected(missing, f"given where `{given}` is", None))
    if noise_type is not None:
        check_choice("noise_type", noise_type, ("symmetric", "asymmetric"))
        check_fraction("noise_rate", noise_rate)
    published = LOSSES[name].presets
    data = data if data in published.by_data else "cifar10"
    by_rate = published.by_noise.get((data, noise_type or ""), {0.0: {}})
    by_noise = by_rate[min((known for known in by_rate if known >= (noise_rate or 0)), default=max(by_rate))]
    return {**published.by_data.get(data, {}), **by_noise}


def robust_loss(
    name: str,
    data: str | None = None,
    noise_type: str | None = None,
    noise_rate: float | None = None,
    **keywords: Any,
) -> nn.Module:
    """Make a loss by the name that it has in papers.

    Args:
        name: `"ce"`, `"gce"`, `"nce+rce"`, ...: a key of `mgce.losses.presets.LOSSES`.
        data: name of a data set, for the hyperparameters published for it or else for CIFAR-10, as :func:`preset`
            gives them; None for the defaults.
        noise_type: kind of the noise, as for :func:`preset`.
        noise_rate: share of wrong labels, as for :func:`preset`.
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
    if data is None and (noise_type, noise_rate) != (None, None):
        raise ValueError(expected("data", "given where the noise is", data))
    loss = LOSSES[name]
    for keyword in keywords:
        if keyword not in (*loss.hyperparameters, *SHARED):
            takes = ", ".join(loss.hyperparameters) or "none"
            raise TypeError(expected(keyword, f"a hyperparameter of {name!r}, which has {takes}", keywords[keyword]))
    for keyword in loss.told:
        if keyword not in keywords:
            raise TypeError(expected(keyword, f"given, as {name!r} has no default of it", "nothing"))
    found = preset(name, data, noise_type, noise_rate) if data is not None else {}
    return loss(**{**found, **keywords})
