"""Train an ensemble step by step, and store the weights of each network's best epoch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mgce.training.member_losses import MemberLosses
from mgce.training.network import EnsembleMLP, Scratch
from mgce.training.settings import TrainingSettings


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
