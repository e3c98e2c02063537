"""Compare losses on one table under label noise: define the settings, and train all networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgce import noise
from mgce._arrays import IntArray
from mgce._messages import check_choice, check_count, check_fraction, expected
from mgce._row_order import content_order
from mgce._seeds import derived_seed
from mgce._validation import check_beta, check_device
from mgce.desk.columns.copies import copies
from mgce.desk.files import Table, preprocessor
from mgce.labels.out_of_fold import stratified_split
from mgce.losses.trimmed import check_trim
from mgce.metrics.evaluation import evaluate
from mgce_lab.engine.methods import PAPER, TRIMMED, Method, at_betas, stages
from mgce_lab.seeds import derived_generator
from mgce_lab.training.ensemble import fit_ensemble, stack_groups
from mgce_lab.training.settings import TrainingSettings

NOISES = {"symmetric": noise.symmetric, "pair": noise.pair_flip}

# The losses have the hyperparameters published for CIFAR-10, and are told the kind of noise by no more than its matrix.
PUBLISHED_FOR = ("cifar10", None, None)
# Of the paper, but for 1.2 in place of 1.18: differences between neighbours are within chance.
BETAS = (1.05, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0, 11.0)


@dataclass(frozen=True)
class Comparison:
    """The settings of a comparison: everything that the records depend on, except the table.

    Attributes:
        noise_rate: fraction of the labels of training and validation rows to corrupt.
        noise_type: a key of `NOISES`.
        methods: names of losses, or NAME@BETA for a loss at a fixed beta.
        betas: candidates for the beta of mgce and gce.
        trims: candidates for the fraction of the rows of each label that mgce+trim and ce+trim leave out.
        seeds: number of seeds; each has its own split, noise and initial weights.
        test_size: fraction of all rows that is used for the test.
        validation_size: fraction of the other rows that is held out to select the epoch, beta and `trim`.
        hidden: number of units of the hidden layer.
        epochs: number of passes over the training rows; None lets :meth:`epochs_for` decide.
        batch_size, lr: batch size and learning rate of Adam.

    Raises:
        TypeError, ValueError: if a field does not have the type or domain described above.
    """

    noise_rate: float = 0.4
    noise_type: str = "symmetric"
    methods: tuple[str, ...] = PAPER
    betas: tuple[float, ...] = BETAS
    trims: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    seeds: int = 5
    test_size: float = 0.25
    validation_size: float = 0.2
    hidden: int = 128
    epochs: int | None = None
    batch_size: int = 64
    lr: float = 1e-3

    def __post_init__(self) -> None:
        check_fraction("noise_rate", self.noise_rate)
        check_choice("noise_type", self.noise_type, tuple(NOISES))
        self._check_candidates()
        for name in ("seeds", "hidden", "batch_size"):
            check_count(name, getattr(self, name))
        if self.epochs is not None:
            check_count("epochs", self.epochs)
        for name in ("test_size", "validation_size"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(expected(name, "a float in (0, 1)", getattr(self, name)))
        if not self.lr > 0:
            raise ValueError(expected("lr", "a positive float", self.lr))

    def _check_candidates(self) -> None:
        for beta in self.betas:
            check_beta(beta)
        for method in self.methods:
            at_betas(method, self.betas)
        for trim in self.trims:
            check_trim("trims", trim)
        for name, values in (("methods", self.methods), ("betas", self.betas), ("trims", self.trims)):
            if not values or len(set(values)) < len(values):
                raise ValueError(expected(name, "one or more values, none of them twice", values))

    def runs(self) -> list[tuple[str, Method]]:
        """Return for every network of a seed the requested method and the loss that the network is trained with."""
        return [
            (name, replace(method, trim=trim))
            for name in self.methods
            for method in at_betas(name, self.betas)
            for trim in (self.trims if method.name in TRIMMED else (None,))
        ]

    def epochs_for(self, rows: int) -> int:
        """Return the number of epochs for a number of training rows: `epochs` if it is set, else at least 50.

        More than 50 epochs are used if 50 epochs have fewer than 700 steps. A step of Adam changes a weight by at most
        about the learning rate. On a small table, 50 epochs of a few steps would leave the weights near their initial
        values; 700 steps of 1e-3 can change each weight by 0.7.
        """
        return self.epochs or max(50, math.ceil(700 / math.ceil(rows / self.batch_size)))


@dataclass(frozen=True)
class _Split:
    """The features and labels of one seed's split, with noise in the training and validation labels."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def run(
    table: Table, plan: Comparison, *, device: str = "cpu", on_epoch: Callable[[int, int], None] | None = None
) -> list[dict[str, Any]]:
    """Train a network for every seed, method, beta and `trim`, all at once, and return a record of each.

    Args:
        table: the data. Splits depend on the order of its rows; sort the table with :func:`in_order` to make splits
            independent of it.
        plan: the settings. Labels of training and validation rows are corrupted; test labels are not.
        device: the device to train on.
        on_epoch: called after each epoch with the number of finished epochs and the number of all epochs.

    Returns:
        A record of each network, ready for JSON: method, beta, trim (None if the method leaves out no rows) and seed;
        the epoch with the best validation accuracy; validation and test accuracy by epoch; and, at the best epoch, the
        test accuracy, and the calibration errors ECE and SCE and the reliability curve of the minimax probabilities h
        and the worst-case probabilities p.

    Raises:
        ValueError: if there are too few rows for the splits, the logits of a network are not finite, or there is no
            such device.
    """
    check_device(device)
    splits = [_split(table, plan, seed) for seed in range(plan.seeds)]
    train, validation, test = (
        stack_groups([getattr(split, part) for split in splits], device) for part in ("train", "validation", "test")
    )
    runs, epochs = plan.runs(), plan.epochs_for(train[0].shape[1])
    transition = NOISES[plan.noise_type](len(table.classes), plan.noise_rate)
    frequencies = torch.from_numpy(table.target).bincount(minlength=len(transition))
    losses = [method.loss(PUBLISHED_FOR, transition, frequencies) for _, method in runs]
    fit = fit_ensemble(
        *train,
        stages(losses),
        TrainingSettings(
            hidden_layer_sizes=(plan.hidden,),
            epochs=epochs,
            batch_size=plan.batch_size,
            optimizer="adam",
            lr=plan.lr,
            l1=0.0,
            max_norm=None,
        ),
        num_classes=len(table.classes),
        validation=validation,
        watch={"test": test},
        generators=[derived_generator(seed, "training") for seed in range(plan.seeds)],
        on_epoch=None if on_epoch is None else lambda done: on_epoch(done, epochs),
    )
    with torch.no_grad():
        logits = fit.model(test[0])
    records = []
    for seed in range(plan.seeds):
        for member, (name, method) in enumerate(runs):
            record: dict[str, Any] = {"method": name, "beta": method.beta, "trim": method.trim, "seed": seed}
            record["best_epoch"] = int(fit.best_epoch[seed, member])
            for part, curve in fit.curves.items():
                record[f"{part}_accuracy_by_epoch"] = [round(v, 6) for v in curve[:, seed, member].tolist()]
            record["validation_accuracy"] = max(record["validation_accuracy_by_epoch"])
            if not bool(logits[seed, member].isfinite().all()):
                what = f"so small that training stays finite, which that of {name} with seed {seed} does not"
                raise ValueError(expected("lr", what, plan.lr))
            measures = evaluate(logits[seed, member], test[1][seed], method.beta, link=losses[member].link())
            records.append(record | measures)
    return records


def in_order(table: Table) -> tuple[Table, int]:
    """Return the table sorted by content and without duplicate rows, and the number of rows removed.

    So splits do not depend on the original order of the rows, and no row is in two parts of a split.
    """
    import pandas as pd

    same = copies(table.features, pd.Series(table.target, index=table.features.index))
    first = np.unique(same, return_index=True)[1]
    prints = pd.util.hash_pandas_object(table.features, index=False).to_numpy()
    rows = first[content_order(prints[first], table.target[first])]
    features = table.features.iloc[rows].reset_index(drop=True)
    return replace(table, features=features, target=table.target[rows], n_train=None), len(same) - len(rows)


def _split(table: Table, plan: Comparison, seed: int) -> _Split:
    def stratified(rows: IntArray, size: float) -> tuple[IntArray, IntArray]:
        return stratified_split(rows, table.target, size, derived_seed(seed, "split"), table.name)

    kept, test = stratified(np.arange(len(table.target)), plan.test_size)
    train, validation = stratified(kept, plan.validation_size)
    transform = preprocessor(table.features).fit(table.features.iloc[train])
    transition = NOISES[plan.noise_type](len(table.classes), plan.noise_rate)
    generator = derived_generator(seed, "noise")

    def part(rows: IntArray, clean: bool = False) -> tuple[Tensor, Tensor]:
        features = torch.as_tensor(transform.transform(table.features.iloc[rows]), dtype=torch.float32)
        target = torch.from_numpy(table.target[rows])
        return features, target if clean else noise.corrupt(target, transition, generator).labels

    return _Split(part(train), part(validation), part(test, clean=True))
