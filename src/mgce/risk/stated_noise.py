"""Turn what a user states about wrong labels into one assumption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce import _validation
from mgce.risk.checking import NOT_LOOKED_UP, LookedUp
from mgce.risk.label_noise import AnyNoise, LabelNoise, RightLabels, SymmetricNoise, checked_transition
from mgce.risk.sample import Sample

KINDS = ("symmetric", "any")


@dataclass(frozen=True, eq=False)
class StatedNoise:
    """The arguments of :func:`~mgce.certify` that describe wrong labels."""

    rate: Any = 0.0
    kind: str = "symmetric"
    transition: Any = None  # (k, k)
    checked: bool = False  # whether right labels were looked up

    def __post_init__(self) -> None:
        _validation.check_choice("noise_type", self.kind, KINDS)
        if isinstance(self.rate, str) or np.ndim(self.rate) != 0:
            what = "a number; a matrix goes to `transition`"
            raise TypeError(_validation.expected("noise_rate", what, type(self.rate).__name__))
        others = (self.transition is not None) + self.checked
        if others > 1 or (others and not (self.kind == "symmetric" and self.rate == 0)):
            raise ValueError(_validation.expected("noise_rate, transition, checked", "stated one at a time", "several"))

    @property
    def present(self) -> bool:
        """Whether any label may be wrong."""
        return self.rate != 0 or self.kind != "symmetric" or self.by_class or self.checked

    @property
    def by_class(self) -> bool:
        """Whether the statement is that the right label alone determines the noise, which the labels may refute."""
        symmetric = self.rate != 0 and self.kind == "symmetric"
        return symmetric or self.transition is not None

    def assume(self, sample: Sample) -> LabelNoise:
        """Return the stated assumption on wrong labels."""
        k = sample.n_classes
        if self.checked:
            assert sample.right is not None
            again = None if sample.again is None else int((sample.again != NOT_LOOKED_UP).sum())
            return LookedUp(int((sample.right != NOT_LOOKED_UP).sum()), sample.looks is not None, again)
        if self.transition is not None:
            return checked_transition(self.transition, k)
        rate = float(self.rate)
        if self.kind == "any":
            if not 0 <= rate < 1:
                raise ValueError(_validation.expected_share("noise_rate", "in [0, 1)", rate))
            return AnyNoise(rate)
        if not 0 <= rate < (k - 1) / k:
            what = f"in [0, {k - 1}/{k}), since from (k-1)/k on noisy labels say nothing about clean ones"
            raise ValueError(_validation.expected_share("noise_rate", what, rate))
        return SymmetricNoise(rate, k) if rate else RightLabels()
