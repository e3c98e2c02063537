"""Format means and standard deviations over the seeds in percent, for tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

PLUS_MINUS = "±"
Pair = tuple[float, float]  # mean and standard deviation


def percent(values: Sequence[float]) -> Pair | None:
    """Return mean and sample standard deviation of fractions in percent (NaN for one value); None without values."""
    if not values:
        return None
    return 100 * statistics.fmean(values), 100 * statistics.stdev(values) if len(values) > 1 else math.nan


def show(pair: Sequence[float] | None) -> str:
    """Format mean and standard deviation as `92.94 ± 0.17`; only the mean if the deviation is NaN; "" for None."""
    if pair is None:
        return ""
    mean, std = pair[0], pair[1]
    return f"{mean:.2f}" + ("" if math.isnan(std) else f" {PLUS_MINUS} {std:.2f}")


def flat(measures: Mapping[str, tuple[float, float | None] | None]) -> dict[str, float | None]:
    """Return a dict with separate entries `NAME` and `NAME_std` for mean and deviation of each metric."""
    columns: dict[str, float | None] = {}
    for key, measure in measures.items():
        columns[key], columns[f"{key}_std"] = measure or (None, None)
    return columns
