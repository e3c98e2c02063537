"""Train many small networks at once, as one batched model with one loss for each network.

The networks form a grid of groups and members. Each group has its own rows, labels, validation split, initial weights
and order of minibatches, for example those of one seed and one noise rate. The members of a group share all of these
and differ only in the loss. The weights of each network's best epoch are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mgce._messages import expected
from mgce._threads import threads_for
from mgce_lab.training.member_losses import MemberLoss, MemberLosses
from mgce_lab.training.settings import TrainingSettings

# Rows of each group that `forward` takes at once: the default batch size of training, so that its activations are as
# large as those of a step.
ROWS_AT_ONCE = 128


class Scratch:
    """Named memory buffers that are reused by the next call with the same name."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def __call__(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return an uninitialised tensor of this shape, with the dtype and device of `like`."""
        size = math.prod(shape)
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = like.new_empty(size)
        return self._buffers[name][:size].view(*shape)


class EnsembleMLP(nn.Module):
    r"""A grid of multilayer perceptrons with ReLU units: G groups with M members each.

    .. math:: f = W_L^\top \max(0, \dots \max(0, W_1^\top x + b_1) \dots) + b_L

    Args:
        groups: number of groups G; all M members of a group get the same rows.
        layers: weight (M*G, fan-in, fan-out) and bias (M*G, 1, fan-out) of each layer; member m of group g has the
            index `m * G + g`.
    """

    def __init__(self, groups: int, layers: Iterable[tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.groups = groups
        weights, biases = zip(*layers, strict=True)
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList(biases)

    @classmethod
    def initial(
        cls, members: int, sizes: Sequence[int], generators: Sequence[torch.Generator], like: Tensor | None = None
    ) -> EnsembleMLP:
        """Construct an ensemble with random weights, which are the same for all members of a group.

        The weights are uniform in ±1/sqrt(fan-in), as in `nn.Linear`.

        Args:
            members: number of members M.
            sizes: number of units of each layer: features d, hidden units, classes k.
            generators: random generator on the CPU for the weights of each group.
            like: a tensor with the dtype and device that the weights should have.
        """

        def uniform(fan_in: int, rows: int, columns: int) -> Tensor:
            drawn = torch.stack([torch.rand(rows, columns, generator=generator) for generator in generators])
            one = (2 * drawn - 1) / math.sqrt(fan_in)
            return (one if like is None else one.to(like)).repeat(members, 1, 1)

        return cls(len(generators), [(uniform(d, d, width), uniform(d, 1, width)) for d, width in pairwise(sizes)])

    @classmethod
    def joined(cls, models: Sequence[EnsembleMLP]) -> EnsembleMLP:
        """Combine ensembles with the same groups into one ensemble, which has the members of all of them."""
        weights = [torch.cat(layer) for layer in zip(*(model.weights for model in models), strict=True)]
        biases = [torch.cat(layer) for layer in zip(*(model.biases for model in models), strict=True)]
        return cls(models[0].groups, zip(weights, biases, strict=True))

    def forward(self, features: Tensor) -> Tensor:
        """Map features (groups G, rows n, d) to logits (G, networks M, n, k), without a graph for autograd."""
        scratch = Scratch()
        parts = [self.layers(rows, scratch)[-1].clone() for rows in torch.split(features, ROWS_AT_ONCE, dim=1)]
        return self.grid(torch.cat(parts, dim=1))

    def grid(self, values: Tensor) -> Tensor:
        """Return a view of the values of M networks in each of G groups, (M*G, ...), as (G, M, ...)."""
        return torch.unflatten(values, 0, (-1, self.groups)).transpose(0, 1)

    @torch.no_grad()
    def layers(self, features: Tensor, scratch: Scratch) -> list[Tensor]:
        """Return the outputs of every layer, (M*G, n, width), for features (G, n, d); the last item is the logits."""
        outputs = [features.repeat(len(self.weights[0]) // self.groups, 1, 1)]
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if depth > 0:
                outputs[-1].relu_()
            shape = (*outputs[-1].shape[:2], weight.shape[2])
            outputs.append(torch.bmm(outputs[-1], weight, out=scratch(f"output {depth}", shape, weight)).add_(bias))
        return outputs

    @torch.no_grad()
    def backward(self, outputs: list[Tensor], grad: Tensor, scratch: Scratch) -> None:
        """Compute the `.grad` of every parameter from the gradient of the logits; `outputs` are overwritten."""
        for depth in reversed(range(len(self.weights))):
            weight, bias = self.weights[depth], self.biases[depth]
            torch.bmm(outputs[depth].mT, grad, out=weight.grad)
            torch.sum(grad, 1, keepdim=True, out=bias.grad)
            if depth > 0:
                grad = torch.bmm(grad, weight.mT, out=scratch(f"gradient {depth}", outputs[depth].shape, weight))
                grad.mul_(outputs[depth].sign_())  # the derivative of max(0, .): 1 where a unit was active, else 0


class Training:
    """Train the networks of an ensemble, all at once, epoch by epoch.

    Args:
        model: the networks.
        features: d features of the n rows of each of G groups, (G, n, d).
        target: class index of each row, (G, n).
        weight: weight of each row, (G, n).
        losses: maps the first epoch (from 0) of each set of losses to the losses of the M members of a group.
        settings: how to train.
    """

    def __init__(
        self,
        model: EnsembleMLP,
        features: Tensor,
        target: Tensor,
        weight: Tensor,
        losses: Mapping[int, MemberLosses],
        settings: TrainingSettings,
    ) -> None:
        self.model, self.stages, self.losses, self.settings = model, losses, losses[0], settings
        self.data = features, target, weight
        self._scratch = Scratch()
        parameters = list(model.parameters())
        self._grads = [torch.zeros_like(parameter) for parameter in parameters]
        for parameter, grad in zip(parameters, self._grads, strict=True):
            parameter.grad = grad
        self._penalised = [
            (parameter, grad)
            for parameter, grad in zip(parameters, self._grads, strict=True)
            if settings.l1 > 0 and (settings.l1_on == "all" or parameter is model.weights[-1])
        ]
        self._optimizer: torch.optim.Optimizer
        if settings.optimizer == "sgd":
            self._optimizer = torch.optim.SGD(parameters, settings.lr, settings.momentum, fused=True)
        else:
            self._optimizer = torch.optim.Adam(parameters, settings.lr, fused=True)
        self._schedule = torch.optim.lr_scheduler.MultiStepLR(self._optimizer, settings.milestones, settings.gamma)

    @torch.no_grad()
    def epoch(self, number: int, order: Tensor) -> Tensor:
        """Train for one epoch with the rows of each group in the order (G, n); return the objective of each network."""
        self.losses = self.stages.get(number, self.losses)
        features, n = self.data[0], order.shape[1]
        total = features.new_zeros(len(self.model.weights[0]))
        for rows in torch.split(order, self.settings.batch_size, dim=1):
            total += self._step(rows) * (rows.shape[1] / n)
        self._schedule.step()
        for parameter, _ in self._penalised:
            total += self.settings.l1 * torch.linalg.vector_norm(parameter, 1, dim=(1, 2))
        return self.model.grid(total)

    @torch.no_grad()
    def loss(self, features: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss of each network on validation rows: M networks in each of G groups, shape (G, M)."""
        logits = self.model(features).transpose(0, 1).flatten(0, 1)
        weight = torch.full_like(target, 1 / target.shape[1], dtype=features.dtype)
        return self.model.grid(self.losses(logits, target, weight, training=False)[0])

    def _step(self, rows: Tensor) -> Tensor:
        """Make one training step with a batch of rows of each group; return the mean loss of every network, (M*G)."""
        group = torch.arange(len(rows), device=rows.device).unsqueeze(1)
        features, target, weight = (part[group, rows] for part in self.data)
        outputs = self.model.layers(features, self._scratch)
        loss, grad = self.losses(outputs[-1], target, weight / rows.shape[1])
        self.model.backward(outputs, grad, self._scratch)
        for parameter, parameter_grad in self._penalised:
            sign = torch.sign(parameter, out=self._scratch("sign", parameter.shape, parameter))
            parameter_grad.add_(sign, alpha=self.settings.l1)
        if self.settings.max_norm is not None:
            self._clip(self.settings.max_norm)
        self._optimizer.step()
        return loss

    def _clip(self, max_norm: float) -> None:
        """Scale down each network's gradient to the norm `max_norm` if it is larger, like `clip_grad_norm_`."""
        norms = torch.stack([torch.linalg.vector_norm(grad.flatten(1), dim=1) for grad in self._grads])
        factor = (max_norm / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1)  # 1e-6 as in clip_grad_norm_
        for grad in self._grads:
            grad.mul_(factor.view(-1, 1, 1))


class Best:
    """Store each network's weights of the epoch with the best validation accuracy.

    Attributes:
        epoch: the best epoch so far of M networks in each of G groups, (G, M).
        stopped: whether the best epoch is final, (G, M): `n_iter_no_change` epochs have passed since without
            improvement.
    """

    def __init__(self, model: EnsembleMLP, n_iter_no_change: int | None) -> None:
        self._model, self._patience = model, n_iter_no_change
        self._weights = [parameter.detach().clone() for parameter in model.parameters()]
        self._score = model.grid(self._weights[0].new_full((len(self._weights[0]),), -1))  # below any accuracy
        self._loss = torch.full_like(self._score, torch.inf)
        self.epoch = torch.zeros_like(self._score, dtype=torch.int64)
        self.stopped = torch.zeros_like(self._score, dtype=torch.bool)

    @torch.no_grad()
    def update(self, epoch: int, score: Tensor, loss: Tensor | None) -> None:
        """Store the weights of every network whose score is better than in all earlier epochs.

        At equal scores the smaller loss is better; if no loss is given, an equal score is not better. Score and loss
        have the shape (groups G, networks M).
        """
        if loss is None:
            loss = self._loss
        better = ((score > self._score) | (score == self._score) & (loss < self._loss)) & ~self.stopped
        self._loss = torch.where(better, loss, self._loss)
        self._score = torch.where(better, score, self._score)
        self.epoch = torch.where(better, epoch, self.epoch)
        chosen = better.T.reshape(-1, 1, 1)
        for kept, parameter in zip(self._weights, self._model.parameters(), strict=True):
            torch.where(chosen, parameter, kept, out=kept)
        if self._patience is not None:
            self.stopped = epoch - self.epoch >= self._patience

    @torch.no_grad()
    def restore(self) -> None:
        """Set the weights of each network to those of its best epoch."""
        for kept, parameter in zip(self._weights, self._model.parameters(), strict=True):
            parameter.copy_(kept)


# On an accelerator all networks are trained together; on the CPU as many as have activations of 32 MiB at most in a
# step. That is about what the last-level cache holds, and beyond it memory is what a step waits for.
CACHE_BYTES = 32 << 20


@dataclass(frozen=True)
class EnsembleFit:
    """The result of training G groups of M networks: each network at its best epoch, and the learning curves.

    Attributes:
        model: the networks, with the weights of the epoch with the best validation accuracy; without a validation
            split, with the weights of the last epoch.
        best_epoch: number of the selected epoch for each network, (G, M), counted from 0.
        curves: accuracy after each epoch, (epochs, G, M), for `"validation"` and each name in `watch`; NaN after the
            training of a network has ended.
        objective: training objective of each epoch, (epochs, G, M); NaN after training has ended. It is the mean loss
            of the rows, each computed before the step that uses the row, plus the penalty of the weights after the
            epoch.
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

    Every network gets the same weights as if it were trained alone.

    Args:
        features: d features of the n rows of each of G groups, (G, n, d), float32 or float64, on the device to train
            on. Groups with the same rows can share memory by `expand`.
        target: class index of each row, (G, n).
        losses: the losses of the M members of every group. To change losses during training, pass a dict that maps the
            first epoch (from 0) of each list of losses to the list.
        settings: how to train.
        num_classes: number of classes k.
        validation: features (G, n_v, d) and class indices (G, n_v) of n_v further rows whose accuracy selects the best
            epoch. None selects the last epoch.
        watch: further named sets of the form of `validation`, whose accuracy is recorded after each epoch. Training
            does not depend on these sets.
        sample_weight: weight of each row in the loss, (G, n); None means ones.
        generators: one random generator on the CPU for each group, for its initial weights and the order of its rows.
        on_epoch: called during training with the number of finished epochs.

    Raises:
        ValueError: if `n_iter_no_change` is set without a validation split, or the number of generators is not that of
            the groups.
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
                """Report the finished epochs of the parts of an ensemble, trained in turn, as those of one training."""
                if on_epoch is not None:
                    on_epoch((before + done) // len(parts))

            fits.append(_fit(training, sets, generators, report))
    return _joined(fits)


def stack_groups(groups: Sequence[tuple[Tensor, Tensor]], device: str) -> tuple[Tensor, Tensor]:
    """Stack the features (n, d_g) and class indices (n,) of G groups of n rows into tensors (G, n, d) and (G, n).

    Groups may have different numbers of columns, since a category may occur in the training rows of one seed only.
    Narrower features are padded with columns of zeros.
    """
    width = max(features.shape[1] for features, _ in groups)
    features = torch.stack([F.pad(x, (0, width - x.shape[1])) for x, _ in groups])
    return features.to(device), torch.stack([target for _, target in groups]).to(device)


def accuracy(model: EnsembleMLP, features: Tensor, target: Tensor) -> Tensor:
    """Return the accuracy of M networks in each of G groups, (G, M): the fraction of rows predicted correctly."""
    predicted: Tensor = model(features).argmax(-1)
    return (predicted == target.unsqueeze(1)).float().mean(-1)


def _members_together(features: Tensor, outputs: int, members: int) -> int:
    """Return how many members to train together, such that their activations fit into the CPU's cache.

    `outputs` is the number of activations of a member in one step and one group. On other devices all members are
    trained together.
    """
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
