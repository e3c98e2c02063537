"""Where runs find their data and do their work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mgce._validation import check_choice, check_device
from mgce.datasets.sources import DataSource

PRECISIONS = ("32-true", "bf16-mixed")  # as `lightning.Trainer` has it


@dataclass(frozen=True)
class Place:
    """Where runs find their data and do their work; the records depend on it by rounding only.

    Attributes:
        data: where the data sets are, and whether those that are missing may be downloaded.
        device: where to train, as PyTorch spells it.
        scratch: folder in which a long run keeps a folder of its own with what it needs to go on after a stop; whoever
            writes its records removes that afterwards. None keeps nothing.
        precision: in which networks for images are trained, one of `PRECISIONS`; None is bfloat16 in the forward and
            backward pass where the device has units that multiply matrices of it, a GPU or AMX, and float32 elsewhere.
        logits: folder in which a run that knows how leaves the logits of its test rows, so that another measure of
            them needs no training; None keeps none.

    Raises:
        ValueError: if this PyTorch cannot use the device, or there is no such precision.
    """

    data: DataSource = field(default_factory=DataSource)
    device: str = "cpu"
    scratch: Path | None = None
    precision: str | None = None
    logits: Path | None = None

    def __post_init__(self) -> None:
        check_device(self.device)
        if self.precision is not None:
            check_choice("precision", self.precision, PRECISIONS)

    @property
    def image_precision(self) -> str:
        """The precision of networks for images on this device, one of `PRECISIONS`."""
        has_units = self.device.startswith("cuda") or _multiplies_bfloat16()
        return self.precision or ("bf16-mixed" if has_units else "32-true")


def _multiplies_bfloat16() -> bool:
    """Say whether the processor has units that multiply matrices of bfloat16; False where PyTorch cannot tell."""
    capabilities: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)  # not before PyTorch 2.10
    return bool(capabilities().get("amx_bf16", False))
