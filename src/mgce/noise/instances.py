"""Corrupt labels by noise that depends on the features of each row, so that no transition matrix describes it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mgce import _validation
from mgce._validation import expected
from mgce.noise.corruption import CorruptedLabels, check_drawing

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
