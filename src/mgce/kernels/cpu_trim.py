"""Store the losses of rows by label, and find those not above a quantile, in one call of compiled C++."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from mgce.kernels import cpu_library

_INFINITE = -1  # returned if a row that is not kept has an infinite loss


def rows_to_keep(
    losses: Tensor, target: Tensor, ignored: int, stored: Tensor, count: Tensor, share: Tensor
) -> tuple[Tensor, int | None]:
    """Store losses, and find the rows whose loss is not above the quantile of their label.

    The results are those of :meth:`mgce.losses.trimmed.RecentLosses.forward`, which explains them.

    Args:
        losses: of n rows, shape (n,), float32 or float64. Rows with a NaN, or with none of the labels, are kept.
        target: labels, shape (n,), int64.
        ignored: the label of rows that are neither stored nor kept.
        stored: the most recent losses of each label, shape (labels + 1, window + 1), dtype of `losses`, changed in
            place.
        count: number of losses seen for each label, shape (labels + 1,), int64, changed in place.
        share: for each label, the fraction of its rows to leave out, shape (labels,), in units of 2^-36.

    Returns:
        The mask, shape (n,), bool, and the number of rows kept, or 1 if no row is kept but some are not ignored. The
            number is None if a row that is not kept has an infinite loss. All tensors are contiguous and on the CPU.
    """
    kept = torch.empty(target.shape, dtype=torch.bool, device="cpu")
    labels, window = stored.shape[0] - 1, stored.shape[1] - 1
    number: int = _function(losses.dtype)(
        len(target),
        losses.data_ptr(),
        target.data_ptr(),
        ignored,
        labels,
        window,
        stored.data_ptr(),
        count.data_ptr(),
        share.data_ptr(),
        kept.data_ptr(),
    )
    return kept, None if number == _INFINITE else number


@functools.cache
def _function(dtype: torch.dtype) -> Any:
    return getattr(cpu_library.library(), f"mgce_trim_{str(dtype).removeprefix('torch.')}")
