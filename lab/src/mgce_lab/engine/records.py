"""Prepare the results of a run for storage: round the numbers of its records, and write the logits of the test rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from mgce._files import replacing
from mgce_lab.engine.place import Place


def short(values: Iterable[float]) -> list[float]:
    """Round numbers to five significant digits, so that stored curves stay small."""
    return [float(f"{value:.5g}") for value in values]


def rounded(value: Any) -> Any:
    """Round every float in nested dicts and lists to six decimals."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def keep_logits(place: Place, name: str, logits: Tensor, target: Tensor) -> None:
    """Write the logits (in float16) and labels of a run's test rows to `NAME.npz` in `place.logits`, if set."""
    if place.logits is None:
        return
    place.logits.mkdir(parents=True, exist_ok=True)
    with replacing(place.logits / f"{name}.npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, logits=logits.half().numpy(), target=target.numpy())
