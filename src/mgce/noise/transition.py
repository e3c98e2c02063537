r"""Transition matrices T of label noise: T[y, z] is the probability that true label y is seen as z.

Rows are true classes and sum to one. In all of them a label changes with probability `noise_rate`, so
the rate is the fraction of wrong labels to expect (for `asymmetric`, among the mapped classes).
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

import torch
from torch import Tensor

from mgce import _validation


def symmetric(n_classes: int, noise_rate: float) -> Tensor:
    r"""Return the matrix of symmetric noise: a flipped label is any of the other classes, equally likely.

    .. math:: T_{yy} = 1 - r, \qquad T_{yz} = \frac{r}{k - 1} \quad (z \neq y)

    Papers that draw the new label from all k classes, the true one included, at rate s have
    r = s (k - 1)/k in this notation. Above r = (k - 1)/k the true class is the least likely label.

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
    r"""Return the matrix of pair noise: a flipped label is the next class, and the last becomes the first.

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
    r"""Return the matrix of class-dependent noise: each mapped class is mistaken for one other class.

    .. math:: T_{yy} = 1 - r, \qquad T_{y,\,m(y)} = r \qquad \text{for } y \text{ in the mapping } m,

    and T_yy = 1 for every other class. The usual mapping of CIFAR-10 is truck to automobile, bird to
    airplane, deer to horse, cat to dog and dog to cat: `{9: 1, 2: 0, 4: 7, 3: 5, 5: 3}`.

    Args:
        mapping: true class to the class it is mistaken for, both in [0, k) and different.
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
    r"""Return the probability of each true label y, given the label z that is seen.

    .. math:: M_{yz} = \frac{\pi_y T_{yz}}{\sum_c \pi_c T_{cz}}

    One minus its diagonal is the share of wrong labels among the rows of each label, which `mgce.TrimmedLoss` takes as
    `trim`. It is 1, which that does not take, for a label that is seen although its class does not occur, or does not
    by an estimate of the frequencies: then a share just below, as by `(1 - M.diagonal()).clamp(max=0.99)`, leaves out
    next to all of its rows.

    Args:
        transition: the noise T, shape (k, k); rows are true classes and sum to one.
        frequencies: of the true classes, :math:`\pi`: counts or shares, shape (k,), not negative and not all 0. From
            counts q of labels as they are seen `torch.linalg.solve(transition.T, q.double()).clamp(min=0)` estimates
            it, the better the more rows and the less noise there is.

    Returns:
        M, float64, shape (k, k); rows are true classes as in T, and columns sum to one. Of a label that is never seen M
        says that it is right.

    Raises:
        TypeError: if an argument is no tensor.
        ValueError: if an argument is not as above.

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
