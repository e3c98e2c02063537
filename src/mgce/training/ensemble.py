"""Many small networks trained at once: one batched model, one loss setting for each member.

Members stand in a grid (groups, members): a group has data, a validation split, an initialisation
and an order of minibatches of its own (a seed, say); the members of a group share all of them
and differ in the loss alone. Every weight has those two dimensions first, so that a step is a few
batched matrix products, whatever the number of members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mgce._validation import check_beta, check_choice
from mgce.losses.functional import gce_loss, mgce_loss

FAMILIES = ("mgce", "gce")


@dataclass(frozen=True)
class MemberLoss:
    """The loss of one member: its family, `"mgce"` or `"gce"`, and beta in [1, inf]."""

    family: str
    beta: float

    def __post_init__(self) -> None:
        check_choice("family", self.family, FAMILIES)
        check_beta(self.beta)


class EnsembleMLP(nn.Module):
    """A grid of networks with one hidden layer of rectified units.

    Args:
        groups: number of groups G.
        members: number of members M in each group, which start from the same weights.
        in_features: number of features d.
        hidden: number of hidden units H.
        out_features: number of classes k.
        generator: source of the initial weights, uniform in ±1/sqrt(fan-in) as in `nn.Linear`.
    """

    def __init__(
        self, groups: int, members: int, in_features: int, hidden: int, out_features: int, generator: torch.Generator
    ) -> None:
        super().__init__()

        def initial(fan_in: int, *shape: int) -> nn.Parameter:
            one = (2 * torch.rand(groups, 1, *shape, generator=generator) - 1) / fan_in**0.5
            return nn.Parameter(one.repeat(1, members, 1, 1))

        self.weight1 = initial(in_features, in_features, hidden)
        self.bias1 = initial(in_features, 1, hidden)
        self.weight2 = initial(hidden, hidden, out_features)
        self.bias2 = initial(hidden, 1, out_features)

    def forward(self, features: Tensor) -> Tensor:
        """Map features (G, n, d) to logits (G, M, n, k)."""
        groups, members, in_features, hidden = self.weight1.shape
        # One wide product for the members of a group, since they see the same rows.
        wide = self.weight1.permute(0, 2, 1, 3).reshape(groups, in_features, members * hidden)
        first = torch.bmm(features, wide).view(groups, -1, members, hidden).transpose(1, 2)
        logits: Tensor = torch.relu(first + self.bias1) @ self.weight2 + self.bias2
        return logits


@dataclass(frozen=True)
class EnsembleFit:
    """What training gives: each member at its epoch of best validation accuracy, and the curves.

    Attributes:
        model: the networks, with the weights of their best epochs.
        best_epoch: (G, M), from 0.
        curves: accuracy after each epoch by name, `"validation"` and those of `watch`, (epochs, G, M).
    """

    model: EnsembleMLP
    best_epoch: Tensor
    curves: dict[str, Tensor]


def fit_ensemble(
    features: Tensor,
    target: Tensor,
    losses: Sequence[MemberLoss],
    *,
    n_classes: int,
    validation: tuple[Tensor, Tensor],
    watch: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    hidden: int = 128,
    epochs: int = 50,
    batch_size: int = 64,
    lr: float = 1e-3,
    generator: torch.Generator,
    on_epoch: Callable[[int], None] | None = None,
) -> EnsembleFit:
    """Train one network for each group of data and each loss, all at once, by Adam.

    Args:
        features: (G, n, d), on the device to train on.
        target: class indices (G, n).
        losses: the loss of each of the M members of every group.
        n_classes: number of classes k.
        validation: features (G, n_v, d) and class indices (G, n_v) that choose the epoch.
        watch: further sets of the same form whose accuracy is recorded, and nothing else.
        hidden: hidden units of each network.
        epochs: passes over the rows.
        batch_size: rows of a group in a step; the last, smaller batch of an epoch is used too.
        lr: learning rate of Adam.
        generator: source of the initial weights and of the order of the rows, on the CPU.
        on_epoch: called with the number of epochs done, after each.
    """
    groups, n, in_features = features.shape
    model = EnsembleMLP(groups, len(losses), in_features, hidden, n_classes, generator).to(features.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    sets = {"validation": validation, **(watch or {})}
    curves: dict[str, list[Tensor]] = {name: [] for name in sets}
    best = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    best_accuracy = torch.full((groups, len(losses)), -1.0, device=features.device)
    best_epoch = torch.zeros_like(best_accuracy, dtype=torch.int64)
    for epoch in range(epochs):
        order = torch.stack([torch.randperm(n, generator=generator) for _ in range(groups)]).to(features.device)
        for rows in torch.split(order, batch_size, dim=1):
            batch = features.gather(1, rows.unsqueeze(-1).expand(-1, -1, in_features))
            optimizer.zero_grad()
            total = _total_loss(model(batch), target.gather(1, rows), losses)
            total.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        for name, (x, y) in sets.items():
            curves[name].append(accuracy(model, x, y))
        better = curves["validation"][-1] > best_accuracy
        best_accuracy = torch.where(better, curves["validation"][-1], best_accuracy)
        best_epoch = torch.where(better, epoch, best_epoch)
        for name, weight in model.named_parameters():
            best[name] = torch.where(better[..., None, None], weight.detach(), best[name])
        if on_epoch is not None:
            on_epoch(epoch + 1)
    model.load_state_dict(best)
    return EnsembleFit(model, best_epoch, {name: torch.stack(rows) for name, rows in curves.items()})


@torch.no_grad()
def accuracy(model: EnsembleMLP, features: Tensor, target: Tensor) -> Tensor:
    """Give the share of rows (G, n) whose largest logit is their class, for each member, (G, M)."""
    predicted: Tensor = model(features).argmax(-1)
    return (predicted == target.unsqueeze(1)).float().mean(-1)


def _total_loss(logits: Tensor, target: Tensor, losses: Sequence[MemberLoss]) -> Tensor:
    """Sum over the members of the mean loss of each: members do not share weights, so nor gradients."""
    groups, _, n, k = logits.shape
    total = logits.new_zeros(())
    for family, loss in (("mgce", mgce_loss), ("gce", gce_loss)):
        chosen = [m for m, member in enumerate(losses) if member.family == family]
        if chosen:
            beta = torch.tensor([losses[m].beta for m in chosen], device=logits.device)
            rows = (groups, len(chosen), n)
            betas = beta.view(1, -1, 1).expand(rows).reshape(-1)
            labels = target.unsqueeze(1).expand(rows).reshape(-1)
            total = total + loss(logits[:, chosen].reshape(-1, k), labels, reduction="sum", beta=betas) / n
    return total
