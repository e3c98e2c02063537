"""Compare the losses on one table under label noise: what to train, and training it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgce import noise
from mgce._row_order import content_order
from mgce._validation import check_beta, check_choice, check_count, check_device, check_fraction, expected
from mgce.datasets import Table, preprocessor
from mgce.datasets.splits import Rows, stratified_split
from mgce.estimators.linear_cv import BETAS
from mgce.experiments.methods import PAPER, TRIMMED, Method, at_betas, stages
from mgce.losses.trimmed import check_trim
from mgce.metrics.evaluation import evaluate
from mgce.tables.copies import copies
from mgce.training.ensemble import fit_ensemble, stack_groups
from mgce.training.seeds import derived_generator, derived_seed
from mgce.training.settings import TrainingSettings

NOISES = {"symmetric": noise.symmetric, "pair": noise.pair_flip}

# The losses have the hyperparameters published for CIFAR-10, and are told the kind of noise by no more than its matrix.
PUBLISHED_FOR = ("cifar10", None, None)


@dataclass(frozen=True)
class Comparison:
    """What to train: everything that the records depend on, beside the table.

    Attributes:
        noise_rate: share of the labels of training and validation rows that are made wrong.
        noise_type: a key of `NOISES`.
        methods: names of losses, or NAME@BETA for a loss at a fixed beta.
        betas: candidates for the beta of mgce and gce.
        trims: candidates for the share of the rows of each label that mgce+trim and ce+trim leave out.
        seeds: how many; each has its own split, noise and initial weights.
        test_size: share of all rows that are for the test.
        validation_size: share of the other rows that choose the epoch and beta.
        hidden: units of the hidden layer.
        epochs: passes over the training rows; None leaves them to `epochs_for`.
        batch_size, lr: of Adam.

    Raises:
        TypeError, ValueError: if a field is not one of those above.
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
        """List what every network of a seed is trained by: the method that was asked for, and its loss."""
        return [
            (name, replace(method, trim=trim))
            for name in self.methods
            for method in at_betas(name, self.betas)
            for trim in (self.trims if method.name in TRIMMED else (None,))
        ]

    def epochs_for(self, rows: int) -> int:
        """Return the epochs for this many training rows: as asked, or 50, or more if 50 are fewer than 700 steps.

        A step of Adam moves a weight by about the learning rate at most. On a small table, 50 epochs of a few steps
        each would leave the weights near their initial values; 700 steps of 1e-3 can move each by 0.7.
        """
        return self.epochs or max(50, math.ceil(700 / math.ceil(rows / self.batch_size)))


@dataclass(frozen=True)
class _Split:
    """Features and target of one seed's rows, with noise in the labels of training and validation."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def run(
    table: Table, plan: Comparison, *, device: str = "cpu", on_epoch: Callable[[int, int], None] | None = None
) -> list[dict[str, Any]]:
    """Train a network for every seed, method, beta and share to trim, all at once, and give a record of each.

    Args:
        table: the data. Splits depend on the order of its rows: see :func:`in_order`.
        plan: what to train. Labels of training and validation rows are made wrong; test labels are as they came.
        device: where to train.
        on_epoch: called after each epoch with the number of epochs done, and of all.

    Returns:
        A record of each network, ready for JSON: method, beta, trim (None if the method leaves out no rows), seed, the
        epoch of best validation accuracy, the validation and the test accuracy by epoch, and at the best epoch the test
        accuracy and, for the minimax probabilities h and the worst-case probabilities p, ECE, SCE and the reliability
        curve.

    Raises:
        ValueError: if the rows do not suffice for the splits, the outputs of a network are not finite, or there is no
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
    """Return the table without copies of rows and sorted by content, and the number of rows left out.

    Splits of the result do not depend on the order of the rows, and no row is in two parts of a split.
    """
    import pandas as pd

    same = copies(table.features, pd.Series(table.target, index=table.features.index))
    first = np.unique(same, return_index=True)[1]
    prints = pd.util.hash_pandas_object(table.features, index=False).to_numpy()
    rows = first[content_order(prints[first], table.target[first])]
    features = table.features.iloc[rows].reset_index(drop=True)
    return replace(table, features=features, target=table.target[rows], n_train=None), len(same) - len(rows)


def _split(table: Table, plan: Comparison, seed: int) -> _Split:
    def stratified(rows: Rows, size: float) -> tuple[Rows, Rows]:
        return stratified_split(rows, table.target, size, derived_seed(seed, "split"), table.name)

    kept, test = stratified(np.arange(len(table.target)), plan.test_size)
    train, validation = stratified(kept, plan.validation_size)
    transform = preprocessor(table.features).fit(table.features.iloc[train])
    transition = NOISES[plan.noise_type](len(table.classes), plan.noise_rate)
    generator = derived_generator(seed, "noise")

    def part(rows: Rows, clean: bool = False) -> tuple[Tensor, Tensor]:
        features = torch.as_tensor(transform.transform(table.features.iloc[rows]), dtype=torch.float32)
        target = torch.from_numpy(table.target[rows])
        return features, target if clean else noise.corrupt(target, transition, generator).labels

    return _Split(part(train), part(validation), part(test, clean=True))
