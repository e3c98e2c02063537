"""What there is to say of a loss that has a name: how it is made, what it takes, what was published, what is claimed.

A module of this room that has such losses lists them at its end, as `NAMED`. `presets.py` collects them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

from torch import nn

from mgce.losses.base import Loss

Keywords = Mapping[str, Any]

REQUIRED = inspect.Parameter.empty  # stands for the default of a hyperparameter that has none
SHARED = tuple(inspect.signature(Loss.__init__).parameters)[1:]  # the arguments of cross-entropy, and `dim`
# Parameters that are no hyperparameters either: the losses inside, and how the same values are computed.
OTHERS = ("loss", "losses", "backend")
LAST = 1_000  # far more than there are losses with a place of their own


@dataclass(frozen=True)
class Presets:
    """Hyperparameters that were published for data sets.

    Attributes:
        by_data: hyperparameters by the name of the data set.
        by_noise: what replaces them, by data set and kind of noise; then by the rate up to which it does. A larger rate
            has that of the largest.
        source: where, if not in the publication of the loss.
    """

    by_data: Mapping[str, Keywords] = field(default_factory=dict)
    by_noise: Mapping[tuple[str, str], Mapping[float, Keywords]] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, eq=False)
class NamedLoss:
    """A loss that `robust_loss` makes by its name.

    Attributes:
        name: as papers have it, in small letters; without spaces and commas, which end it in the tables.
        make: its class. A class with a parameter `loss` or `losses` wraps the losses in `of`.
        formula: the loss of a row, in Markdown. f are the logits, y the label, k the number of classes, p softmax of f.
        of: the losses inside it: the terms of a sum, or the one that is wrapped.
        fixed: arguments of its class that make it this loss; they cannot be given.
        changed: defaults of hyperparameters, where they differ from those of its class.
        begin: the loss that a network begins with. A loss with a cap needs one: it has no gradient at rows whose label
            has little probability, and at first all labels have little.
        betas: the betas that comparisons use; if empty, its default.
        compared: hyperparameters that comparisons use where none are published.
        order: its place in lists of losses: losses of papers first, then ours. A loss without a place comes last, by
            its name.
        bounded, symmetric, convex: whether it is, at its defaults: bounded above, the same sum over the classes
            whatever the logits, convex in the logits.
        claims: words that the page of losses shows instead of yes or no, where hyperparameters decide; by the names
            `bounded`, `symmetric` and `convex`.
        source: its publication.
        presets: hyperparameters that were published for data sets.
    """

    name: str
    make: Callable[..., nn.Module]
    formula: str
    _: KW_ONLY
    of: tuple[NamedLoss, ...] = ()
    fixed: Keywords = field(default_factory=dict)
    changed: Keywords = field(default_factory=dict)
    begin: NamedLoss | None = None
    betas: tuple[float, ...] = ()
    compared: Keywords = field(default_factory=dict)
    order: int = LAST
    bounded: bool = False
    symmetric: bool = False
    convex: bool = False
    claims: Mapping[str, str] = field(default_factory=dict)
    source: str = "a variant of ours"
    presets: Presets = field(default_factory=Presets)

    def __call__(self, **keywords: Any) -> nn.Module:
        """Make it, with hyperparameters and arguments of cross-entropy; those of a sum or a wrapper go inside."""
        given = {**self.changed, **keywords, **self.fixed}
        if not self.of:
            return self.make(**given)
        own = {name: given[name] for name in self._parameters if name in given and name not in SHARED}
        inside = {name: given[name] for name in SHARED if name in given}
        if "reduction" in self._parameters:  # it needs the loss of each row, and reduces them itself
            words = {name: inside.pop(name) for name in ("size_average", "reduce", "reduction") if name in inside}
            own["reduction"], inside["reduction"] = Loss(**words).reduction, "none"
        losses = [
            part(**inside, **{name: given[name] for name in part.hyperparameters if name in given}) for part in self.of
        ]
        return self.make(losses if "losses" in self._parameters else losses[0], **own)

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.make).parameters

    @cached_property
    def hyperparameters(self) -> Mapping[str, Any]:
        """What it takes besides the arguments of cross-entropy, with the defaults; `REQUIRED` where there is none."""
        found = {name: own.default for name, own in self._parameters.items() if name not in (*SHARED, *OTHERS)}
        for part in self.of:
            found |= part.hyperparameters
        return {name: self.changed.get(name, default) for name, default in found.items() if name not in self.fixed}

    @property
    def told(self) -> tuple[str, ...]:
        """The hyperparameters without a default: what it has to be told about the noise."""
        return tuple(name for name, default in self.hyperparameters.items() if default is REQUIRED)

    @property
    def has_beta(self) -> bool:
        """Whether beta is one of its hyperparameters."""
        return "beta" in self.hyperparameters

    @property
    def trims(self) -> bool:
        """Whether it leaves out a share of the rows of every label."""
        return "trim" in self.told

    @property
    def compared_betas(self) -> tuple[float, ...]:
        """The betas that comparisons have; inf alone where it has no beta."""
        return self.betas or (self.hyperparameters.get("beta", math.inf),)

    @property
    def core(self) -> NamedLoss:
        """The loss that this one changes: that by which it begins, the one inside it, the first term of a sum."""
        inner = self.begin or next(iter(self.of), None)
        return self if inner is None else inner.core
