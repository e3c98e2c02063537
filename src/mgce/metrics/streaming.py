"""Compute calibration errors over batches and processes by torchmetrics classes, which Lightning can use.

Each class has the name of a function in :mod:`mgce.metrics`, and computes over many batches what that function computes
on all rows at once. Sums are kept in float64 whatever the dtype of the probabilities. The sums stay on the CPU if the
device has no float64, as is so for Apple's GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from mgce._messages import check_count, expected
from mgce._validation import has_float64
from mgce.metrics import calibration
from mgce.metrics.calibration import BinSums


class _CalibrationError(Metric):
    """The base class of all calibration errors, with their common arguments."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, n_bins: int, validate_args: bool, **kwargs: Any) -> None:
        check_count("n_bins", n_bins)
        super().__init__(**kwargs)
        self.n_bins = n_bins
        self.validate_args = validate_args

    def _prepared(self, probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return calibration.prepared(probs, target, self.validate_args)

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ()) -> Module:
        """Move the metric to a device; its states stay where they are if the device has no float64."""
        there = fn(torch.zeros(0, device="cpu")).device
        return super()._apply(fn, exclude_state if has_float64(there) else tuple(self._defaults))


class _BinnedCalibrationError(_CalibrationError):
    """The base class of calibration errors with fixed bins, which store only sums over each bin."""

    samples: Tensor
    confidence: Tensor
    hits: Tensor

    def _add_sums(self, *shape: int) -> None:
        for name in BinSums._fields:
            device = None if has_float64(torch.get_default_device()) else "cpu"
            self.add_state(name, torch.zeros(shape, dtype=torch.float64, device=device), dist_reduce_fx="sum")

    def _accumulate(self, confidence: Tensor, hits: Tensor) -> None:
        sums = calibration.equal_width_sums(confidence, hits, self.n_bins)
        self.samples = self.samples + sums.samples
        self.confidence = self.confidence + sums.confidence
        self.hits = self.hits + sums.hits

    def compute(self) -> Tensor:
        """Return the error of all rows so far, a float64 scalar."""
        return calibration.calibration_error(BinSums(self.samples, self.confidence, self.hits))


class ExpectedCalibrationError(_BinnedCalibrationError):
    r"""Compute the expected calibration error (ECE) of the top label over batches.

    .. math:: \mathrm{ECE} = \sum_{b=1}^{B} \frac{n_b}{N} \, |\mathrm{acc}(b) - \mathrm{conf}(b)|

    Of N samples bin b has n_b, with accuracy acc(b) and mean confidence conf(b).

    Args:
        n_bins: number B of bins of equal width, at least 1.
        validate_args: whether to check the values of each batch, which synchronises a GPU.
        **kwargs: options of :class:`torchmetrics.Metric`.

    `update` and `forward` take `probs` (N, k) and `target` (N,) as
    :func:`~mgce.metrics.expected_calibration_error`; the number of classes may change.

    Raises:
        TypeError, ValueError: as :func:`~mgce.metrics.expected_calibration_error`.

    Example:
        >>> metric = ExpectedCalibrationError(n_bins=4)
        >>> metric.update(torch.tensor([[0.75, 0.25], [1.0, 0.0]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.2500, dtype=torch.float64)

    Reference: Naeini, Cooper and Hauskrecht, AAAI 2015; Guo et al., ICML 2017, section 2.
    """

    def __init__(self, n_bins: int = 15, validate_args: bool = True, **kwargs: Any) -> None:
        super().__init__(n_bins, validate_args, **kwargs)
        self._add_sums(n_bins)

    def update(self, probs: Tensor, target: Tensor) -> None:
        """Add a batch: `probs` of shape (N, k), `target` of shape (N,)."""
        self._accumulate(*calibration.top_label(*self._prepared(probs, target)))


class MaximumCalibrationError(ExpectedCalibrationError):
    r"""Compute the maximum calibration error (MCE) of the top label over batches.

    .. math:: \mathrm{MCE} = \max_{b:\, n_b > 0} |\mathrm{acc}(b) - \mathrm{conf}(b)|

    Bin b has n_b samples, with accuracy acc(b) and mean confidence conf(b).

    Args:
        n_bins: number B of bins of equal width, at least 1.
        validate_args: whether to check the values of each batch, which synchronises a GPU.
        **kwargs: options of :class:`torchmetrics.Metric`.

    Raises:
        TypeError, ValueError: as :func:`~mgce.metrics.maximum_calibration_error`.

    Example:
        >>> metric = MaximumCalibrationError(n_bins=4)
        >>> metric.update(torch.tensor([[0.75, 0.25], [1.0, 0.0]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.5000, dtype=torch.float64)

    Reference: Naeini, Cooper and Hauskrecht, AAAI 2015.
    """

    def compute(self) -> Tensor:
        """Return the error of all rows so far, a float64 scalar."""
        return calibration.maximum_error(BinSums(self.samples, self.confidence, self.hits))


class StaticCalibrationError(_BinnedCalibrationError):
    r"""Compute the static calibration error (SCE), the mean over classes of class-wise errors, over batches.

    .. math:: \mathrm{SCE} = \frac{1}{k} \sum_{c=1}^{k} \sum_{b=1}^{B} \frac{n_{bc}}{N} \,
              |\mathrm{acc}(b, c) - \mathrm{conf}(b, c)| \le \frac{2}{k}

    Of N samples n_bc have a probability of class c in bin b; acc(b, c) is the fraction of these with label c, and
    conf(b, c) their mean probability of c.

    Args:
        num_classes: number k of classes, at least 1; the name is that of torchmetrics.
        n_bins: number B of bins of equal width, at least 1.
        validate_args: whether to check the values of each batch, which synchronises a GPU.
        **kwargs: options of :class:`torchmetrics.Metric`.

    `update` and `forward` take `probs` (N, k) and `target` (N,) as
    :func:`~mgce.metrics.static_calibration_error`.

    Raises:
        TypeError, ValueError: as :func:`~mgce.metrics.static_calibration_error`, and ValueError for
            a batch with another number of classes.

    Example:
        >>> metric = StaticCalibrationError(num_classes=2, n_bins=4)
        >>> metric.update(torch.tensor([[0.75, 0.25], [1.0, 0.0]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.4375, dtype=torch.float64)

    Reference: Nixon et al., "Measuring calibration in deep learning", CVPR workshops 2019.
    """

    def __init__(self, num_classes: int, n_bins: int = 15, validate_args: bool = True, **kwargs: Any) -> None:
        check_count("num_classes", num_classes)
        super().__init__(n_bins, validate_args, **kwargs)
        self.num_classes = num_classes
        self._add_sums(num_classes, n_bins)

    def update(self, probs: Tensor, target: Tensor) -> None:
        """Add a batch: `probs` of shape (N, num_classes), `target` of shape (N,)."""
        probs, target = self._prepared(probs, target)
        if probs.shape[1] != self.num_classes:
            what = f"a tensor of shape (N, {self.num_classes})"
            raise ValueError(expected("probs", what, tuple(probs.shape)))
        self._accumulate(*calibration.class_wise(probs, target))


class AdaptiveCalibrationError(_CalibrationError):
    r"""Compute the calibration error of the top label with bins of equal size (equal mass) over batches.

    .. math:: \mathrm{ACE} = \sum_{b=1}^{B} \frac{n_b}{N} \, |\mathrm{acc}(b) - \mathrm{conf}(b)|

    Of N samples bin b has n_b, with accuracy acc(b) and mean confidence conf(b). The bins depend on all confidences, so
    two float64 numbers are stored for each row.

    Args:
        n_bins: number B of bins of equal mass, at least 1.
        validate_args: whether to check the values of each batch, which synchronises a GPU.
        **kwargs: options of :class:`torchmetrics.Metric`.

    `update` and `forward` take `probs` (N, k) and `target` (N,) as
    :func:`~mgce.metrics.adaptive_calibration_error`.

    Raises:
        TypeError, ValueError: as :func:`~mgce.metrics.adaptive_calibration_error`.

    Example:
        >>> metric = AdaptiveCalibrationError(n_bins=2)
        >>> metric.update(torch.tensor([[0.75, 0.25], [1.0, 0.0]]), torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.3750, dtype=torch.float64)

    Reference: Nguyen and O'Connor, EMNLP 2015; Nixon et al., CVPR workshops 2019.
    """

    confidence: list[Tensor]
    hits: list[Tensor]

    def __init__(self, n_bins: int = 15, validate_args: bool = True, **kwargs: Any) -> None:
        super().__init__(n_bins, validate_args, **kwargs)
        self.add_state("confidence", [], dist_reduce_fx="cat")
        self.add_state("hits", [], dist_reduce_fx="cat")

    def update(self, probs: Tensor, target: Tensor) -> None:
        """Add a batch: `probs` of shape (N, k), `target` of shape (N,)."""
        confidence, hits = calibration.top_label(*self._prepared(probs, target))
        self.confidence.append(confidence)
        self.hits.append(hits)

    def compute(self) -> Tensor:
        """Return the error of all rows so far, a float64 scalar."""
        confidence, hits = dim_zero_cat(self.confidence), dim_zero_cat(self.hits)
        return calibration.calibration_error(calibration.equal_mass_sums(confidence, hits, self.n_bins))
