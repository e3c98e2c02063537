"""Corrupt labels at random, by a transition matrix or by the features of each row, with the caller's generator."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mgce import _validation
from mgce._validation import expected


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


SPREAD = 0.1  # standard deviation of a row's rate before it is cut off, as published


def corrupt_by_features(
    labels: Tensor,  # (N,)
    features: Tensor,  # (N, d)
    n_classes: int,
    noise_rate: float,
    generator: torch.Generator,
) -> CorruptedLabels:
    r"""Replace labels at random; the row's features determine which new class is probable.

    .. math:: q_i \sim \mathcal N(r, 0.1^2) \text{ within } r \pm \min(r, 1 - r), \qquad
        P(\tilde y_i = z) = q_i\, \mathrm{softmax}_{z \ne y_i}(x_i^\top W_{y_i})_z

    with features x_i of row i. Each class y has a matrix :math:`W_y` with standard normal entries. Similar rows get the
    same wrong class, so a network can learn the noise. The larger the features, the more the new class is determined by
    the row. The probability :math:`q_i` that a label changes is drawn from an interval symmetric around r =
    `noise_rate`, so its mean is r. (The publication truncates this distribution at 0 and 1 instead.)

    Args:
        labels: true labels in [0, k), int64, shape (N,); left unchanged.
        features: x, floating point, shape (N, d): N rows, d features; images are flattened.
        n_classes: number k of classes, at least 2.
        noise_rate: mean probability r in [0, 1] that a label changes.
        generator: random generator; the global random state is neither read nor changed.

    Returns:
        :class:`CorruptedLabels`: the noisy labels, and the mask of those that changed.

    Raises:
        TypeError: if an argument has the wrong Python type.
        ValueError: if a shape, a dtype or a value is not as above.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels, features = torch.zeros(1000, dtype=torch.int64), torch.eye(4).repeat(250, 1)
        >>> noisy, flipped = corrupt_by_features(labels, features, 3, 0.3, generator)
        >>> round(flipped.double().mean().item(), 1)
        0.3

    Reference: Xia et al., "Part-dependent label noise", NeurIPS 2020, algorithm 2.
    """
    _check(labels, features, n_classes, noise_rate, generator)
    device = generator.device
    x, true = features.detach().to(device, torch.float64), labels.to(device)
    rates = _rates(len(true), noise_rate, generator)
    noisy = true.clone()
    uniform = torch.rand(len(true), generator=generator, dtype=torch.float64, device=device)
    for y in range(n_classes):
        weight = torch.randn(x.shape[1], n_classes, generator=generator, dtype=torch.float64, device=device)
        rows = (true == y).nonzero().squeeze(1)
        scores = (x[rows] @ weight).index_fill_(1, torch.tensor([y], device=device), -math.inf)
        probs = rates[rows, None] * scores.softmax(1)
        probs[:, y] = 1 - rates[rows]
        cumulative = probs.cumsum(1)
        drawn = torch.searchsorted(cumulative / cumulative[:, -1:], uniform[rows, None], right=True)
        noisy[rows] = drawn.squeeze(1)
    noisy = noisy.to(labels.device)
    return CorruptedLabels(noisy, noisy != labels)


def _check(labels: Tensor, features: Tensor, n_classes: int, noise_rate: float, generator: torch.Generator) -> None:
    _validation.check_count("n_classes", n_classes, minimum=2)
    _validation.check_fraction("noise_rate", noise_rate)
    check_drawing(labels, n_classes, generator)
    if not isinstance(features, Tensor):
        raise TypeError(expected("features", "a torch.Tensor", type(features).__name__))
    if features.ndim != 2 or len(features) != len(labels) or not features.is_floating_point():
        what = f"a floating-point tensor of shape ({len(labels)}, d)"
        raise ValueError(expected("features", what, f"{features.dtype} of shape {tuple(features.shape)}"))
    if not bool(features.isfinite().all()):
        raise ValueError(expected("features", "finite", "NaN or inf"))


def _rates(n: int, noise_rate: float, generator: torch.Generator) -> Tensor:
    """Draw n noise rates from a normal distribution that is truncated symmetrically around its mean `noise_rate`."""
    half = min(noise_rate, 1 - noise_rate)
    uniform = torch.rand(n, generator=generator, dtype=torch.float64, device=generator.device)
    inside = math.erf(half / (SPREAD * math.sqrt(2)))  # probability of the interval
    offset = SPREAD * math.sqrt(2) * torch.erfinv((2 * uniform - 1) * inside)
    return (noise_rate + offset).clamp(noise_rate - half, noise_rate + half)
