"""Define runs on a table: each run trains networks with one hidden layer for several seeds and losses at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mgce import noise
from mgce._arrays import IntArray
from mgce._messages import check_choice, check_count, check_fraction, expected
from mgce._seeds import derived_seed
from mgce._validation import check_beta
from mgce.desk.files import Table, preprocessor
from mgce.labels.out_of_fold import stratified_split
from mgce_lab.data import NAMES, load
from mgce_lab.engine.place import Place
from mgce_lab.losses import LOSSES
from mgce_lab.seeds import derived_generator
from mgce_lab.training.ensemble import EnsembleFit, fit_ensemble, stack_groups
from mgce_lab.training.member_losses import MemberLoss
from mgce_lab.training.settings import TrainingSettings

SCALINGS = ("standard", "pixels")  # see `TableRun.scaling`


class Outputs(NamedTuple):
    """The logits of networks for each seed, loss, row and class, and the labels for each seed and row, on the CPU."""

    logits: Tensor
    target: Tensor


@dataclass(frozen=True)
class TableRun(ABC):
    """The base class of runs on a table: networks trained at one noise rate; the default settings are the paper's.

    A run trains a group of networks for each seed, with one member for each loss.

    Attributes:
        dataset: a name that `mgce.desk.files.load` accepts.
        noise_rate: fraction of the labels of training and validation rows to corrupt.
        seeds: a seed for each group of networks, for its split, its noise and its training.
        members: pairs of method and beta, one for each network of a group. A method is the name of a loss in
            `mgce_lab.losses.LOSSES`; beta is inf for a loss without beta.
        rows: number of rows to use, a random sample that is the same for all seeds; None uses all rows.
        scaling: "standard" scales features by `preprocessor`. "pixels" divides them by 255 and subtracts their means
            over the training rows.
        random_test: whether test rows are drawn at random by the seed even if the data set has a published test part.
        test_size: fraction of test rows, if they are chosen by the seed.
        validation_size: fraction of the training rows that is held out to select the best epoch.
        hidden: number of units of the hidden layer.
        epochs, batch_size, lr, momentum, l1, l1_on, max_norm: as in `TrainingSettings`.
        smoke: for a smoke run, the table or protocol that it is a miniature of; "" for other runs.
        hyperparameters: the published hyperparameters, by the name of the loss; all other hyperparameters are defaults.
            The published ones are looked up by loss, data set and noise, and may change with the version of this
            package.

    Raises:
        TypeError, ValueError: if a field does not have the type or domain described above.
    """

    kind: ClassVar[str]
    axes: ClassVar[tuple[str, ...]]
    by_dataset: ClassVar[tuple[str, ...] | None]

    dataset: str
    noise_rate: float
    seeds: tuple[int, ...]
    members: tuple[tuple[str, float], ...]
    rows: int | None = None
    scaling: str = "standard"
    random_test: bool = False
    test_size: float = 0.2
    validation_size: float = 0.1
    hidden: int = 1024
    epochs: int = 150
    batch_size: int = 128
    lr: float = 1e-3
    momentum: float = 0.9
    l1: float = 1e-5
    l1_on: str = "all"
    max_norm: float = 5.0
    smoke: str = ""
    hyperparameters: dict[str, Any] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("dataset", self.dataset, NAMES)
        check_choice("scaling", self.scaling, SCALINGS)
        check_fraction("noise_rate", self.noise_rate)
        for seed in self.seeds:
            check_count("seeds", seed, minimum=0)
        for method, beta in self.members:
            check_choice("members", method, tuple(LOSSES))
            check_beta(beta)
        for name in ("seeds", "members"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(expected(name, "one or more values, none of them twice", values))
        if self.rows is not None:
            check_count("rows", self.rows)
        for name in ("test_size", "validation_size"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(expected(name, "a float in (0, 1)", getattr(self, name)))
        check_count("hidden", self.hidden)
        self._settings()  # checks the others
        object.__setattr__(self, "hyperparameters", self._hyperparameters())  # the dataclass is frozen

    def check(self, place: Place) -> None:
        """Raise an error if the data set is missing."""
        self.table(place)

    def data_checksum(self, place: Place) -> str:
        """Return the SHA-256 of the data that the run reads."""
        return self.table(place).checksum()

    @abstractmethod
    def run(self, place: Place) -> list[dict[str, Any]]:
        """Train all networks and return a record of each."""

    def train(
        self, table: Table, place: Place, losses: Sequence[MemberLoss] | Mapping[int, Sequence[MemberLoss]]
    ) -> tuple[EnsembleFit, Outputs, Outputs]:
        """Train a network for each seed and loss; return the fit, and the outputs on validation and test rows.

        Args:
            table: the table, as returned by :meth:`table`.
            place: where to train.
            losses: the losses of the members; or a dict that maps the first epoch (from 0) of each list of losses to
                the list.
        """
        parts = [_split(table, self, seed) for seed in self.seeds]
        train, validation, test = (stack_groups([part[i] for part in parts], place.device) for i in range(3))
        fit = fit_ensemble(
            *train,
            losses,
            self._settings(),
            num_classes=len(table.classes),
            validation=validation,
            watch={"test": test},
            generators=[derived_generator(seed, "training") for seed in self.seeds],
        )
        with torch.no_grad():
            outputs = [Outputs(fit.model(part[0]).cpu(), part[1].cpu()) for part in (validation, test)]
        return fit, outputs[0], outputs[1]

    @abstractmethod
    def _hyperparameters(self) -> dict[str, Any]:
        """Return the published hyperparameters of the run's losses, by the name of the loss."""

    def _told(self, table: Table) -> tuple[Tensor, Tensor]:
        """Return the transition matrix of the noise and the counts of the true classes, for losses that need them."""
        k = len(table.classes)
        return noise.symmetric(k, self.noise_rate), torch.from_numpy(table.target).bincount(minlength=k)

    def _settings(self) -> TrainingSettings:
        return TrainingSettings(
            hidden_layer_sizes=(self.hidden,),
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer="sgd",
            lr=self.lr,
            momentum=self.momentum,
            l1=self.l1,
            l1_on=self.l1_on,
            max_norm=self.max_norm,
        )

    def table(self, place: Place) -> Table:
        """Load the table, and select `rows` of its rows at random, in their order."""
        table = load(self.dataset, data_dir=place.data.data_dir, download=place.data.download)
        if self.random_test:
            table = replace(table, n_train=None)
        if self.rows is None or self.rows >= len(table.target):
            return table
        kept = np.sort(np.random.default_rng(0).choice(len(table.target), self.rows, replace=False))
        n_train = None if table.n_train is None else int((kept < table.n_train).sum())
        return replace(table, features=table.features.iloc[kept], target=table.target[kept], n_train=n_train)


def _split(table: Table, spec: TableRun, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Return the features and labels of the training, validation and test rows of a seed."""

    def stratified(rows: IntArray, size: float) -> tuple[IntArray, IntArray]:
        return stratified_split(rows, table.target, size, derived_seed(seed, "split"), table.name)

    rows = np.arange(len(table.target))
    kept, test = stratified(rows, spec.test_size) if table.n_train is None else np.split(rows, [table.n_train])
    train, validation = stratified(kept, spec.validation_size)
    transition = noise.symmetric(len(table.classes), spec.noise_rate)
    generator = derived_generator(seed, "noise")
    scaled = _scaled(table, train, spec.scaling, [train, validation, test])
    clean = [torch.from_numpy(table.target[part]) for part in (train, validation, test)]
    noisy = [noise.corrupt(labels, transition, generator).labels for labels in clean[:2]]
    return list(zip(scaled, [*noisy, clean[2]], strict=True))


def _scaled(table: Table, train: IntArray, scaling: str, parts: list[IntArray]) -> list[Tensor]:
    """Return the features of each part of the rows, scaled by statistics of the training rows."""
    if scaling == "pixels":
        pixels = torch.as_tensor(table.features.to_numpy(), dtype=torch.float32) / 255
        pixels -= pixels[train].mean(0)
        return [pixels[part] for part in parts]
    transform = preprocessor(table.features).fit(table.features.iloc[train])
    return [torch.as_tensor(transform.transform(table.features.iloc[p]), dtype=torch.float32) for p in parts]
