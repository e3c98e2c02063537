"""Define a network for images as a Lightning module, with its objective, learning curves and checkpoints.

This module needs Lightning and torchmetrics, which the extra `experiments` installs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy

from mgce._files import replacing
from mgce._limits import check_zip
from mgce._messages import expected
from mgce._seeds import derived_seed
from mgce.metrics import ExpectedCalibrationError, StaticCalibrationError
from mgce.metrics.evaluation import both_outputs, rank_classes
from mgce_lab.images.convnet import CONVNETS, ConvNet, initialize_uniformly
from mgce_lab.images.image_data import Preprocessing
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.images.resnet import ResNet
from mgce_lab.seeds import derived_generator
from mgce_lab.training.member_losses import MemberLoss

FORMER = {"delta": "inverse_norm", "n_classes": "num_classes"}  # options of losses as earlier checkpoints call them

Batch = tuple[Tensor, Tensor]


class WeightedMean(Metric):
    """The weighted mean of numbers; unlike torchmetrics' own mean it does not check for NaN.

    Without this check the mean never waits for the GPU.

    Example:
        >>> mean = WeightedMean()
        >>> mean.update(torch.tensor(1.0), 3)
        >>> mean.update(torch.tensor(3.0), 1)
        >>> mean.compute()
        tensor(1.5000)
    """

    total: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "weight"):
            self.add_state(name, torch.zeros(()), dist_reduce_fx="sum")

    def update(self, value: Tensor, weight: float) -> None:
        """Add a number with its weight."""
        self.total += value * weight
        self.weight += weight

    def compute(self) -> Tensor:
        """Return the weighted mean of all numbers added so far."""
        return self.total / self.weight


class ImageClassifier(LightningModule):
    """A Lightning module of a network for uint8 images (N, channels, height, width), its loss and its penalty.

    Args:
        settings: how to train.
        loss: the loss; or, to change losses during training, a dict that maps the first epoch (from 0) of each loss to
            the loss.
        num_classes: number of classes k.
        mean: array subtracted from images that are scaled to [0, 1], (channels, height, width).
        std: array of the same shape by which the images are then divided; None means ones.
        seed: seed of the initial weights and of the random augmentation.
        watched: names of the sets of images whose accuracy is recorded in each epoch, in the order of the data module.
        specification: everything that training depends on. A checkpoint with another specification is refused.
        on_epoch: called during training with the number of finished epochs.
    """

    def __init__(
        self,
        settings: ImageSettings,
        loss: MemberLoss | Mapping[int, MemberLoss],
        *,
        num_classes: int,
        mean: Tensor,
        std: Tensor | None = None,
        seed: int = 0,
        watched: tuple[str, ...] = ("test",),
        specification: Mapping[str, Any] | None = None,
        on_epoch: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__()
        self.settings, self.seed, self.watched, self.on_epoch = settings, seed, watched, on_epoch
        self.specification = dict(specification or {})
        self.stages = {0: loss} if isinstance(loss, MemberLoss) else dict(loss)
        self.begin(0)
        self.preprocessing = Preprocessing(mean, settings, std)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "weights"))
            self.network = make_network(settings, num_classes, len(mean))
        self.curves: dict[str, list[float]] = {}
        self.metrics = nn.ModuleDict({"objective": WeightedMean()})
        for part in watched:
            self.metrics[f"{part}_accuracy"] = MulticlassAccuracy(num_classes, average="micro")
        for output in ("h", "p"):
            self.metrics[f"ece_{output}"] = ExpectedCalibrationError()
            self.metrics[f"sce_{output}"] = StaticCalibrationError(num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map N uint8 images to logits (N, num_classes); `criterion.link` turns logits into probabilities."""
        logits: Tensor = self.network(self.preprocessing(images))
        return logits

    def begin(self, epoch: int) -> None:
        """Set the loss to that of an epoch; an unchanged loss keeps its state, such as stored losses of rows."""
        loss = self.stages[max(first for first in self.stages if first <= epoch)]
        if loss != getattr(self, "_loss", None):
            self._loss, self.beta, self.criterion = loss, loss.beta, loss.module().to(self.device)

    def penalty(self) -> Tensor:
        r"""Return the L1 penalty :math:`\lambda_0 \lVert \mu \rVert_1`; `settings.l1_on` selects the weights mu."""
        penalised = [self.network.fc.weight] if self.settings.l1_on == "last" else self.network.parameters()
        return self.settings.l1 * torch.stack([parameter.abs().sum() for parameter in penalised]).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer, SGD; `on_train_epoch_start` sets its learning rate in each epoch."""
        settings = self.settings
        return torch.optim.SGD(
            self.network.parameters(),
            settings.lr,
            settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov,
        )

    def on_train_start(self) -> None:
        """Write the curves of a loaded checkpoint to the new logs, so that the logs contain all epochs."""
        for epoch in range(len(next(iter(self.curves.values()), []))):
            self._log(epoch)

    def on_train_epoch_start(self) -> None:
        """Set the learning rate and the loss of the epoch.

        Lightning's own schedulers are not used: they step after the checkpoint is written, so resuming would lose a
        step.
        """
        optimizer = self.optimizers()
        assert not isinstance(optimizer, list)
        for group in optimizer.param_groups:
            group["lr"] = self.settings.lr_at(self.current_epoch)
        self.begin(self.current_epoch)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch plus the penalty, so that gradient clipping applies to both."""
        images, target = batch
        generator = derived_generator(self.seed, "changes", self.current_epoch, batch_idx, self.global_rank)
        logits = self.network(self.preprocessing.augmented(images, generator))
        loss: Tensor = self.criterion(logits.float(), target)
        self._metric("objective").update(loss.detach(), len(target))
        return loss + self.penalty() if self.settings.l1 > 0 else loss

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Update the accuracy with a batch; for test images also the calibration errors.

        The calibration errors are those of the minimax probabilities h and the worst-case probabilities p. The metrics
        are computed without mixed precision, as in the final evaluation.
        """
        images, target = batch
        with torch.autocast(self.device.type, enabled=False):
            logits = self(images)
        part = self.watched[dataloader_idx]
        self._metric(f"{part}_accuracy").update(logits, target)
        if part == "test":
            link = self.criterion.link
            assert isinstance(link, nn.Module)
            order, place = rank_classes(logits, target)
            for output, probs in both_outputs(logits.double(), self.beta, link).items():
                self._metric(f"ece_{output}").update(probs.gather(-1, order), place)
                self._metric(f"sce_{output}").update(probs, target)

    def on_train_epoch_end(self) -> None:
        """Append the metrics of the epoch to the curves, and write checkpoints.

        `last.ckpt` contains all that is needed to resume training; `best.ckpt` contains the weights of the best epoch
        so far.
        """
        for name in self.metrics:
            value = self._metric(name).compute() + (self.penalty().detach() if name == "objective" else 0)
            self.curves.setdefault(name, []).append(float(value))
            self._metric(name).reset()
        self._log(self.current_epoch)
        if best_epoch(self.curves) == self.current_epoch:
            self._save("best.ckpt", weights_only=True)
        self._save("last.ckpt", weights_only=False)
        if self.on_epoch is not None:
            self.on_epoch(self.current_epoch + 1)

    def _save(self, name: str, *, weights_only: bool) -> None:
        """Replace a checkpoint file such that the old file stays intact if the process is killed while writing.

        All processes write one checkpoint together, under a temporary name chosen by the first process. Then the first
        process renames the file.
        """
        path = Path(self.trainer.default_root_dir) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) if self.trainer.is_global_zero else nullcontext(path) as chosen:
            temporary = self.trainer.strategy.broadcast(chosen)
            self.trainer.save_checkpoint(temporary, weights_only=weights_only)
        self.trainer.strategy.barrier()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the curves and the specification to the checkpoint."""
        checkpoint |= {"curves": self.curves, "specification": self.specification}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Load the curves of a checkpoint; raise if its specification differs."""
        before = _renewed(checkpoint["specification"])
        for name, value in _renewed(self.specification).items():
            then = before.get(name)
            if then != value:
                raise ValueError(expected(name, f"{then!r} as in the checkpoint, or no `resume`", value))
        self.curves = checkpoint["curves"]
        self.begin(checkpoint["epoch"])

    def _log(self, epoch: int) -> None:
        for logger in self.loggers:
            logger.log_metrics({name: curve[epoch] for name, curve in self.curves.items()}, epoch)

    def _metric(self, name: str) -> Metric:
        metric = self.metrics[name]
        assert isinstance(metric, Metric)
        return metric


def _renewed(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification of a checkpoint with the current names of losses and their options.

    Earlier versions named some options differently, and stored cross-entropy as MGCE at beta = inf, the same loss.
    """

    def renewed(loss: Mapping[str, Any]) -> dict[str, Any]:
        family = "ce" if (loss["family"], loss["beta"]) == ("mgce", math.inf) else loss["family"]
        return {**loss, "family": family, "options": {FORMER.get(n, n): value for n, value in loss["options"].items()}}

    losses = specification.get("loss", {})
    return {**specification, "loss": {epoch: renewed(loss) for epoch, loss in losses.items()}}


def make_network(settings: ImageSettings, num_classes: int, in_channels: int) -> ResNet | ConvNet:
    """Construct the network that the settings describe; PyTorch's global generator draws its initial weights."""
    if settings.architecture in CONVNETS:
        return ConvNet(settings.architecture, num_classes, in_channels=in_channels, size=settings.crop)
    network = ResNet(
        settings.architecture,
        num_classes,
        in_channels=in_channels,
        stem=settings.stem,
        width=settings.width,
    )
    if settings.initialization == "uniform":
        initialize_uniformly(network)
    return network


def load_classifier(
    checkpoint: Path, settings: ImageSettings, loss: MemberLoss | Mapping[int, MemberLoss], num_classes: int
) -> ImageClassifier:
    """Return the network of a checkpoint in evaluation mode; pass the arguments with which it was trained."""
    content = read_checkpoint(checkpoint)
    state = content["state_dict"]
    try:
        model = ImageClassifier(settings, loss, num_classes=num_classes, mean=state["preprocessing.mean"])
        model.begin(content["epoch"])
        model.load_state_dict(state)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise _unreadable(checkpoint, error) from error
    return model.eval()


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without running code from it.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged, too large, or not a checkpoint of an `ImageClassifier`.
    """
    try:
        with path.open("rb") as file, ZipFile(file) as archive:
            check_zip(archive)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
        if not all(isinstance(content[name], Mapping) for name in ("state_dict", "curves", "specification")):
            raise TypeError("a part of it is no dictionary")
        if not isinstance(content["epoch"], int):
            raise TypeError("its epoch is no number")
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile and PyTorch raise whatever they meet
        raise _unreadable(path, error) from error
    return dict(content)


def _unreadable(path: Path, error: Exception) -> ValueError:
    reason = (str(error).splitlines() or [""])[0]
    what = "a checkpoint of a network for images"
    return ValueError(
        f"Expected {path} to be {what}, but got {type(error).__name__}: {reason}: delete it to begin anew."
    )


def best_epoch(curves: Mapping[str, list[float]]) -> int:
    """Return the first epoch with the best validation accuracy; without validation images, the last epoch."""
    if "validation_accuracy" not in curves:
        return len(curves["objective"]) - 1
    return curves["validation_accuracy"].index(max(curves["validation_accuracy"]))
