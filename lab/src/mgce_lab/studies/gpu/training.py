"""Stage 3: training. Images per second, and networks for tables all at once.

What the paper trains on images is trained by `mgce_lab.studies.gpu.replay`.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from mgce_lab.data import load_images
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.paper.image_settings import PAPER
from mgce_lab.studies.gpu.device import DEVICE
from mgce_lab.studies.gpu.stages import Cells, Progress
from mgce_lab.training.ensemble import fit_ensemble
from mgce_lab.training.member_losses import MemberLoss
from mgce_lab.training.settings import TrainingSettings

DATASET, NOISE, BETA, SEED = "fashion_mnist", 0.4, 1.4, 0
# How a step is made faster, one thing after the other: precision, and whether the network is compiled.
MACHINES = {"float32": ("32-true", False), "bfloat16": ("bf16-mixed", False), "compiled": ("bf16-mixed", True)}
# As many networks as Table 1 of the paper has for a data set: seeds and rates of noise, and methods and betas; and of
# them so many that are trained alone, to know what one takes. Rows, columns and classes are those of letter.
GROUPS, MEMBERS, ALONE, ROWS, COLUMNS, CLASSES, EPOCHS = 15, 13, 3, 12_000, 16, 26, 3


def cells(data_dir: Path | None) -> Cells:
    """Return a cell for tables, and for each way to train images faster.

    Args:
        data_dir: folder of the data sets.
    """
    speeds = {f"images, {name}": functools.partial(images_per_second, data_dir, name) for name in MACHINES}
    return {"tables": networks_at_once, **speeds}


def images_per_second(data_dir: Path | None, name: str, progress: Progress) -> dict[str, Any]:
    """Measure whole epochs, with what is evaluated and written after each; the first, which compiles, is apart."""
    from mgce_lab.images.lightning import Machine, train_images

    precision, compiled = MACHINES[name]
    dataset = load_images(DATASET, data_dir=data_dir)
    settings = ImageSettings(**{**_settings(), "epochs": 3})
    ends = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as folder:
        train_images(
            settings,
            dataset,
            Path(folder),
            loss=MemberLoss("mgce", BETA),
            noise_rate=NOISE,
            machine=Machine(DEVICE, precision=precision, compiled=compiled, channels_last=compiled),
            on_epoch=lambda done: ends.append(time.perf_counter()),
        )
    images = round(len(dataset.train) * (1 - settings.validation_size))
    return {"images": images, "first_epoch": ends[1] - ends[0], "images_per_second": images / (ends[-1] - ends[-2])}


def networks_at_once(progress: Progress) -> dict[str, Any]:
    """Measure the networks of a table trained together, and a few of them alone."""
    generator = torch.Generator().manual_seed(SEED)
    features = torch.randn(GROUPS, ROWS, COLUMNS, generator=generator).to(DEVICE)
    target = torch.randint(CLASSES, (GROUPS, ROWS), generator=generator).to(DEVICE)
    losses = [MemberLoss("mgce", 1 + 0.1 * number) for number in range(MEMBERS)]
    settings = TrainingSettings(epochs=EPOCHS)

    def train(groups: int, members: int) -> None:
        generators = [torch.Generator().manual_seed(group) for group in range(groups)]
        data = features[:groups], target[:groups]
        fit_ensemble(*data, losses[:members], settings, num_classes=CLASSES, generators=generators)

    together = _seconds(functools.partial(train, GROUPS, MEMBERS))
    alone = min(_seconds(functools.partial(train, 1, 1)) for _ in range(ALONE))
    networks = GROUPS * MEMBERS
    return {"networks": networks, "together": together, "alone": alone, "times": networks * alone / together}


def _settings() -> dict[str, Any]:
    return {field.name: getattr(PAPER[DATASET], field.name) for field in fields(ImageSettings)}


def _seconds(call: Callable[[], None]) -> float:
    """Time a call, after one that loads and compiles what it needs."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start
