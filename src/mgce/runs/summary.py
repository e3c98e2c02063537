"""Mean and standard deviation over the seeds, in percent, as tables show them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

PLUS_MINUS = "±"
Pair = tuple[float, float]  # mean and standard deviation


def percent(values: Sequence[float]) -> Pair | None:
    """Return mean and standard deviation (ddof = 1; NaN for a single value) in percent; None without values."""
    if not values:
        return None
    return 100 * statistics.fmean(values), 100 * statistics.stdev(values) if len(values) > 1 else math.nan


def show(pair: Sequence[float] | None) -> str:
    """Show mean and standard deviation as the paper does; for a single seed the mean alone, for None nothing."""
    if pair is None:
        return ""
    mean, std = pair[0], pair[1]
    return f"{mean:.2f}" + ("" if math.isnan(std) else f" {PLUS_MINUS} {std:.2f}")


def flat(measures: Mapping[str, tuple[float, float | None] | None]) -> dict[str, float | None]:
    """Return mean and deviation of each measure a column of its own."""
    columns: dict[str, float | None] = {}
    for key, measure in measures.items():
        columns[key], columns[f"{key}_std"] = measure or (None, None)
    return columns
