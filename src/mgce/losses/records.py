"""Describe losses by records: how to construct each, its hyperparameters, published values and properties.

Each module of `mgce.losses` lists its named losses at its end, in `NAMED`. `presets.py` collects them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from torch import nn

from mgce._messages import check_count, check_number, expected
from mgce.losses.base import Loss

Keywords = Mapping[str, Any]

REQUIRED = inspect.Parameter.empty  # stands for the default of a hyperparameter that has none
SHARED = tuple(inspect.signature(Loss).parameters)  # the arguments of cross-entropy, and `dim`
# Parameters that are no hyperparameters either: the losses inside, and how the same values are computed.
OTHERS = ("loss", "losses", "backend")


@dataclass(frozen=True)
class Number:
    """A hyperparameter of a loss: its default, its meaning and its range.

    Attributes:
        default: the default; an integer if only integers are taken.
        meaning: what the hyperparameter means, for the docstring.
        least, most: the ends of the range. If `least` is None, the function of the scores checks the number.
        above: whether the least number itself is excluded.
    """

    default: float
    meaning: str
    least: float | None = None
    most: float = math.inf
    above: bool = False

    @property
    def range(self) -> tuple[bool, float | None, float, bool]:
        """What :func:`check_in_range` takes: plain values, which `torch.compile` traces wherever a loss is made."""
        return isinstance(self.default, int), self.least, self.most, self.above


def check_in_range(name: str, value: Any, is_integer: bool, least: float | None, most: float, above: bool) -> None:
    """Require a hyperparameter to be in its range: see :class:`Number`."""
    if least is None:
        return
    if is_integer:
        check_count(name, value, int(least))
        if value > most:
            raise ValueError(expected(name, f"at most {most}", value))
    else:
        check_number(name, value, least, most, above=above)


@dataclass(frozen=True)
class Presets:
    """Hyperparameters of a loss that were published for data sets.

    Attributes:
        by_data: maps the name of a data set to hyperparameters.
        by_noise: maps a data set and a type of noise to replacements of `by_data`. The replacements are listed by noise
            rate, and hold up to this rate. Above the largest listed rate the last replacements hold.
        source: the publication of these values, if it is not that of the loss.
    """

    by_data: Mapping[str, Keywords] = field(default_factory=dict)
    by_noise: Mapping[tuple[str, str], Mapping[float, Keywords]] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, eq=False)
class NamedLoss:
    """The description of a loss that `robust_loss` constructs by its name.

    Attributes:
        name: the name used in papers, in lower case, without spaces and commas, which separate names in tables.
        make: the class or function that constructs the loss. If it has a parameter `loss` or `losses`, it wraps `of`.
        formula: the loss of a row, in Markdown. f are the logits, y the label, k the number of classes, p softmax of
            f.
        of: the losses inside this loss: the terms of a sum, or the wrapped loss.
        fixed: arguments of `make` that define this loss; the user cannot set them.
        changed: defaults of hyperparameters that differ from the defaults of `make`.
        bounded, symmetric, convex: properties of the loss at its defaults. Bounded means bounded above; symmetric
            means that the sum over the classes does not depend on the logits; convex means convex in the logits.
        claims: text that the documentation shows for `bounded`, `symmetric` or `convex` instead of yes or no, if the
            property depends on hyperparameters.
        source: the publication of the loss.
        presets: hyperparameters that were published for data sets.
        recommended: whether `docs/choosing.md` recommends the loss; the other losses are kept for comparison.
        of_one_network: whether one module serves one network, from which it learns. Such a loss is in no comparison.
    """

    name: str
    make: Callable[..., nn.Module]
    formula: str
    _: KW_ONLY
    of: tuple[NamedLoss, ...] = ()
    fixed: Keywords = field(default_factory=dict)
    changed: Keywords = field(default_factory=dict)
    bounded: bool = False
    symmetric: bool = False
    convex: bool = False
    claims: Mapping[str, str] = field(default_factory=dict)
    source: str = "a variant of ours"
    presets: Presets = field(default_factory=Presets)
    recommended: bool = False
    of_one_network: bool = False

    def __call__(self, **keywords: Any) -> nn.Module:
        """Construct the loss module from hyperparameters and arguments of cross-entropy.

        A sum or a wrapper passes the arguments of cross-entropy to the losses inside it.
        """
        given = {**self.changed, **keywords, **self.fixed}
        if not self.of:
            return self.make(**given)
        own = {name: given[name] for name in self._parameters if name in given and name not in SHARED}
        inside = {name: given[name] for name in SHARED if name in given}
        if "reduction" in self._parameters:  # it needs the loss of each row, and reduces them itself
            words = {name: inside.pop(name) for name in ("size_average", "reduce", "reduction") if name in inside}
            own["reduction"], inside["reduction"] = nn.CrossEntropyLoss(**words).reduction, "none"
        losses = [
            part(**inside, **{name: given[name] for name in part.hyperparameters if name in given}) for part in self.of
        ]
        own |= {"losses": losses} if "losses" in self._parameters else {"loss": losses[0]}
        return self.make(**own)

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.make).parameters

    @cached_property
    def hyperparameters(self) -> Mapping[str, Any]:
        """The hyperparameters of the loss and their defaults; a hyperparameter without default has `REQUIRED`."""
        found = {name: own.default for name, own in self._parameters.items() if name not in (*SHARED, *OTHERS)}
        for part in self.of:
            found |= part.hyperparameters
        return {name: self.changed.get(name, default) for name, default in found.items() if name not in self.fixed}

    @property
    def told(self) -> tuple[str, ...]:
        """The names of the hyperparameters without a default, which describe the noise and must be given."""
        return tuple(name for name, default in self.hyperparameters.items() if default is REQUIRED)
