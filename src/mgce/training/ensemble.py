"""Many small networks trained at once: one batched model, one loss for each member.

Members stand in a grid (groups, members): a group has rows, labels, a validation split, an initialisation and an
order of minibatches of its own (those of a seed and a noise rate, say); the members of a group share all of them and
differ in the loss alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from mgce._threads import threads_for
from mgce._validation import expected
from mgce.training.member_losses import MemberLoss, MemberLosses
from mgce.training.network import EnsembleMLP
from mgce.training.settings import TrainingSettings
from mgce.training.steps import Best, Training

# On an accelerator all networks are trained together; on the CPU as many as have activations of 32 MiB at most in a
# step. That is about what the last-level cache holds, and beyond it memory is what a step waits for.
CACHE_BYTES = 32 << 20


@dataclass(frozen=True)
class EnsembleFit:
    """What training gives: each network at its best epoch, and the curves.

    Attributes:
        model: the networks, with the weights of their epochs of best validation accuracy; without a
            validation split, of the last.
        best_epoch: (G, M), from 0.
        curves: accuracy after each epoch, (epochs, G, M), for `"validation"` and each name in `watch`; NaN where
            training had ended.
        objective: mean loss over the rows of each epoch, each row's at the weights before its own step, plus the
            penalty of the weights after the epoch, (epochs, G, M); NaN where training had ended.
    """

    model: EnsembleMLP
    best_epoch: Tensor
    curves: dict[str, Tensor]
    objective: Tensor


def fit_ensemble(
    features: Tensor,
    target: Tensor,
    losses: Sequence[MemberLoss] | Mapping[int, Sequence[MemberLoss]],
    settings: TrainingSettings,
    *,
    num_classes: int,
    validation: tuple[Tensor, Tensor] | None = None,
    watch: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    sample_weight: Tensor | None = None,
    generators: Sequence[torch.Generator],
    on_epoch: Callable[[int], None] | None = None,
) -> EnsembleFit:
    """Train one network for each group of data and each loss, all at once.

    Every network comes out as if it were trained alone, from the same initial weights and with the same order of rows.

    Args:
        features: (G, n, d), float32 or float64, on the device to train on; groups that have the same rows can share
            their memory, by `expand`.
        target: class indices (G, n).
        losses: the loss of each of the M members of every group, or these from an epoch on by that epoch, from 0.
        settings: how to train.
        num_classes: number of classes k.
        validation: features (G, n_v, d) and class indices (G, n_v) that choose the epoch; without them it is the last.
        watch: further sets of the same form, by name; their accuracy is recorded after each epoch, and nothing depends
            on it.
        sample_weight: weight of each row in the loss (G, n); ones if not given.
        generators: source of the initial weights and of the order of the rows of each group, on the CPU; a group does
            not depend on the others.
        on_epoch: called as training goes on, with the number of epochs done.

    Raises:
        ValueError: if `n_iter_no_change` is set and there is no validation split, or there are more or fewer generators
            than groups.
    """
    if settings.n_iter_no_change is not None and validation is None:
        raise ValueError(expected("validation", "given where `n_iter_no_change` is", None))
    if len(generators) != len(features):
        raise ValueError(expected("generators", f"one for each of {len(features)} groups", len(generators)))
    sizes = (features.shape[2], *settings.hidden_layer_sizes, num_classes)
    weight = torch.ones_like(target, dtype=features.dtype) if sample_weight is None else sample_weight
    sets = {**({} if validation is None else {"validation": validation}), **(watch or {})}
    stages = losses if isinstance(losses, Mapping) else {0: losses}
    members = len(stages[0])
    together = _members_together(features, settings.batch_size * sum(sizes), members)
    parts = [slice(start, start + together) for start in range(0, members, together)]
    states = [generator.get_state() for generator in generators]
    fits: list[EnsembleFit] = []
    products = sum(before * after for before, after in pairwise(sizes))  # of a row
    work = 3 * len(features) * together * settings.batch_size * products  # forward, and twice backward
    with threads_for(work if features.device.type == "cpu" else math.inf):
        for number, part in enumerate(parts):
            # Rewound, so that every part has the same initial weights and the same order of rows.
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)
            own: dict[int, MemberLosses] = {}
            for epoch in sorted(stages):
                own[epoch] = MemberLosses(stages[epoch][part], features.device, list(own.values()))
            model = EnsembleMLP.initial(len(stages[0][part]), sizes, generators, features)
            training = Training(model, features, target, weight, own, settings)

            def report(done: int, before: int = number * settings.epochs) -> None:
                """Count the epochs of all parts as those of one training."""
                if on_epoch is not None:
                    on_epoch((before + done) // len(parts))

            fits.append(_fit(training, sets, generators, report))
    return _joined(fits)


def stack_groups(groups: Sequence[tuple[Tensor, Tensor]], device: str) -> tuple[Tensor, Tensor]:
    """Put the rows of each group, features (n, d_g) and class indices (n,), into features (G, n, d) and target (G, n).

    Groups may differ in the number of columns, since a category or a missing value may be in the training rows of one
    seed alone: the columns that a group lacks are zeros.
    """
    width = max(features.shape[1] for features, _ in groups)
    features = torch.stack([F.pad(x, (0, width - x.shape[1])) for x, _ in groups])
    return features.to(device), torch.stack([target for _, target in groups]).to(device)


def accuracy(model: EnsembleMLP, features: Tensor, target: Tensor) -> Tensor:
    """Return the share of rows (G, n) whose largest logit is their class, for each network, (G, M)."""
    predicted: Tensor = model(features).argmax(-1)
    return (predicted == target.unsqueeze(1)).float().mean(-1)


def _members_together(features: Tensor, outputs: int, members: int) -> int:
    """Return how many members to train together, each of which has `outputs` activations in a step, in every group."""
    if features.device.type != "cpu":
        return members
    of_a_member = 2 * features.shape[0] * outputs * features.itemsize  # each output has a gradient
    return min(members, max(1, CACHE_BYTES // of_a_member))


def _fit(
    training: Training,
    sets: Mapping[str, tuple[Tensor, Tensor]],
    generators: Sequence[torch.Generator],
    report: Callable[[int], None],
) -> EnsembleFit:
    model, settings, (features, target, _) = training.model, training.settings, training.data
    curves: dict[str, list[Tensor]] = {name: [] for name in sets}
    objective: list[Tensor] = []
    best = Best(model, settings.n_iter_no_change)
    for epoch in range(settings.epochs):
        order = torch.stack([torch.randperm(target.shape[1], generator=generator) for generator in generators])
        objective.append(training.epoch(epoch, order.to(features.device)))
        for name, (x, y) in sets.items():
            curves[name].append(accuracy(model, x, y))
        if "validation" in sets:
            loss = training.loss(*sets["validation"]) if settings.ties == "loss" else None
            best.update(epoch, curves["validation"][-1], loss)
        report(epoch + 1)
        if settings.n_iter_no_change is not None and bool(best.stopped.all()):
            break
    if "validation" in sets:
        best.restore()
    else:
        best.epoch.fill_(settings.epochs - 1)
    return EnsembleFit(model, best.epoch, {name: torch.stack(c) for name, c in curves.items()}, torch.stack(objective))


def _joined(fits: Sequence[EnsembleFit]) -> EnsembleFit:
    epochs = max(len(fit.objective) for fit in fits)

    def join(curves: Sequence[Tensor]) -> Tensor:
        longest = [curve.new_full((epochs, *curve.shape[1:]), torch.nan) for curve in curves]
        for padded, curve in zip(longest, curves, strict=True):
            padded[: len(curve)] = curve
        return torch.cat(longest, dim=2)

    return EnsembleFit(
        EnsembleMLP.joined([fit.model for fit in fits]),
        torch.cat([fit.best_epoch for fit in fits], dim=1),
        {name: join([fit.curves[name] for fit in fits]) for name in fits[0].curves},
        join([fit.objective for fit in fits]),
    )
