"""The arguments of a loss besides its logits, as the objects that both kernels take."""

from __future__ import annotations

import os
from typing import NamedTuple

from torch import Tensor

from mgce._validation import expected

SWITCHED_OFF = "the environment has MGCE_KERNEL=off"  # the obstacle where no kernel is wanted


class LossOptions(NamedTuple):
    """Which rows a loss ignores, how it reduces them, and how it smooths their labels.

    Equal options are equal keys, so that what a kernel prepares for them can be kept and found again.
    """

    ignore_index: int = -100  # label of rows whose loss and gradient are zero
    reduction: str = "mean"  # "none", "mean" or "sum"
    label_smoothing: float = 0.0  # share of the target that is spread over all classes

    def numbers(self) -> LossOptions:
        """Return them with numbers in place of tensors, whose values may change later."""
        if type(self.ignore_index) is int and type(self.label_smoothing) is float:  # as they nearly always are
            return self
        return LossOptions(int(self.ignore_index), self.reduction, float(self.label_smoothing))


class LossArguments(NamedTuple):
    """All that a kernel is told besides the logits: one object, since autograd takes time for each argument."""

    target: Tensor  # labels (N,), or probabilities (N, k)
    weight: Tensor | None  # (k,)
    options: LossOptions
    beta: float


def switched_off() -> bool:
    """Tell whether the environment says that no kernel is wanted: `MGCE_KERNEL=off`."""
    value = os.environ.get("MGCE_KERNEL", "on")
    if value not in ("on", "off"):
        raise ValueError(expected("MGCE_KERNEL", "'on' or 'off' in the environment", value))
    return value == "off"
