"""Define the runs of the benchmark on images; each run trains one network with one loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from mgce import noise
from mgce._files import plain
from mgce._messages import check_choice, check_count, check_fraction, expected
from mgce.losses.trimmed import check_trim
from mgce.metrics.evaluation import evaluate
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.engine.images import ImageNetworkRun, curves_by_epoch, label_transition
from mgce_lab.engine.methods import CAPPED, CAPPED_FROM, TRIMMED, Method, PublishedFor, stages
from mgce_lab.engine.place import Place
from mgce_lab.engine.records import keep_logits, rounded
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import run_name
from mgce_lab.losses import LOSSES
from mgce_lab.seeds import derived_generator
from mgce_lab.training.member_losses import MemberLoss

# The classes that asymmetric noise confuses. Of CIFAR-100 each class becomes the next of its superclass.
CONFUSED: Mapping[str, Mapping[int, int]] = {
    "mnist": {7: 1, 2: 7, 5: 6, 6: 5, 3: 8},
    "cifar10": {9: 1, 2: 0, 3: 5, 5: 3, 4: 7},  # truck, bird, cat and dog, deer
}
# CIFAR-100's superclasses, each five classes in the order of their numbers, which are alphabetical.
SUPERCLASSES = (
    (4, 30, 55, 72, 95),
    (1, 32, 67, 73, 91),
    (54, 62, 70, 82, 92),
    (9, 10, 16, 28, 61),
    (0, 51, 53, 57, 83),
    (22, 39, 40, 86, 87),
    (5, 20, 25, 84, 94),
    (6, 7, 14, 18, 24),
    (3, 42, 43, 88, 97),
    (12, 17, 37, 68, 76),
    (23, 33, 49, 60, 71),
    (15, 19, 21, 31, 38),
    (34, 63, 64, 66, 75),
    (26, 45, 77, 79, 99),
    (2, 11, 35, 46, 98),
    (27, 29, 44, 78, 93),
    (36, 50, 65, 74, 80),
    (47, 52, 56, 59, 96),
    (8, 13, 48, 58, 90),
    (41, 69, 81, 85, 89),
)
KINDS = ("symmetric", "asymmetric", "human")


@dataclass(frozen=True, kw_only=True)
class LossRun(ImageNetworkRun):
    """A run of the benchmark that trains one network on images with one loss.

    Attributes:
        protocol: name of the protocol, as on the command line.
        noise_type: "symmetric" or "asymmetric" noise, with a fixed number of wrong labels in each class; or "human"
            labels.
        noise_rate: fraction of the training labels to corrupt; for asymmetric noise, the fraction within the classes
            that are confused; 0 for human labels.
        rows: number of training images, a random sample with about equally many of each class, the same for all runs.
            None uses all.
        test_rows: number of test images, sampled in the same way; None uses all.
        beta_start: beta of MGCE in the first epoch. During the first half of the epochs beta - 1 is multiplied by a
            constant factor in each epoch, until beta reaches `beta`. None keeps beta constant.
        cap_from: for a loss with a cap or a threshold, the first epoch (at least 1) with it; None means
            `mgce_lab.engine.methods.CAPPED_FROM`.
        trim: for a trimmed loss, the fraction of the rows of every label to leave out; None means the true fraction of
            wrong labels, which differs by label.

    The other fields are those of `ImageNetworkRun`; by default no images are held out for validation.
    """

    kind: ClassVar[str] = "losses"
    axes: ClassVar[tuple[str, ...]] = (
        *("noise_type", "noise_rate", "labels", "seed", "method", "beta", "beta_start"),
        *("lr", "l1", "weight_decay", "cap_from", "trim"),
    )
    by_dataset: ClassVar[tuple[str, ...] | None] = None

    protocol: str
    noise_type: str = "symmetric"
    noise_rate: float = 0.0
    rows: int | None = None
    test_rows: int | None = None
    seed: int = 0
    beta_start: float | None = None
    cap_from: int | None = None
    trim: float | None = None
    validation_size: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("noise_type", self.noise_type, KINDS)
        check_fraction("noise_rate", self.noise_rate)
        check_choice("method", self.method, tuple(LOSSES))
        check_count("seed", self.seed, minimum=0)
        if self.cap_from is not None:
            check_choice("method", self.method, CAPPED)
            check_count("cap_from", self.cap_from)
        if self.trim is not None:
            check_choice("method", self.method, TRIMMED)
            check_trim("trim", self.trim)
        if (self.noise_type == "human") != bool(self.labels):
            raise ValueError(expected("labels", "the name of human labels, where the noise is human", self.labels))
        found = self._method.hyperparameters(*self._published_for)
        object.__setattr__(self, "hyperparameters", {self.method: found})  # the dataclass is frozen

    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train the network and return its record, measured after the last epoch.

        If images are held out, the network is measured at the epoch with the best accuracy on held-out images instead.
        Labels of held-out images are as noisy as the training labels. The record contains the noise, the seed and the
        loss; the test accuracy after the measured epoch, at the best test epoch, and by epoch; the calibration errors
        ECE and SCE of the minimax probabilities h and the worst-case probabilities p, and the reliability curve of h;
        and by epoch the objective and the accuracy on held-out images. The logits of the test images are written to
        `place.logits`.
        """
        images = noisy_images(self, self.images(place))
        dataset, stages = images.dataset, self._stages(images.transition, images.frequencies)
        fit, logits = self.train(dataset, place, stages)
        target = torch.from_numpy(dataset.test.target)
        keep_logits(place, run_name(document(self)), logits, target)
        loss = stages[max(stages)]
        measures = evaluate(logits, target, loss.beta, link=loss.link())
        del measures["reliability_p"]
        cell = {"noise_type": self.noise_type, "noise_rate": self.noise_rate, "labels": self.labels, "seed": self.seed}
        method = {"method": self.method, "beta": plain(self.beta), "beta_start": self.beta_start}
        method |= {name: getattr(self, name) for name in ("cap_from", "trim") if getattr(self, name) is not None}
        best = max(fit.curves["test_accuracy"])
        training = {"lr": self.lr, "precision": place.image_precision}
        return [
            {**cell, **method, **training, "best_accuracy": round(best, 6), **rounded(measures), **curves_by_epoch(fit)}
        ]

    @property
    def _method(self) -> Method:
        return Method(self.method, self.beta, self.trim)

    @property
    def _published_for(self) -> PublishedFor:
        """The data set and the noise for which published hyperparameters are looked up."""
        if self.labels:
            return self.dataset.removesuffix("n"), None, None
        return self.dataset, self.noise_type, self.noise_rate

    def _stages(self, transition: Tensor, frequencies: Tensor) -> dict[int, MemberLoss]:
        loss = self._method.loss(self._published_for, transition, frequencies)
        if self.beta_start is None:
            return {epoch: stage[0] for epoch, stage in stages([loss], self.cap_from or CAPPED_FROM).items()}
        half = max(1, self.epochs // 2)
        factor = ((self.beta - 1) / (self.beta_start - 1)) ** (1 / half)
        betas = {epoch: 1 + (self.beta_start - 1) * factor**epoch for epoch in range(half)}
        return {**{epoch: replace(loss, beta=beta) for epoch, beta in betas.items()}, half: loss}


class NoisyImages(NamedTuple):
    """The images of a run, and a description of the noise in their labels.

    Attributes:
        dataset: the training images with noisy labels, and the test images.
        transition: transition matrix of the noise, (k, k) for k classes; for human labels estimated from counts of
            right and human labels.
        frequencies: number of training images of each true class, (k,).
    """

    dataset: ImageDataset
    transition: Tensor
    frequencies: Tensor


def noisy_images(run: LossRun, dataset: ImageDataset) -> NoisyImages:
    """Return the training images of a run with noisy labels, its test images, and the noise."""
    train, k = dataset.train, len(dataset.classes)
    assert isinstance(train, Images)
    clean = torch.from_numpy(train.target)
    if run.noise_type == "human":
        labels = torch.from_numpy(train.noisy[run.labels])
        transition = label_transition(clean, labels, k)
    else:
        symmetric = run.noise_type == "symmetric"
        transition = noise.symmetric(k, run.noise_rate) if symmetric else _asymmetric(run.dataset, k, run.noise_rate)
        labels = noise.corrupt(clean, transition, derived_generator(run.seed, "noise"), exact=True).labels
    kept = _sample(clean, run.rows)
    test = dataset.test
    assert isinstance(test, Images)
    shown = _sample(torch.from_numpy(test.target), run.test_rows).numpy()
    part = Images(train.images[kept.numpy()], labels[kept].numpy())
    data = replace(dataset, train=part, test=Images(test.images[shown], test.target[shown]))
    return NoisyImages(data, transition, clean[kept].bincount(minlength=k))


def _asymmetric(dataset: str, k: int, rate: float) -> Tensor:
    if dataset == "cifar100":
        pairs = {a: b for group in SUPERCLASSES for a, b in zip(group, (*group[1:], group[0]), strict=True)}
        return noise.asymmetric(pairs, k, rate)
    name = "mnist" if dataset == "fashion_mnist" else dataset
    if name not in CONFUSED:
        raise ValueError(expected("noise_type", f"'symmetric' on {dataset}", "asymmetric"))
    return noise.asymmetric(CONFUSED[name], k, rate)


def _sample(target: Tensor, rows: int | None) -> Tensor:
    """Return the sorted indices of a random sample of `rows` rows, with equally many of each class if possible."""
    if rows is None or rows >= len(target):
        return torch.arange(len(target))
    shuffled = torch.randperm(len(target), generator=derived_generator(0, "rows"))
    rank = torch.empty_like(target)  # of a row among those of its class
    for label in range(int(target.max()) + 1):
        own = shuffled[target[shuffled] == label]
        rank[own] = torch.arange(len(own))
    return shuffled[rank[shuffled].argsort(stable=True)][:rows].sort().values
