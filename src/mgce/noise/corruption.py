"""Corrupt labels at random by a transition matrix; all random numbers come from the caller's generator."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgce import _validation


class CorruptedLabels(NamedTuple):
    """Noisy labels, and a mask of the rows whose noisy label differs from the true label.

    Args:
        labels: noisy labels, int64, shape (N,).
        flipped: whether the label of each row changed, bool, shape (N,).
    """

    labels: Tensor
    flipped: Tensor


def corrupt(
    labels: Tensor,  # (N,)
    transition: Tensor,  # (k, k)
    generator: torch.Generator,
    *,
    exact: bool = False,
) -> CorruptedLabels:
    r"""Replace each label y by a label drawn at random from row y of a transition matrix.

    .. math:: P(\tilde y_i = z \mid y_i = y) = T_{yz}

    By default each label is drawn independently. With `exact=True` the numbers of changed labels are not random, but
    the expected numbers, rounded. Of the n_y labels of class y, n_y (1 - T_yy) are expected to change. The sum
    over all classes is rounded. Each class gets its part of this total, rounded down or up by the method of largest
    remainders. In the same way the changed labels of class y are divided among the new classes z, where n_y T_yz labels
    are expected to become z. Which labels change is random. Among equal remainders, a random one is rounded up.

    Args:
        labels: true labels in [0, k) for k classes, int64, shape (N,); left unchanged. N, the number of rows, may be 0.
        transition: T, row-stochastic up to rounding, floating point, shape (k, k); row = true class.
        generator: random generator; the global random state is neither read nor changed. Random numbers are drawn on
            the device of the generator, so a CPU generator gives the same noise for labels on a GPU.
        exact: whether the numbers of changed labels are the expected ones instead of random.

    Returns:
        :class:`CorruptedLabels`: the noisy labels, and the mask of those that changed.

    Raises:
        TypeError: if an argument has the wrong Python type.
        ValueError: if a shape, a dtype or a value is not as described above.

    Example:
        >>> transition = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> generator = torch.Generator().manual_seed(0)
        >>> noisy, flipped = corrupt(torch.tensor([0, 0, 0, 0, 1, 1]), transition, generator, exact=True)
        >>> noisy.bincount()
        tensor([2, 4])
        >>> flipped.sum()
        tensor(2)

    Reference: Natarajan et al., "Learning with noisy labels", NeurIPS 2013; Hamilton's method of
    apportionment for the largest remainders.
    """
    _validation.check_transition(transition)
    check_drawing(labels, len(transition), generator)
    true = labels.to(generator.device)
    matrix = transition.detach().to(generator.device, torch.float64).clamp(0, 1)
    noisy = (_by_quota if exact else _independent)(true, matrix, generator).to(labels.device)
    return CorruptedLabels(noisy, noisy != labels)


def check_drawing(labels: Tensor, n_classes: int, generator: torch.Generator) -> None:
    """Raise an error unless labels are int64 in [0, n_classes), and the generator is a torch.Generator."""
    _validation.check_labels(labels, n_classes, "labels")
    if labels.dtype != torch.int64:
        raise ValueError(_validation.expected("labels", "a tensor of dtype torch.int64", labels.dtype))
    if not isinstance(generator, torch.Generator):
        raise TypeError(_validation.expected("generator", "a torch.Generator", generator))


def _independent(labels: Tensor, matrix: Tensor, generator: torch.Generator) -> Tensor:
    uniform = torch.rand(len(labels), generator=generator, dtype=torch.float64, device=labels.device)
    noisy = labels.clone()
    for rows, row in zip(_rows_of_classes(labels, len(matrix)), matrix, strict=True):
        cumulative = row.cumsum(0)
        # Divided by its last entry, which is then exactly 1 and above every draw: no draw falls behind the last class,
        # and none to a class of probability 0, whose interval is empty.
        noisy[rows] = torch.searchsorted(cumulative / cumulative[-1], uniform[rows], right=True)
    return noisy


def _by_quota(labels: Tensor, matrix: Tensor, generator: torch.Generator) -> Tensor:
    counts = labels.bincount(minlength=len(matrix))
    # Rounded, so that neither ties nor whole numbers depend on the last bits of the products. Nine decimals hide
    # the rounding errors of the products of a million labels, about 1e6 * 1e-16.
    flips = (counts[:, None] * matrix.clone().fill_diagonal_(0)).round(decimals=9)
    expected = flips.sum(1).round(decimals=9)
    quotas = _apportion(expected, round(expected.sum().item()), generator)
    noisy = labels.clone()
    for rows, row, quota in zip(_rows_of_classes(labels, len(matrix)), flips, quotas.tolist(), strict=True):
        drawn = rows[torch.randperm(len(rows), generator=generator, device=rows.device)[:quota]]
        noisy[drawn] = torch.arange(len(matrix), device=rows.device).repeat_interleave(
            _apportion(row, quota, generator)
        )
    return noisy


def _rows_of_classes(labels: Tensor, n_classes: int) -> list[Tensor]:
    counts = labels.bincount(minlength=n_classes)
    return list(torch.split(labels.argsort(stable=True), counts.tolist()))


def _apportion(expected: Tensor, total: int, generator: torch.Generator) -> Tensor:
    """Round `expected` to integers with the sum `total`; numbers with the largest remainders are rounded up."""
    whole = expected.floor()
    shuffled = torch.randperm(len(expected), generator=generator, device=expected.device)
    by_remainder = (expected - whole)[shuffled].argsort(descending=True, stable=True)
    whole[shuffled[by_remainder][: total - int(whole.sum())]] += 1
    return whole.long()
