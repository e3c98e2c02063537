r"""Make transition matrices of label noise, and corrupt labels by such a matrix or by the features of each row.

In a matrix T, T[y, z] is the probability that the true label y is observed as z. Each row belongs to a true class and
sums to one. A label changes with probability `noise_rate`, which is therefore the expected fraction of wrong labels
(for `asymmetric`, among the mapped classes). Random numbers come from the caller's generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from mgce._messages import check_count, check_fraction, expected
from mgce._validation import check_labels, check_transition


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
    check_transition(transition)
    check_drawing(labels, len(transition), generator)
    true = labels.to(generator.device)
    matrix = transition.detach().to(generator.device, torch.float64).clamp(0, 1)
    noisy = (_by_quota if exact else _independent)(true, matrix, generator).to(labels.device)
    return CorruptedLabels(noisy, noisy != labels)


def check_drawing(labels: Tensor, n_classes: int, generator: torch.Generator) -> None:
    """Raise an error unless labels are int64 in [0, n_classes), and the generator is a torch.Generator."""
    check_labels(labels, n_classes, "labels")
    if labels.dtype != torch.int64:
        raise ValueError(expected("labels", "a tensor of dtype torch.int64", labels.dtype))
    if not isinstance(generator, torch.Generator):
        raise TypeError(expected("generator", "a torch.Generator", generator))


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
    means = flips.sum(1).round(decimals=9)
    quotas = _apportion(means, round(means.sum().item()), generator)
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


def _apportion(means: Tensor, total: int, generator: torch.Generator) -> Tensor:
    """Round `means` to integers with the sum `total`; numbers with the largest remainders are rounded up."""
    whole = means.floor()
    shuffled = torch.randperm(len(means), generator=generator, device=means.device)
    by_remainder = (means - whole)[shuffled].argsort(descending=True, stable=True)
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
    check_count("n_classes", n_classes, minimum=2)
    check_fraction("noise_rate", noise_rate)
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


def symmetric(n_classes: int, noise_rate: float) -> Tensor:
    r"""Return the matrix of symmetric noise: a wrong label is any other class, with equal probabilities.

    .. math:: T_{yy} = 1 - r, \qquad T_{yz} = \frac{r}{k - 1} \quad (z \neq y)

    Some papers draw the new label from all k classes, including the true one. The rate s in such papers corresponds to
    r = s (k - 1)/k here. Above r = (k - 1)/k the true class is the least likely label.

    Args:
        n_classes: number k of classes, at least 2.
        noise_rate: probability r in [0, 1] that a label changes.

    Returns:
        T, float64, shape (k, k).

    Raises:
        TypeError: if an argument is not a number of the right kind.
        ValueError: if an argument is outside its domain.

    Example:
        >>> symmetric(3, 0.4)
        tensor([[0.6000, 0.2000, 0.2000],
                [0.2000, 0.6000, 0.2000],
                [0.2000, 0.2000, 0.6000]], dtype=torch.float64)

    Reference: van Rooyen, Menon and Williamson, "Learning with symmetric label noise", NeurIPS 2015.
    """
    _check_rate(n_classes, noise_rate)
    matrix = torch.full((n_classes, n_classes), noise_rate / (n_classes - 1), dtype=torch.float64)
    return matrix.fill_diagonal_(1 - noise_rate)


def pair_flip(n_classes: int, noise_rate: float) -> Tensor:
    r"""Return the matrix of pair noise: every wrong label is the next class; the next class of the last is the first.

    .. math:: T_{yy} = 1 - r, \qquad T_{y,\,(y + 1) \bmod k} = r

    Above r = 1/2 the next class is more likely than the true one.

    Args:
        n_classes: number k of classes, at least 2.
        noise_rate: probability r in [0, 1] that a label changes.

    Returns:
        T, float64, shape (k, k).

    Raises:
        TypeError, ValueError: as :func:`symmetric`.

    Example:
        >>> pair_flip(3, 0.4)
        tensor([[0.6000, 0.4000, 0.0000],
                [0.0000, 0.6000, 0.4000],
                [0.4000, 0.0000, 0.6000]], dtype=torch.float64)

    Reference: Han et al., "Co-teaching: robust training of deep neural networks with extremely noisy
    labels", NeurIPS 2018.
    """
    _check_rate(n_classes, noise_rate)
    stay = torch.eye(n_classes, dtype=torch.float64)
    return (1 - noise_rate) * stay + noise_rate * stay.roll(1, dims=1)


def asymmetric(mapping: Mapping[int, int], n_classes: int, noise_rate: float) -> Tensor:
    r"""Return the matrix of asymmetric noise: all wrong labels of a mapped class are the same other class.

    .. math:: T_{yy} = 1 - r, \qquad T_{y,\,m(y)} = r \qquad \text{for } y \text{ in the mapping } m,

    and T_yy = 1 for every other class. The usual mapping of CIFAR-10 is truck to automobile, bird to
    airplane, deer to horse, cat to dog and dog to cat: `{9: 1, 2: 0, 4: 7, 3: 5, 5: 3}`.

    Args:
        mapping: maps a true class to its wrong label; both in [0, k) and different.
        n_classes: number k of classes, at least 2.
        noise_rate: probability r in [0, 1] that a label of a mapped class changes.

    Returns:
        T, float64, shape (k, k); the identity if the mapping is empty.

    Raises:
        TypeError, ValueError: as :func:`symmetric`, and if the mapping is not as above.

    Example:
        >>> asymmetric({2: 0}, 3, 0.4)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.4000, 0.0000, 0.6000]], dtype=torch.float64)

    Reference: Patrini et al., "Making deep neural networks robust to label noise: a loss correction
    approach", CVPR 2017.
    """
    _check_rate(n_classes, noise_rate)
    if not isinstance(mapping, Mapping):
        raise TypeError(expected("mapping", "a mapping of classes to other classes", mapping))
    matrix = torch.eye(n_classes, dtype=torch.float64)
    for true, seen in mapping.items():
        _check_pair(true, seen, n_classes)
        matrix[true, true] = 1 - noise_rate
        matrix[true, seen] = noise_rate
    return matrix


def inverse_noise_matrix(transition: Tensor, frequencies: Tensor) -> Tensor:
    r"""Return a matrix M with the probability of each true label y, given the observed label z.

    .. math:: M_{yz} = \frac{\pi_y T_{yz}}{\sum_c \pi_c T_{cz}}

    `1 - M.diagonal()` is the fraction of wrong labels among the rows with each observed label.
    :class:`mgce.TrimmedLoss` accepts these fractions as `trim`. The fraction is 1 for a label whose class has the
    frequency 0, but `trim` has to be below 1. So pass `(1 - M.diagonal()).clamp(max=0.99)`, which leaves out almost all
    rows of such a label.

    Args:
        transition: the noise T, shape (k, k); rows are true classes and sum to one.
        frequencies: frequencies :math:`\pi` of the true classes, as counts or fractions, shape (k,), not negative and
            not all 0. To estimate them from counts q of observed labels, compute
            `torch.linalg.solve(transition.T, q.double()).clamp(min=0)`. The estimate is better with more rows and less
            noise.

    Returns:
        M, float64, shape (k, k); rows are true classes as in T, and columns sum to one. In the column of a label that
        is never observed, the diagonal entry is 1.

    Raises:
        TypeError: if an argument is not a tensor.
        ValueError: if an argument has a shape, a dtype or a value not allowed above.

    Example:
        >>> inverse_noise_matrix(symmetric(2, 0.4), torch.tensor([24.0, 76.0]))
        tensor([[0.3214, 0.1739],
                [0.6786, 0.8261]], dtype=torch.float64)

    Reference: Northcutt, Jiang and Chuang, "Confident learning: estimating uncertainty in dataset labels", JAIR 2021.
    """
    check_transition(transition)
    k = len(transition)
    if not isinstance(frequencies, Tensor):
        raise TypeError(expected("frequencies", "a tensor", frequencies))
    if frequencies.is_complex():
        raise ValueError(expected("frequencies", "real numbers", frequencies.dtype))
    if frequencies.shape != (k,):
        what = f"a tensor of shape ({k},), one number for each class"
        raise ValueError(expected("frequencies", what, tuple(frequencies.shape)))
    true = frequencies.double()
    if not (true.isfinite().all() and (true >= 0).all() and true.sum() > 0):
        raise ValueError(expected("frequencies", "not negative and not all 0", frequencies.tolist()))
    joint = true[:, None] * transition.double().clamp(min=0)  # rounding may have taken a 0 below it
    seen = joint.sum(0)
    return torch.where(seen > 0, joint / seen, torch.eye(k, dtype=torch.float64, device=joint.device))


def _check_rate(n_classes: int, noise_rate: float) -> None:
    check_count("n_classes", n_classes, minimum=2)
    check_fraction("noise_rate", noise_rate)


def _check_pair(true: object, seen: object, n_classes: int) -> None:
    what = f"a mapping between integers in [0, {n_classes - 1}]"
    for label in (true, seen):
        if isinstance(label, bool) or not isinstance(label, Integral):
            raise TypeError(expected("mapping", what, {true: seen}))
        if not 0 <= int(label) < n_classes:
            raise ValueError(expected("mapping", what, {true: seen}))
    if true == seen:
        raise ValueError(expected("mapping", "a mapping of classes to other classes", {true: seen}))
