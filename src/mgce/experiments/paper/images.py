"""A run on images: one residual network, trained by Lightning."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mgce._files import plain
from mgce._validation import check_device
from mgce.datasets import load_images
from mgce.datasets.images import ImageDataset
from mgce.experiments.paper.image_settings import PAPER
from mgce.experiments.paper.plan import BETA, Options
from mgce.experiments.paper.published_mae import evaluate_published_mae
from mgce.experiments.paper.specification import Place, Specification, document
from mgce.experiments.select import MEASURES
from mgce.experiments.store import Run, run_name
from mgce.metrics.evaluation import evaluate
from mgce.training.image_data import batches_of, evaluation_batches, resized
from mgce.training.image_settings import ImageSettings
from mgce.training.member_losses import MemberLoss

if TYPE_CHECKING:
    from mgce.training.lightning import ImageFit

PENALTY = ImageSettings().l1
# Data sets whose labels are wrong as they come; no noise is made. They are for the figures alone, at one beta: no part
# of WebVision is held out, by which a beta could be chosen for the tables.
NATURALLY_NOISY = ("webvision", "clothing1m")
SMOKE_DATASETS = ("digits",)
# Two epochs of a network of four channels, for the 8 x 8 digits; the learning rate is five times the
# usual one, so that so few steps have an effect.
SMOKE: dict[str, Any] = {"width": 4, "padding": 1, "crop": 8, "epochs": 2, "batch_size": 128, "lr": 0.05}
SMOKE_COUNT = 2  # of seeds, and of candidates for beta, in a smoke run at most


@dataclass(frozen=True, kw_only=True)
class ImageRun(ImageSettings):
    """A network trained on one data set of images, by one loss.

    Attributes:
        dataset: a name that `mgce.datasets.load_images` knows.
        noise: share of the labels of training and validation images that are made wrong.
        seed: of the noise, the split and the training.
        method: "mgce", "gce", "ce" or "mae".
        beta: of the loss.

    All other fields are those of `ImageSettings`.
    """

    kind: ClassVar[str] = "images"
    axes: ClassVar[tuple[str, ...]] = ("noise", "seed", "method", "beta", "l1")

    dataset: str
    noise: float
    seed: int
    method: str
    beta: float

    def check(self, place: Place) -> None:
        """Raise an error if Lightning, the device or the data set is missing."""
        check_images(self.dataset, place)

    def data_checksum(self, place: Place) -> str:
        """Give a SHA-256 of the data as they are read."""
        return load_images(self.dataset, data_dir=place.data_dir).checksum()

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train the network; give its record at the epoch of best validation accuracy.

        The record holds the method, beta, noise and seed; the epoch; validation accuracy, None where no images are
        held out; test accuracy; ECE and SCE of h and p; and by epoch the test accuracy and the objective. The method
        `mae` has another record, `mae_published`, for the probabilities that the paper's table agrees with. Curves have
        five digits, so that records stay small.
        """
        dataset = load_images(self.dataset, data_dir=place.data_dir, download=place.download)
        fit, logits = self._train(dataset, place)
        target = torch.from_numpy(dataset.test.target)
        record = {"method": self.method, "beta": plain(self.beta), "noise": self.noise, "seed": self.seed}
        record["best_epoch"] = fit.best_epoch
        record["validation_accuracy"] = fit.metrics.get("validation_accuracy")
        measures = evaluate(logits, target, self.beta, softmax=self.method == "gce")
        curves = {
            f"{name}_by_epoch": [float(f"{value:.5g}") for value in fit.curves[name]]
            for name in ("test_accuracy", "objective")
        }
        records = [{**record, **{name: measures[name] for name in MEASURES}, **curves}]
        if self.method == "mae":
            records.append({**record, "method": "mae_published", **evaluate_published_mae(logits, target)})
        return records

    def _train(self, dataset: ImageDataset, place: Place) -> tuple[ImageFit, Tensor]:
        """Give the trained network with its curves, and its logits of the test images."""
        settings = ImageSettings(**{field.name: getattr(self, field.name) for field in fields(ImageSettings)})
        loss = MemberLoss("gce" if self.method == "gce" else "mgce", self.beta)
        name = run_name(document(self))
        return train_in_scratch(settings, dataset, place, name, loss=loss, noise_rate=self.noise, seed=self.seed)


def check_images(dataset: str, place: Place) -> None:
    """Raise an error if Lightning, the device or the data set is missing."""
    if not all(map(find_spec, ("lightning", "tensorboard"))):
        raise ValueError("Expected Lightning for images, but it is missing: pip install 'mgce[experiments]'.")
    check_device(place.device)
    load_images(dataset, data_dir=place.data_dir, download=place.download)


def train_in_scratch(
    settings: ImageSettings,
    dataset: ImageDataset,
    place: Place,
    name: str,
    *,
    loss: MemberLoss | Mapping[int, MemberLoss],
    seed: int,
    noise_rate: float = 0.0,
) -> tuple[ImageFit, Tensor]:
    """Train a network, or go on from where the run of this name was stopped; with it give the logits of test images."""
    from mgce.training.image_classifier import load_classifier
    from mgce.training.lightning import Machine, train_images

    device = torch.device(place.device)
    on_gpu = device.type == "cuda"
    machine = Machine(
        accelerator=device.type,
        devices=1 if device.index is None else [device.index],
        precision="bf16-mixed" if on_gpu else "32-true",
        compiled=on_gpu,
    )
    with _scratch(place, name) as folder, _without_chatter():
        fit = train_images(
            settings,
            dataset,
            folder,
            loss=loss,
            noise_rate=noise_rate,
            seed=seed,
            machine=machine,
            resume=True,
        )
        model = load_classifier(fit.checkpoint, settings, loss, len(dataset.classes)).to(device)
    return fit, _test_logits(model, dataset, settings, device)


@contextmanager
def _scratch(place: Place, name: str) -> Iterator[Path]:
    """Give a folder for the checkpoints of a run.

    Without `place.scratch` it is a temporary one. A folder in `place.scratch` has the name of the run and stays: until
    the run's records are written, its checkpoints are all there is of it.
    """
    if place.scratch is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
        return
    yield place.scratch / name


def plan_images(
    options: Options,
    datasets: Sequence[str],
    members: Iterable[tuple[str, float]],
    *,
    noises: Sequence[float] = (0.0,),
    penalties: Sequence[float] = (PENALTY,),
) -> list[Specification]:
    """Plan a run for each data set, noise rate, penalty, seed and member, which is a pair of method and beta.

    Args:
        options: what was asked for. A smoke run has tiny networks, at most two seeds, and the digits if no data sets
            are asked for.
        datasets: those of the table or figure, used if the options name none.
        members: pairs of method and beta.
        noises: noise rates.
        penalties: values of lambda_0.
    """
    members = list(members)
    specifications: list[Specification] = []
    for dataset in options.datasets or (SMOKE_DATASETS if options.smoke else datasets):
        settings = PAPER.get(dataset, ImageSettings())
        if options.smoke:
            settings = replace(settings, **SMOKE, size=None if settings.size is None else SMOKE["crop"])
        shared = {field.name: getattr(settings, field.name) for field in fields(ImageSettings)}
        specifications += [
            ImageRun(**{**shared, "l1": l1}, dataset=dataset, noise=noise, seed=seed, method=method, beta=beta)
            for noise in noises
            for l1 in penalties
            for seed in range(min(options.seeds, SMOKE_COUNT) if options.smoke else options.seeds)
            for method, beta in members
        ]
    return specifications


def image_records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Give the records of all runs on images by rising beta, with the data set and lambda_0 in each."""
    records = [
        {
            **record,
            "dataset": run.specification["dataset"],
            "l1": run.specification["l1"],
            "beta": float(record["beta"]),
        }
        for run in runs
        if run.specification["kind"] == ImageRun.kind
        for record in run.records
    ]
    return sorted(records, key=lambda record: record["beta"])


def clean_records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Give the records that figures show: at their beta, the usual lambda_0, and without noise of our making."""
    keys = {"noise": 0.0, "beta": BETA, "l1": PENALTY}
    return [record for record in image_records(runs) if keys.items() <= record.items()]


def plan_figure(options: Options, datasets: Sequence[str]) -> list[Specification]:
    """Plan a run for each data set, each seed, and MGCE and GCE as far as they are asked for, at the figures' beta."""
    return plan_images(options, datasets, [(method, BETA) for method in options.methods if method in ("mgce", "gce")])


def _test_logits(
    model: torch.nn.Module, dataset: ImageDataset, settings: ImageSettings, device: torch.device
) -> Tensor:
    """Give the logits of all test images, computed in float32 on the device of training, as a tensor on the CPU."""
    part = (dataset if settings.size is None else resized(dataset, settings.size)).test
    batches = batches_of(part, evaluation_batches(len(part), settings.batch_size, 0, 1), device, num_workers=0)
    with torch.no_grad():
        return torch.cat([model(images.to(device)).cpu() for images, _ in batches])


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Keep what Lightning says of every training from the terminal, and what PyTorch says of Lightning."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
        yield
