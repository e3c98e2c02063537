"""What is kept of a run: numbers in its records, and the logits of the test rows in a file beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from mgce._files import replacing
from mgce.runs.place import Place


def short(values: Iterable[float]) -> list[float]:
    """Return numbers to five digits, so that the curves of records stay small."""
    return [float(f"{value:.5g}") for value in values]


def rounded(value: Any) -> Any:
    """Round every number of a document to six digits after the point."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def keep_logits(place: Place, name: str, logits: Tensor, target: Tensor) -> None:
    """Write logits, in float16, and labels of the test rows into the file of a run in `place.logits`."""
    if place.logits is None:
        return
    place.logits.mkdir(parents=True, exist_ok=True)
    with replacing(place.logits / f"{name}.npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, logits=logits.half().numpy(), target=target.numpy())
