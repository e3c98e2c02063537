"""Define the arguments of a loss other than its logits, as objects that both kernels accept."""

from __future__ import annotations

import os
from typing import NamedTuple

from torch import Tensor

from mgce._messages import expected

SWITCHED_OFF = "the environment has MGCE_KERNEL=off"  # the obstacle where no kernel is wanted


class LossOptions(NamedTuple):
    """The `ignore_index`, the reduction and the label smoothing of a loss.

    Equal options are equal dictionary keys, so a kernel can cache the data that it prepares for them.
    """

    ignore_index: int = -100  # label of rows whose loss and gradient are zero
    reduction: str = "mean"  # "none", "mean" or "sum"
    label_smoothing: float = 0.0  # share of the target that is spread over all classes

    def numbers(self) -> LossOptions:
        """Return a copy of the options in which each tensor is replaced by its current value."""
        if type(self.ignore_index) is int and type(self.label_smoothing) is float:  # as they nearly always are
            return self
        return LossOptions(int(self.ignore_index), self.reduction, float(self.label_smoothing))


class LossArguments(NamedTuple):
    """All arguments of a kernel except the logits, in one object, since autograd spends time on each argument."""

    target: Tensor  # labels (N,), or probabilities (N, k)
    weight: Tensor | None  # (k,)
    options: LossOptions
    beta: float


class SoftmaxTerms(NamedTuple):
    r"""The numbers a, b, beta of a loss of the label's softmax probability p: `-a log p + b beta (1 - p^(1/beta))`.

    Cross-entropy has a = 1, b = 0. Generalized cross-entropy has a = 0, b = 1; at beta = 1 it is the mean absolute
    error.
    """

    a: float
    b: float
    beta: float


class SoftmaxArguments(NamedTuple):
    """All arguments except the logits of the kernel for losses with :class:`SoftmaxTerms`."""

    target: Tensor  # labels (N,)
    weight: Tensor | None  # (k,)
    options: LossOptions
    terms: SoftmaxTerms


def switched_off() -> bool:
    """Return whether the environment variable `MGCE_KERNEL` is "off", which switches off all kernels."""
    value = os.environ.get("MGCE_KERNEL", "on")
    if value not in ("on", "off"):
        raise ValueError(expected("MGCE_KERNEL", "'on' or 'off' in the environment", value))
    return value == "off"
