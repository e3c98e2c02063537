"""Define losses that use what a network learns before it memorises: ELR and soft bootstrapping."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mgce._messages import check_count, check_fraction, check_number
from mgce.losses.indexed import IndexedLoss, against_probs, from_all_processes, probabilities
from mgce.losses.modules import CE
from mgce.losses.records import NamedLoss, Presets

LEAST = 1e-4  # probabilities are kept this far from 0 and 1, as published; the logarithm is then finite


class ELRLoss(IndexedLoss):
    r"""Add early-learning regularization to a loss (ELR).

    .. math:: \ell(f_i, y_i) + \lambda \log\big(1 - \langle t_i, \operatorname{softmax}(f_i) \rangle\big), \qquad
        t_i \leftarrow \mu t_i + (1 - \mu) \operatorname{softmax}(f_i)

    :math:`t_i` is a running average of the network's own predictions for row i, without gradient. The second term
    rewards agreement with this average. Networks predict many right labels before they memorise wrong ones, and the
    average remembers these predictions.

    Args:
        num_rows: number of training rows n.
        num_classes: number of classes k. The buffer `targets` has n k numbers of float32.
        loss: a module that takes logits and targets, with `reduction="none"`; cross-entropy if None.
        strength: :math:`\lambda`, at least 0. Published: 3 for CIFAR-10, 7 for CIFAR-100.
        momentum: :math:`\mu` in [0, 1]. Published: 0.7 for CIFAR-10, 0.9 for CIFAR-100.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Attributes:
        targets: :math:`t_i`, a buffer (n, k) of float32, in a network of any dtype.
        left_out: number of rows that did not change `targets`, since one of their logits is NaN or +inf; a buffer ().

    Shape:
        `criterion(logits, target, index)` with logits (n, k), class indices (n,) or class probabilities (n, k), and
        indices (n,): see :class:`mgce.IndexedDataset`. In `eval` mode the loss is the inner loss, and needs no
        indices.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.

    Example:
        >>> criterion = ELRLoss(num_rows=4, num_classes=2)
        >>> logits, target = torch.tensor([[2.0, 0.0]]), torch.tensor([1])
        >>> criterion(logits, target, torch.tensor([3]))
        tensor(1.3154)
        >>> criterion.targets[3]
        tensor([0.2642, 0.0358])

    Reference: Liu, Niles-Weed, Razavian and Fernandez-Granda, Early-learning regularization prevents memorization of
    noisy labels, 2020.
    """

    targets: Tensor

    def __init__(
        self,
        num_rows: int,
        num_classes: int,
        loss: nn.Module | None = None,
        *,
        strength: float = 3.0,
        momentum: float = 0.7,
        reduction: str = "mean",
    ) -> None:
        super().__init__(loss, num_rows, num_classes, reduction)
        check_number("strength", strength, 0)
        check_fraction("momentum", momentum)
        self.strength, self.momentum = float(strength), float(momentum)
        self.register_buffer("targets", torch.zeros(self.num_rows, self.num_classes, dtype=torch.float32))

    def _trained(self, input: Tensor, target: Tensor, index: Tensor, rows: Tensor) -> tuple[Tensor, None]:
        probs = input.float().softmax(1).clamp(LEAST, 1 - LEAST)
        own = probs.detach() / probs.detach().sum(1, keepdim=True)
        seen, new = self._learnt(*from_all_processes(index[rows], own[rows]))
        moved = self.momentum * self.targets[seen] + (1 - self.momentum) * new
        self.targets[seen] = moved.to(self.targets.dtype)
        agreement = (self.targets[index] * probs).sum(1)
        losses: Tensor = self.loss(input, target)
        return losses + (self.strength * torch.log1p(-agreement)).to(losses.dtype), None

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"{super().extra_repr()}, strength={self.strength:g}, momentum={self.momentum:g}"


ELR = NamedLoss(
    "elr",
    ELRLoss,
    r"CE $+ \lambda \log(1 - \langle t, p \rangle)$, t the average of p over epochs, `strength` = $\lambda$",
    of=(CE,),
    source="Liu et al. 2020",
    presets=Presets({"cifar10": {"strength": 3.0, "momentum": 0.7}, "cifar100": {"strength": 7.0, "momentum": 0.9}}),
    recommended=True,
    of_one_network=True,
)


class SoftBootstrapLoss(IndexedLoss):
    r"""Mix each label with the network's prediction, by how probable it is that the label is right.

    .. math:: \ell\big(f_i,\; w_i\, y_i + (1 - w_i) \operatorname{softmax}(f_i)\big)

    At the end of each epoch a mixture of two Gaussians is fitted to the losses of all rows. :math:`w_i` is the
    probability that row i belongs to the component of smaller losses. Wrong labels have larger losses until a network
    memorises them. No gradient passes through the prediction in the target.

    A row's loss is stored when the row is trained on. An epoch ends when the module has seen `num_rows` further rows.

    Args:
        num_rows: number of training rows n.
        num_classes: number of classes k.
        loss: a module that takes logits and targets of both forms, with `reduction="none"`; cross-entropy if None.
        start: epochs on the labels as given, at least 1. It has to be before the network memorises.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Attributes:
        right: the probabilities :math:`w_i`, a buffer (n,); 1 before `start` epochs are over.
        losses: the last loss of each row, a buffer (n,) of float32; NaN for a row that was not seen.
        left_out: number of rows whose loss was NaN, and was not stored; a buffer ().

    Shape:
        As for :class:`mgce.ELRLoss`.

    Raises:
        TypeError, ValueError: if an argument is not one of those above.

    Example:
        >>> criterion = SoftBootstrapLoss(num_rows=4, num_classes=2, start=1)
        >>> logits, target = torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])
        >>> for epoch in range(2):
        ...     print(criterion(logits, target, torch.arange(4)))
        tensor(0.6269)
        tensor(0.1865)
        >>> criterion.right
        tensor([1., 1., 1., 0.])

    References: Arazo, Ortego, Albert, O'Connor and McGuinness, Unsupervised label noise modeling and loss correction,
    2019, with a mixture of Beta distributions; Li, Socher and Hoi, DivideMix, 2020, for the mixture of Gaussians.
    """

    losses: Tensor
    right: Tensor

    def __init__(
        self, num_rows: int, num_classes: int, loss: nn.Module | None = None, *, start: int = 5, reduction: str = "mean"
    ) -> None:
        super().__init__(loss, num_rows, num_classes, reduction)
        check_count("start", start)
        self.start = int(start)
        # Rows so far, of all epochs: on the CPU, so that no step waits for a device, and a tensor, since a number would
        # be compiled anew at each step.
        self._seen = torch.zeros((), dtype=torch.int64, device="cpu")
        self.register_buffer("losses", torch.full((self.num_rows,), torch.nan, dtype=torch.float32))
        self.register_buffer("right", torch.ones(self.num_rows, dtype=torch.float32))

    def _trained(self, input: Tensor, target: Tensor, index: Tensor, rows: Tensor) -> tuple[Tensor, None]:
        losses: Tensor = self.loss(input, target)
        # Rows without a label count as seen, or epochs would be longer than those of the training loop.
        seen, new, labelled = from_all_processes(index, losses.detach().float(), rows)
        known = labelled & ~new.isnan()
        self.left_out += (labelled & new.isnan()).sum()
        self.losses[seen[known]] = new[known].to(self.losses.dtype)
        right = self.right[index]
        if self._count(len(seen)) <= self.start * self.num_rows:
            return losses, None
        given = probabilities(target, self.num_classes, rows)
        mixed = right[:, None] * given + (1 - right[:, None]) * input.detach().float().softmax(1)
        return against_probs(self.loss, input, mixed.to(input.dtype)), None

    def _count(self, rows: int) -> int:
        """Count rows; at the end of an epoch after the first `start`, fit the mixture anew. Return the rows so far."""
        before = int(self._seen)
        self._seen += rows
        if self.start <= (before + rows) // self.num_rows != before // self.num_rows:
            self.right.copy_(probably_right(self.losses.float(), self.right.float()))
        return before + rows

    def get_extra_state(self) -> int:
        """Return the number of rows seen, for the `state_dict`."""
        return int(self._seen)

    def set_extra_state(self, state: int) -> None:
        """Take the number of rows seen from a `state_dict`."""
        self._seen.fill_(state)

    def extra_repr(self) -> str:
        """Return the hyperparameters for `repr`."""
        return f"{super().extra_repr()}, start={self.start}"


@torch.library.custom_op("mgce::probably_right", mutates_args=())
def probably_right(losses: Tensor, before: Tensor) -> Tensor:
    """Return the probability that each row's label is right, from the last losses (n,), as one operator for compilers.

    A row with the loss NaN keeps its probability from `before`.
    """
    known = ~losses.isnan()
    right = before.clone()
    right[known] = torch.from_numpy(_of_smaller(losses[known].cpu().numpy())).to(right)
    return right


@probably_right.register_fake
def _(losses: Tensor, before: Tensor) -> Tensor:
    return torch.empty_like(before)


def _of_smaller(losses: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the probability of each loss (n,) to be of the component with the smaller mean; 1 if all are equal.

    A label that the network excludes has an infinite loss. Infinite losses are left out of the fit, and belong to the
    component with the larger mean.
    """
    from sklearn.mixture import GaussianMixture  # here, since it takes a second to import

    finite = np.isfinite(losses)
    probs = finite.astype(np.float64)
    known = losses[finite].astype(np.float64)
    scale = np.ptp(known) if len(known) else 0
    if scale == 0:
        return probs
    column = ((known - known.min()) / scale)[:, None]
    # The mixture of DivideMix: ten to twenty steps are enough for two components, and the least variance keeps a
    # component from shrinking to a single loss, with losses scaled to [0, 1].
    mixture = GaussianMixture(2, max_iter=20, tol=1e-2, reg_covar=5e-4, random_state=0).fit(column)
    probs[finite] = mixture.predict_proba(column)[:, mixture.means_[:, 0].argmin()]
    return probs


SOFT_BOOTSTRAP = NamedLoss(
    "soft-bootstrap",
    SoftBootstrapLoss,
    "CE against $w [j = y] + (1 - w) p_j$, w the probability that the label is right",
    of=(CE,),
    source="Arazo et al. 2019; Li et al. 2020",
    recommended=True,
    of_one_network=True,
)
NAMED = (ELR, SOFT_BOOTSTRAP)
