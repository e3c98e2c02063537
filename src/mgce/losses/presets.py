"""Construct the losses of papers on label noise by name, with the hyperparameters published for data sets.

FashionMNIST uses the values published for MNIST. If a paper and its public configuration differ, the paper's value is
used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from torch import nn

from mgce._messages import check_choice, check_fraction, expected
from mgce.losses import active_passive, early_learning, forward, learned_forward, modules, trimmed
from mgce.losses.records import SHARED, NamedLoss

# Every loss that `robust_loss` constructs, those of them that the comparisons train, and by their names the modules and
# functions that are made from scores.
NAMED: dict[str, NamedLoss] = {}
LOSSES: dict[str, NamedLoss] = {}
MADE: dict[str, Any] = {}


def add(files: Iterable[ModuleType]) -> None:
    """Add the losses that files list in `NAMED` to the losses of :func:`robust_loss`, at the end.

    Raises:
        ValueError: if two losses have the same name.
    """
    new: list[NamedLoss] = [loss for file in files for loss in file.NAMED]
    names = [*NAMED, *(loss.name for loss in new)]
    if len({*names}) < len(names):
        raise ValueError(expected("NAMED", "losses of different names", sorted(names)))
    NAMED.update({loss.name: loss for loss in new})
    LOSSES.update({loss.name: loss for loss in new if not loss.of_one_network})
    made = [vars(loss.make)["made"] for loss in _inside(new) if "made" in vars(loss.make)]
    MADE.update({one.__name__: one for module in made for one in (module, module.function)})


def _inside(named: Iterable[NamedLoss]) -> Iterator[NamedLoss]:
    for loss in named:
        yield loss
        yield from _inside(loss.of)


add((modules, active_passive, forward, trimmed, early_learning, learned_forward))

DATA = tuple(sorted({data for loss in NAMED.values() for data in loss.presets.by_data} | {"fashion_mnist"}))


def preset(name: str, data: str, noise_type: str | None = None, noise_rate: float | None = None) -> dict[str, Any]:
    """Return the hyperparameters of a loss that were published for a data set.

    If none were published for the data set, the hyperparameters for CIFAR-10 are returned, on which most losses are
    compared.

    Args:
        name: name of the loss, a key of `NAMED`.
        data: name of the data set, as in `DATA`: `"mnist"`, `"cifar10"`, ...; `"fashion_mnist"` uses the values of
            MNIST.
        noise_type: `"symmetric"` or `"asymmetric"`; only a few losses have values that depend on it.
        noise_rate: fraction of wrong labels, in [0, 1]; give it if and only if you give `noise_type`. Between
            published rates the values of the next larger rate are used.

    Returns:
        Keywords for :func:`robust_loss`. They are empty if nothing was published for CIFAR-10 either; then use the
        defaults.

    Raises:
        TypeError, ValueError: if there is no loss or data set of that name, or `noise_type` or `noise_rate` is not as
            above.

    Example:
        >>> preset("nce+agce", "cifar10")
        {'weights': (1.0, 4.0), 'a': 6.0, 'q': 1.5}
        >>> preset("nce+agce", "fashion_mnist") == preset("nce+agce", "mnist")
        True
    """
    check_choice("name", name, tuple(NAMED))
    check_choice("data", data, DATA)
    data = "mnist" if data == "fashion_mnist" else data
    if (noise_type is None) != (noise_rate is None):
        missing, given = ("noise_rate", "noise_type") if noise_rate is None else ("noise_type", "noise_rate")
        raise ValueError(expected(missing, f"given where `{given}` is", None))
    if noise_type is not None:
        check_choice("noise_type", noise_type, ("symmetric", "asymmetric"))
        check_fraction("noise_rate", noise_rate)
    published = NAMED[name].presets
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
    """Construct a loss by its name in papers.

    Args:
        name: `"ce"`, `"gce"`, `"nce+rce"`, ...: a key of `mgce.losses.presets.NAMED`.
        data: name of a data set; the hyperparameters are those that :func:`preset` returns for it. None uses the
            defaults.
        noise_type: type of the noise, as for :func:`preset`.
        noise_rate: fraction of wrong labels, as for :func:`preset`.
        keywords: hyperparameters, which replace those of `data`, and arguments of `nn.CrossEntropyLoss`. `weights` are
            the weights of the terms of a sum.

    Returns:
        A module that takes logits and targets; its `link` turns logits into probabilities. `"elr"` and
        `"soft-bootstrap"` take the indices of the rows too: see :class:`mgce.IndexedDataset`.

    Raises:
        TypeError, ValueError, RuntimeError: if there is no loss or data set of that name, the noise is not as above,
            or a hyperparameter is missing or does not belong to the loss.

    Example:
        >>> criterion = robust_loss("nce+rce", "cifar10")
        >>> criterion(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor(7.5407)
    """
    check_choice("name", name, tuple(NAMED))
    if data is None and (noise_type, noise_rate) != (None, None):
        raise ValueError(expected("data", "given where the noise is", data))
    loss = NAMED[name]
    for keyword in keywords:
        if keyword not in (*loss.hyperparameters, *SHARED):
            takes = ", ".join(loss.hyperparameters) or "none"
            raise TypeError(expected(keyword, f"a hyperparameter of {name!r}, which has {takes}", keywords[keyword]))
    for keyword in loss.told:
        if keyword not in keywords:
            raise TypeError(expected(keyword, f"given, as {name!r} has no default of it", "nothing"))
    found = preset(name, data, noise_type, noise_rate) if data is not None else {}
    return loss(**{**found, **keywords})
