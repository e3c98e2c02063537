"""Define runs on images: each run trains one network on one data set with Lightning."""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mgce._messages import not_installed
from mgce_lab.data import load_images
from mgce_lab.data.image_sets import ImageDataset
from mgce_lab.engine import scratch
from mgce_lab.engine.place import Place
from mgce_lab.engine.records import short
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import run_name
from mgce_lab.images.image_data import batches_of, evaluation_batches, resized
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.images.resnet import ARCHITECTURES
from mgce_lab.training.member_losses import MemberLoss

if TYPE_CHECKING:
    from mgce_lab.images.lightning import ImageFit

CURVES = ("validation_accuracy", "test_accuracy", "objective")


@dataclass(frozen=True, kw_only=True)
class ImageNetworkRun(ImageSettings, ABC):
    """The base class of runs on images: each run trains one network on one data set with one loss.

    Attributes:
        dataset: a name that `mgce.desk.files.load_images` accepts.
        noise_rate: fraction of the labels to corrupt.
        labels: name of the human labels to train on, for example "worst" for cifar10n; "" for other labels.
        seed: seed of the noise and the training.
        method: name of the loss, a key of `mgce_lab.losses.LOSSES`.
        beta: beta of the loss; inf for a loss without beta.
        smoke: for a smoke run, the table, figure or protocol that it is a miniature of; "" for other runs.
        hyperparameters: the published hyperparameters, by the name of the loss; all other hyperparameters are defaults.
            The published ones are looked up by loss, data set and noise, and may change with the version of this
            package.

    All other fields are those of `ImageSettings`.
    """

    kind: ClassVar[str]
    axes: ClassVar[tuple[str, ...]]
    by_dataset: ClassVar[tuple[str, ...] | None]

    dataset: str
    noise_rate: float
    labels: str = ""
    seed: int
    method: str
    beta: float
    smoke: str = ""
    hyperparameters: dict[str, Any] = field(init=False, compare=False)

    def check(self, place: Place) -> None:
        """Raise an error if Lightning or the data set is missing."""
        if not all(map(find_spec, ("lightning", "tensorboard"))):
            raise ModuleNotFoundError(not_installed("Experiments on images need", "Lightning", "experiments"))
        self.images(place)

    def data_checksum(self, place: Place) -> str:
        """Return the SHA-256 of the data that the run reads."""
        return self.images(place).checksum()

    @abstractmethod
    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train the network and return its records."""

    def images(self, place: Place) -> ImageDataset:
        """Load the data set with its published labels."""
        return load_images(self.dataset, data_dir=place.data.data_dir, download=place.data.download)

    def train(
        self, dataset: ImageDataset, place: Place, loss: Mapping[int, MemberLoss], noise_rate: float = 0.0
    ) -> tuple[ImageFit, Tensor]:
        """Train the network, or resume a stopped training; return the fit and the logits of the test images.

        Args:
            dataset: training, validation and test images, with the labels to train on.
            place: device and folders. Training does not resume from checkpoints of another precision.
            loss: maps the first epoch (from 0) of each loss to the loss.
            noise_rate: fraction of the labels of training and validation images to corrupt.
        """
        from mgce_lab.images.image_classifier import load_classifier
        from mgce_lab.images.lightning import Machine, train_images

        settings = ImageSettings(**{field.name: getattr(self, field.name) for field in fields(ImageSettings)})
        device = torch.device(place.device)
        machine = Machine(
            accelerator=device.type,
            devices=1 if device.index is None else [device.index],
            precision=place.image_precision,
            compiled=device.type == "cuda",
            channels_last=device.type == "cuda" or settings.architecture in ARCHITECTURES,
        )
        with scratch.folder_of(place, run_name(document(self))) as folder, _without_chatter():
            fit = train_images(
                settings,
                dataset,
                folder / place.image_precision,
                loss=loss,
                noise_rate=noise_rate,
                seed=self.seed,
                machine=machine,
                resume=True,
            )
            model = load_classifier(fit.checkpoint, settings, loss, len(dataset.classes)).to(device)
        return fit, _test_logits(model, dataset, settings, device)


def curves_by_epoch(fit: ImageFit) -> dict[str, list[float]]:
    """Return the learning curves of a training for its record, with a validation curve if images are held out."""
    return {f"{name}_by_epoch": short(fit.curves[name]) for name in CURVES if name in fit.curves}


def label_transition(clean: Tensor, noisy: Tensor, n_classes: int) -> Tensor:
    """Return the transition matrix of noisy labels: row z has the fraction of each label among rows of true class z.

    Example:
        >>> label_transition(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2).tolist()
        [[0.5, 0.5], [0.0, 1.0]]
    """
    counts = torch.zeros(n_classes, n_classes, dtype=torch.float64)
    counts.index_put_((clean, noisy), torch.ones((), dtype=counts.dtype), accumulate=True)
    return counts / counts.sum(1, keepdim=True)


def _test_logits(
    model: torch.nn.Module, dataset: ImageDataset, settings: ImageSettings, device: torch.device
) -> Tensor:
    """Return the logits of all test images on the CPU, computed in float32 on the device of training.

    On a GPU, convolutions in float32 use TF32, with 10 bits of the mantissa, unless PyTorch is configured otherwise.
    """
    part = (dataset if settings.size is None else resized(dataset, settings.size)).test
    batches = batches_of(part, evaluation_batches(len(part), settings.batch_size, 0, 1), device, num_workers=0)
    with torch.no_grad():
        return torch.cat([model(images.to(device)).cpu() for images, _ in batches])


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Suppress Lightning's messages about every training, and PyTorch's warnings about Lightning."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
        yield
