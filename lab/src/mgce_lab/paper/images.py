"""Define and plan the paper's runs on images; each run trains one residual network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mgce import noise
from mgce._files import plain
from mgce._messages import check_choice, expected
from mgce.metrics.evaluation import evaluate
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.engine.images import ImageNetworkRun, curves_by_epoch, label_transition
from mgce_lab.engine.methods import MINIMAX_MAE, Method, PublishedFor, row_name, stages
from mgce_lab.engine.methods import PAPER as PAPER_METHODS
from mgce_lab.engine.place import Place
from mgce_lab.engine.select import MEASURES
from mgce_lab.engine.specification import Specification
from mgce_lab.engine.store import Run
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.losses import LOSSES
from mgce_lab.paper.image_settings import HUMAN, PAPER
from mgce_lab.paper.plan import BETA, Options
from mgce_lab.paper.published_mae import evaluate_published_mae
from mgce_lab.training.member_losses import MemberLoss

if TYPE_CHECKING:
    from mgce_lab.images.lightning import ImageFit

PENALTY = ImageSettings().l1
# Data sets whose labels are wrong as they come; no noise is made. They are for the figures alone, at one beta: no part
# of WebVision is held out, by which a beta could be chosen for the tables.
NATURALLY_NOISY = ("webvision", "clothing1m")
SMOKE_DATASETS = ("digits",)
SMOKE_ITEM = "table1"  # what most smoke runs are a miniature of, since Table 2 and Figure 3 have the same runs
# Two epochs of a network of eight channels on the 8 x 8 digits. With four, PyTorch 2.13 writes beyond its memory on
# processors without AVX-512, in a convolution of 1 x 1 with stride 2. The learning rate is five times the usual one, so
# that even a few steps have an effect.
SMOKE: dict[str, Any] = {"width": 8, "padding": 1, "crop": 8, "epochs": 2, "batch_size": 128, "lr": 0.05}
SMOKE_WIDE = {"padding": 12, "crop": 32}  # for stems that need more pixels: pads the 8 x 8 digits to 32 x 32
SMOKE_COUNT = 2  # of seeds, and of candidates for beta, in a smoke run at most


@dataclass(frozen=True, kw_only=True)
class ImageRun(ImageNetworkRun):
    """A run of the paper's experiments that trains one network on images with one loss.

    The fields are those of `ImageNetworkRun`. Validation labels are corrupted too. `hyperparameters` contains the
    published hyperparameters only if the loss is not one of the paper's.
    """

    kind: ClassVar[str] = "images"
    axes: ClassVar[tuple[str, ...]] = ("noise_rate", "seed", "method", "beta", "l1")

    by_dataset: ClassVar[tuple[str, ...] | None] = (
        *("architecture", "stem", "size", "padding", "crop", "jitter", "labels"),
        *("validation_size", "epochs", "batch_size", "lr", "milestones", "gamma"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("methods", self.method, tuple(LOSSES))
        if self.dataset in NATURALLY_NOISY and LOSSES[self.method].told:
            what = f"losses that are not told the noise, since nobody knows that of {self.dataset}"
            raise ValueError(expected("methods", what, self.method))
        published = self.method not in PAPER_METHODS
        found = {self.method: self._loss.hyperparameters(*self._published_for)} if published else {}
        object.__setattr__(self, "hyperparameters", found)  # the dataclass is frozen

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train the network and return its records, measured at the epoch with the best validation accuracy."""
        dataset, loss = self.task(place)
        by_epoch = {epoch: stage[0] for epoch, stage in stages([loss]).items()}
        fit, logits = self.train(dataset, place, by_epoch, noise_rate=self.noise_rate)
        return self.records(loss, fit, dataset, logits, place.image_precision)

    def task(self, place: Place) -> tuple[ImageDataset, MemberLoss]:
        """Return the images, with labels to which noise has not been added yet, and the loss."""
        published = self.images(place)
        dataset = with_labels(published, self.labels)
        return dataset, self._loss.loss(self._published_for, *self._told(published, dataset))

    def records(
        self, loss: MemberLoss, fit: ImageFit, dataset: ImageDataset, logits: Tensor, precision: str
    ) -> list[dict[str, Any]]:
        """Return the records of a trained network, given its logits of the test images.

        A record contains the method, beta, noise rate and seed; the selected epoch; the validation accuracy (None if
        no images are held out); the test accuracy; the calibration errors ECE and SCE of the minimax probabilities h
        and the worst-case probabilities p; and by epoch the test accuracy, the objective and the validation accuracy.
        Curves are rounded to five digits. MGCE at beta = 1 has a second record, `mae_published`, for the probabilities
        with which the paper's table agrees.
        """
        target = torch.from_numpy(dataset.test.target)
        record = {"method": self.method, "beta": plain(self.beta), "noise_rate": self.noise_rate, "seed": self.seed}
        record["precision"] = precision
        record["best_epoch"] = fit.best_epoch
        record["validation_accuracy"] = fit.metrics.get("validation_accuracy")
        measures = evaluate(logits, target, self.beta, link=loss.link())
        records = [{**record, **{name: measures[name] for name in MEASURES}, **curves_by_epoch(fit)}]
        if row_name(self.method, self.beta) == MINIMAX_MAE:
            records.append({**record, "method": "mae_published", **evaluate_published_mae(logits, target)})
        return records

    @property
    def _loss(self) -> Method:
        return Method(self.method, self.beta)

    @property
    def _published_for(self) -> PublishedFor:
        """The data set and the noise for which published hyperparameters are looked up."""
        if self.labels:
            return self.dataset.removesuffix("n"), None, None
        return self.dataset, "symmetric", self.noise_rate

    def _told(self, published: ImageDataset, dataset: ImageDataset) -> tuple[Tensor, Tensor]:
        """Return the transition matrix of the noise and the counts of the true classes, for losses that need them."""
        clean, k = torch.from_numpy(published.train.target), len(published.classes)
        if self.labels:
            transition = label_transition(clean, torch.from_numpy(dataset.train.target), k)
        else:
            transition = noise.symmetric(k, self.noise_rate)
        return transition, clean.bincount(minlength=k)


def with_labels(dataset: ImageDataset, labels: str) -> ImageDataset:
    """Return the data set with the human labels of this name as training labels; for "" return it unchanged."""
    if not labels:
        return dataset
    assert isinstance(dataset.train, Images)
    check_choice("labels", labels, tuple(dataset.train.noisy))
    return replace(dataset, train=Images(dataset.train.images, dataset.train.noisy[labels]))


def plan_images(
    options: Options,
    datasets: Sequence[str],
    members: Iterable[tuple[str, float]],
    *,
    noise_rates: Sequence[float] = (0.0,),
    penalties: Sequence[float] = (PENALTY,),
    item: str = SMOKE_ITEM,
) -> list[Specification]:
    """Plan a run for each data set, noise rate, penalty, seed, and pair of method and beta.

    Data sets with human labels are trained on these labels, without additional noise.

    Args:
        options: the user's options. A smoke run has tiny networks and at most two seeds, and uses the digits if the
            user names no data sets.
        datasets: data sets of the table or figure, used if the options name none.
        members: pairs of method and beta.
        noise_rates: fractions of labels to corrupt.
        penalties: weights lambda_0 of the L1 penalty.
        item: for a smoke run, the table or figure that it is a miniature of; Tables 1 and 2 and Figure 3 share theirs.
    """
    members = list(members)
    specifications: list[Specification] = []
    for dataset in options.datasets or (SMOKE_DATASETS if options.smoke else datasets):
        settings = replace(PAPER.get(dataset, ImageSettings()), **options.settings)
        if options.smoke:
            wide = SMOKE_WIDE if settings.stem == "imagenet" else {}
            smoke = {**SMOKE, **wide}
            settings = replace(settings, **smoke, size=None if settings.size is None else smoke["crop"])
        shared = {field.name: getattr(settings, field.name) for field in fields(ImageSettings)}
        shared |= {"dataset": dataset, "labels": HUMAN.get(dataset, ""), "smoke": item if options.smoke else ""}
        specifications += [
            ImageRun(**{**shared, "l1": l1}, noise_rate=rate, seed=seed, method=method, beta=beta)
            for rate in (noise_rates[:1] if dataset in HUMAN else noise_rates)
            for l1 in penalties
            for seed in range(min(options.seeds, SMOKE_COUNT) if options.smoke else options.seeds)
            for method, beta in members
        ]
    return specifications


def image_records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the records of all runs on images, sorted by beta, with facts about the runs.

    The facts are the data set, with the name of its human labels if it has any; the weight of the penalty; for a smoke
    run, the item it is a miniature of; whether the tables show the record; the network's stem and number of epochs;
    and whether the paper has more epochs.
    """
    records = [
        {
            **record,
            "method": row_name(record["method"], float(record["beta"])),
            "dataset": _shown(run.specification),
            "l1": run.specification["l1"],
            "smoke": run.specification.get("smoke", ""),
            "for_tables": run.specification["dataset"] not in NATURALLY_NOISY
            and run.specification.get("smoke", "") in ("", SMOKE_ITEM),
            **_setting(run.specification),
            "beta": float(record["beta"]),
        }
        for run in runs
        if run.specification["kind"] == ImageRun.kind
        for record in run.records
    ]
    return sorted(records, key=lambda record: record["beta"])


def _setting(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stem and the number of epochs of a run as text, and whether the paper trains for more epochs."""
    epochs, paper = specification["epochs"], PAPER.get(specification["dataset"], ImageSettings()).epochs
    return {"setting": f"{specification['stem']} stem, {epochs} epochs", "short": epochs < paper}


def settings_of(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the distinct settings of records, joined to one text."""
    return "; ".join(sorted({record["setting"] for record in records}))


def _shown(specification: Mapping[str, Any]) -> str:
    """Return the name of a run's data set in tables, with its human labels if it has any: `cifar10n (worst)`."""
    labels = specification.get("labels", "")
    return f"{specification['dataset']} ({labels})" if labels else str(specification["dataset"])


def clean_records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the records for figures: those at beta = 1.4, with the usual penalty and without added noise."""
    keys = {"noise_rate": 0.0, "beta": BETA, "l1": PENALTY}
    return [record for record in image_records(runs) if keys.items() <= record.items()]


def figure_records(runs: Sequence[Run], item: str, datasets: Sequence[str]) -> list[dict[str, Any]]:
    """Return the records for a figure: of runs on the figure's data sets, and of smoke runs of the figure."""
    records = clean_records(runs)
    return [r for r in records if r["smoke"] == item or (not r["smoke"] and r["dataset"] in datasets)]


def plan_figure(options: Options, datasets: Sequence[str], item: str = SMOKE_ITEM) -> list[Specification]:
    """Plan a run at beta = 1.4 for each data set, each seed, and each of MGCE and GCE that the options name."""
    members = [(method, BETA) for method in options.methods if method in ("mgce", "gce")]
    return plan_images(options, datasets, members, item=item)
