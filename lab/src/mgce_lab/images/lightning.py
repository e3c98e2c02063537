"""Train a large network for images by Lightning, on one device or several.

This module needs Lightning, torchmetrics and TensorBoard, which the extra `experiments` installs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.data import suggested_max_num_workers
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader

from mgce._messages import check_count, check_fraction
from mgce.numerics.root import DEFAULT_BETA
from mgce_lab.data.image_sets import ImageDataset
from mgce_lab.images.image_classifier import ImageClassifier, best_epoch, read_checkpoint
from mgce_lab.images.image_data import (
    Batches,
    batches_of,
    evaluation_batches,
    noisy_split,
    resized,
    standardizing,
    training_batches,
)
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.training.member_losses import MemberLoss

Loader = Batches | DataLoader[Any]


@dataclass(frozen=True)
class ImageFit:
    """The result of training a network for images.

    Attributes:
        best_epoch: the first epoch with the best validation accuracy, from 0; the last epoch if there are no
            validation images.
        curves: a number for each epoch, by name. `objective` is the mean loss of the training images, each computed
            before the step that uses the image, plus the penalty of the weights after the epoch. `test_accuracy` and
            `validation_accuracy` (if there are validation images) are accuracies. `ece_h`, `ece_p`, `sce_h` and `sce_p`
            are the expected and static calibration errors on test images, of the minimax probabilities h and the
            worst-case probabilities p.
        checkpoint: file with the weights of the best epoch, as the `state_dict` of an `ImageClassifier`.
    """

    best_epoch: int
    curves: dict[str, list[float]]
    checkpoint: Path

    @property
    def metrics(self) -> dict[str, float]:
        """The value of every curve at the best epoch."""
        return {name: curve[self.best_epoch] for name, curve in self.curves.items()}


class ImageData(LightningDataModule):
    """A Lightning data module that distributes a data set of images over the devices.

    Args:
        dataset: training, validation and test images, with the labels to train on.
        settings: how to train.
        seed: seed of the order of the training images.
    """

    def __init__(self, dataset: ImageDataset, settings: ImageSettings, seed: int) -> None:
        super().__init__()
        self.dataset, self.settings, self.seed = dataset, settings, seed

    def train_dataloader(self) -> Loader:
        """Return the training batches of this device; Lightning changes the order of the rows in every epoch."""
        trainer, part = self._trainer, self.dataset.train
        rows = training_batches(len(part), self.settings.batch_size, self.seed, trainer.global_rank, trainer.world_size)
        return batches_of(part, rows, trainer.strategy.root_device, self._num_workers)

    def val_dataloader(self) -> list[Loader]:
        """Return the batches of the test images, and of the validation images if there are some."""
        trainer = self._trainer
        size = -(-self.settings.batch_size // trainer.world_size)
        return [
            batches_of(
                part,
                evaluation_batches(len(part), size, trainer.global_rank, trainer.world_size),
                trainer.strategy.root_device,
                self._num_workers,
            )
            for part in (self.dataset.test, self.dataset.validation)
            if part is not None
        ]

    @property
    def _trainer(self) -> Trainer:
        assert self.trainer is not None
        return self.trainer

    @property
    def _num_workers(self) -> int:
        return suggested_max_num_workers(self._trainer.num_devices)


@dataclass(frozen=True)
class Machine:
    """The devices to train on, and how to compute on them.

    Attributes:
        accelerator: type of device, as for `lightning.Trainer`.
        devices: number of devices, or a list of their numbers. Lightning runs the calling script once for each device,
            unless `torchrun` does.
        precision: floating-point precision, as for `lightning.Trainer`, for example `"bf16-mixed"`.
        compiled: whether the network is compiled by `torch.compile`. Results then differ by rounding, and the first
            steps take longer.
        channels_last: whether the channels of a pixel are adjacent in memory, which makes convolutions faster. Results
            then differ by rounding.
    """

    accelerator: str = "auto"
    devices: int | list[int] = 1
    precision: Any = "32-true"
    compiled: bool = False
    channels_last: bool = False


def train_images(
    settings: ImageSettings,
    dataset: ImageDataset,
    out: Path,
    *,
    loss: MemberLoss | Mapping[int, MemberLoss] | None = None,
    noise_rate: float = 0.0,
    seed: int = 0,
    machine: Machine | None = None,
    resume: bool = False,
    on_epoch: Callable[[int], None] | None = None,
) -> ImageFit:
    """Train a network on images, and store the weights of its best epoch.

    On the CPU, stopping after an epoch and resuming changes neither the weights nor the curves, bit for bit. With
    several devices, each device gets a part of every batch, and batch normalisation uses the statistics of this part.

    Args:
        settings: how to train.
        dataset: images as returned by :func:`mgce.desk.files.load_images`. Images in memory are moved to the device;
            images in files are read by worker processes.
        out: folder for `best.ckpt`, `last.ckpt`, `csv/version_*/metrics.csv` and `tensorboard/version_*/`. Each start
            creates a new version of the logs, which contains all epochs.
        loss: the loss; or, to change losses during training, a dict that maps the first epoch (from 0) of each loss to
            the loss. None means MGCE with beta = 1.4.
        noise_rate: fraction of the training and validation labels to corrupt by symmetric noise.
        seed: seed of the noise, the split, the initial weights, the order of the images and the augmentation.
        machine: the devices to train on; None means one device that Lightning chooses, in float32.
        resume: whether to continue from `last.ckpt` in `out`, if both checkpoints exist.
        on_epoch: called during training with the number of finished epochs.

    Raises:
        ValueError: if images, settings and devices do not fit together, or the checkpoint belongs to other
            settings.

    Reference: paper, section 5.1 and appendix.
    """
    check_fraction("noise_rate", noise_rate)
    check_count("seed", seed, minimum=0)
    loss = MemberLoss("mgce", DEFAULT_BETA) if loss is None else loss
    machine = Machine() if machine is None else machine
    parts = noisy_split(dataset, noise_rate=noise_rate, validation_size=settings.validation_size, seed=seed)
    if settings.size is not None:
        parts = resized(parts, settings.size)
    n_devices = machine.devices if isinstance(machine.devices, int) else len(machine.devices)
    trainer = _trainer(settings, out, machine)
    mean, std = standardizing(parts.train, settings, seed, suggested_max_num_workers(n_devices))
    model = ImageClassifier(
        settings,
        loss,
        num_classes=len(dataset.classes),
        mean=mean,
        std=std,
        seed=seed,
        watched=("test",) if parts.validation is None else ("test", "validation"),
        specification=_specification(settings, dataset, loss, noise_rate, seed, trainer.precision),
        on_epoch=on_epoch,
    )
    if machine.channels_last:
        nn.utils.convert_conv2d_weight_memory_format(model.network, torch.channels_last)
    if machine.compiled:
        model.network.compile()  # in place: the names of the weights stay
    _fit(model, ImageData(parts, settings, seed), trainer, resume)
    return ImageFit(best_epoch(model.curves), model.curves, out / "best.ckpt")


def _specification(
    settings: ImageSettings,
    dataset: ImageDataset,
    loss: MemberLoss | Mapping[int, MemberLoss],
    noise_rate: float,
    seed: int,
    precision: str,
) -> dict[str, Any]:
    """Return everything that training depends on, to detect checkpoints of other trainings."""
    stages = {0: loss} if isinstance(loss, MemberLoss) else loss
    losses = {str(epoch): _as_lists(asdict(stage)) for epoch, stage in stages.items()}
    given = {"dataset": dataset.name, "noise_rate": noise_rate, "seed": seed, "loss": losses, "precision": precision}
    return {**given, **asdict(settings)}


def _as_lists(value: Any) -> Any:
    """Convert tensors and arrays in the options of a loss to lists, which `==` compares as a whole."""
    if isinstance(value, Mapping):
        return {name: _as_lists(part) for name, part in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def _trainer(settings: ImageSettings, out: Path, machine: Machine) -> Trainer:
    """Construct Lightning's trainer, which logs to files in `out`; the model writes its checkpoints there."""
    return Trainer(
        default_root_dir=out,
        max_epochs=settings.epochs,
        accelerator=machine.accelerator,
        devices=machine.devices,
        precision=machine.precision,
        gradient_clip_val=settings.max_norm,
        gradient_clip_algorithm="norm",
        logger=[
            CSVLogger(out, name="csv", flush_logs_every_n_steps=1),
            TensorBoardLogger(out, name="tensorboard"),
        ],
        log_every_n_steps=1,  # every call: it logs once in an epoch (`ImageClassifier.on_train_epoch_end`)
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _fit(model: ImageClassifier, data: ImageData, trainer: Trainer, resume: bool) -> None:
    """Train the model; with `resume`, continue from the last checkpoint if there is one."""
    folder = Path(trainer.default_root_dir)
    last = folder / "last.ckpt"
    ckpt_path = last if resume and last.is_file() and (folder / "best.ckpt").is_file() else None
    if ckpt_path is not None:
        read_checkpoint(ckpt_path)  # says in a sentence what Lightning would in a traceback
    try:
        with _without_tracebacks_of_threads():
            trainer.fit(model, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    except SystemExit:  # Lightning turns Ctrl-C into this; whether the process ends is for the caller to decide
        raise KeyboardInterrupt from None


@contextlib.contextmanager
def _without_tracebacks_of_threads() -> Iterator[None]:
    """Hide the tracebacks of TensorBoard's threads, since the errors of these threads are raised in this one too."""
    shown = threading.excepthook

    def hook(ended: threading.ExceptHookArgs) -> None:
        if not type(ended.thread).__module__.startswith("tensorboard."):
            shown(ended)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = shown
