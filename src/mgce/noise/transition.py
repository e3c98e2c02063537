r"""Make transition matrices T of label noise: T[y, z] is the probability that the true label y is observed as z.

Each row belongs to a true class and sums to one. A label changes with probability `noise_rate`, which is therefore the
expected fraction of wrong labels (for `asymmetric`, among the mapped classes).
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

import torch
from torch import Tensor

from mgce import _validation


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
    _check(n_classes, noise_rate)
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
    _check(n_classes, noise_rate)
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
    _check(n_classes, noise_rate)
    if not isinstance(mapping, Mapping):
        raise TypeError(_validation.expected("mapping", "a mapping of classes to other classes", mapping))
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
    _validation.check_transition(transition)
    k = len(transition)
    if not isinstance(frequencies, Tensor):
        raise TypeError(_validation.expected("frequencies", "a tensor", frequencies))
    if frequencies.is_complex():
        raise ValueError(_validation.expected("frequencies", "real numbers", frequencies.dtype))
    if frequencies.shape != (k,):
        what = f"a tensor of shape ({k},), one number for each class"
        raise ValueError(_validation.expected("frequencies", what, tuple(frequencies.shape)))
    true = frequencies.double()
    if not (true.isfinite().all() and (true >= 0).all() and true.sum() > 0):
        raise ValueError(_validation.expected("frequencies", "not negative and not all 0", frequencies.tolist()))
    joint = true[:, None] * transition.double().clamp(min=0)  # rounding may have taken a 0 below it
    seen = joint.sum(0)
    return torch.where(seen > 0, joint / seen, torch.eye(k, dtype=torch.float64, device=joint.device))


def _check(n_classes: int, noise_rate: float) -> None:
    _validation.check_count("n_classes", n_classes, minimum=2)
    _validation.check_fraction("noise_rate", noise_rate)


def _check_pair(true: object, seen: object, n_classes: int) -> None:
    what = f"a mapping between integers in [0, {n_classes - 1}]"
    for label in (true, seen):
        if isinstance(label, bool) or not isinstance(label, Integral):
            raise TypeError(_validation.expected("mapping", what, {true: seen}))
        if not 0 <= int(label) < n_classes:
            raise ValueError(_validation.expected("mapping", what, {true: seen}))
    if true == seen:
        raise ValueError(_validation.expected("mapping", "a mapping of classes to other classes", {true: seen}))
