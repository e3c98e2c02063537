"""Name the data, the device and the folders that runs use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mgce._messages import check_choice
from mgce._validation import check_device
from mgce_lab.data.sources import DataSource

PRECISIONS = ("32-true", "bf16-mixed")  # as `lightning.Trainer` has it


@dataclass(frozen=True)
class Place:
    """The data, the device and the folders that runs use; the device changes records only by rounding.

    Attributes:
        data: where the data sets are, and whether missing ones may be downloaded.
        device: the device to train on, as a PyTorch name.
        scratch: folder for the checkpoints of long runs, with a subfolder for each run, which is removed after the
            run's records have been stored. None means that stopped runs start again.
        precision: precision for training networks on images, one of `PRECISIONS`. None means bfloat16 mixed precision
            if the device multiplies bfloat16 matrices in hardware (a GPU, or a CPU with AMX), otherwise float32.
        logits: folder for the logits of test rows, so that further metrics need no new training; not all runs store
            logits. None stores no logits.

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
        """The precision for training networks on images, one of `PRECISIONS`, resolved for this device."""
        has_units = self.device.startswith("cuda") or _multiplies_bfloat16()
        return self.precision or ("bf16-mixed" if has_units else "32-true")


def _multiplies_bfloat16() -> bool:
    """Return whether the CPU multiplies bfloat16 matrices in hardware; False if PyTorch cannot tell."""
    capabilities: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)  # not before PyTorch 2.10
    return bool(capabilities().get("amx_bf16", False))
