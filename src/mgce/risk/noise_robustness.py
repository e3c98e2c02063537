r"""Bound how much training on wrong labels costs, by bounds on the sum of the alpha-losses of all classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import as_array
from mgce.risk.alpha_loss import loss_sum_bounds
from mgce.risk.label_noise import ROW_SUM


@dataclass(frozen=True)
class NoiseBounds:
    """Bounds on the risk lost by training on wrong labels, for every distribution and every set of classifiers."""

    noisy_regret: float  # by how much a clean minimiser can be worse on noisy labels, at most
    clean_regret: float  # by how much the noisy minimiser can be worse on clean labels, at most


def symmetric_noise_bounds(n_classes: int, noise_rate: float, beta: float) -> NoiseBounds:
    r"""Bound how much alpha-risk is lost by minimising it on labels with symmetric noise instead of clean labels.

    .. math:: 0 \le \tilde R(h^*) - \tilde R(\tilde h) \le \frac{\eta\, \beta (k^{1 - 1/\beta} - 1)}{k - 1}, \qquad
        0 \le R(\tilde h) - R(h^*) \le \frac{\eta\, \beta (k^{1 - 1/\beta} - 1)}{k - 1 - \eta k}

    with R the alpha-risk (mean alpha-loss) on clean labels and h* its minimiser; R~ is the alpha-risk on noisy labels,
    and h~ its minimiser. At beta = 1 nothing is lost.

    Args:
        n_classes: k, the number of classes, at least 2.
        noise_rate: eta in [0, (k-1)/k).
        beta: float in [1, inf).

    Returns:
        Both bounds.

    Raises:
        TypeError, ValueError: if an argument is outside its domain.

    Example:
        >>> bounds = symmetric_noise_bounds(10, 0.4, 1.4)
        >>> round(bounds.noisy_regret, 4), round(bounds.clean_regret, 4)
        (0.0579, 0.1042)

    Reference: paper, after equation (5); Zhang and Sabuncu (2018), theorem 1. The noisy risk is
    `(1 - eta k/(k-1)) R + eta/(k-1) S`, with S in the range of equation (5).
    """
    least, most = loss_sum_bounds(n_classes, beta)
    _check_rate(noise_rate, n_classes)
    noisy = noise_rate * (most - least) / (n_classes - 1)
    return NoiseBounds(noisy, noisy / (1 - noise_rate * n_classes / (n_classes - 1)))


def asymmetric_noise_bounds(transition: Any, beta: float, prior: Any = None) -> NoiseBounds:
    r"""Bound how much alpha-risk is lost by minimising it under class-dependent noise, if clean risk 0 is possible.

    .. math:: \tilde R(h^*) - \tilde R(\tilde h) \le \beta (k^{1 - 1/\beta} - 1)\, E\,T_{yy}, \qquad
        R_{\mathrm{MAE}}(\tilde h) \le \frac{(k^{1 - 1/\beta} - 1)\, E\,T_{yy}}{\min_{y \ne j} (T_{yy} - T_{yj})}

    for a distribution on which some classifier h* has clean risk zero; h~ minimises the risk R~ on noisy labels. At
    beta = 1, h~ has clean risk zero too.

    Args:
        transition: T, shape (k, k): the probability of given label j for right label y. The diagonal must be the
            largest of its row.
        beta: float in [1, inf).
        prior: probabilities of the classes, shape (k,); by default the worst case, all weight on the largest T_yy.

    Returns:
        Both bounds; `clean_regret` bounds the error of a class drawn from h~.

    Raises:
        TypeError, ValueError: if an argument is outside its domain, or a diagonal entry is not the largest.

    Example:
        >>> bounds = asymmetric_noise_bounds([[0.9, 0.1], [0.2, 0.8]], 1.05)
        >>> round(bounds.noisy_regret, 4), round(bounds.clean_regret, 4)
        (0.0317, 0.0503)

    Reference: paper, after equation (5); Zhang and Sabuncu (2018), theorem 2. The noisy risk is
    `E[T_yy S - sum_{j != y} (T_yy - T_yj) l(j)]`, and h* has every l(j) = beta, the largest; for the second bound,
    `beta - l(j) = beta h_j^(1/beta) >= beta h_j`.
    """
    matrix = as_array(transition, "transition")
    k = len(matrix)
    if matrix.shape != (k, k) or matrix.min() < 0 or np.abs(matrix.sum(1) - 1).max() > ROW_SUM:
        raise ValueError(_validation.expected("transition", "square, of rows that sum to one", matrix.shape))
    least, most = loss_sum_bounds(k, beta)
    stays = np.diagonal(matrix)
    margin = float((stays[:, None] - matrix)[~np.eye(k, dtype=bool)].min())
    if margin <= 0:
        raise ValueError(_validation.expected("transition", "of diagonal entries that lead their rows", margin))
    kept = float(stays.max()) if prior is None else float(as_array(prior, "prior") @ stays)
    noisy = (most - least) * kept
    return NoiseBounds(noisy, noisy / (beta * margin))


def clean_risk_bound(noisy_risk: float, n_classes: int, noise_rate: float, beta: float) -> float:
    r"""Bound the alpha-risk on clean labels by the alpha-risk on labels with symmetric noise of a known rate.

    .. math:: R_\beta \le \frac{\tilde R_\beta - \beta \eta (k - k^{(\beta - 1)/\beta})/(k - 1)}{1 - \eta k/(k - 1)}

    The bound uses the least possible value of S, the mean sum of the losses of all classes. :func:`~mgce.certify` with
    `beta` and the transition matrix computes S from the examples, and so is tighter.

    Args:
        noisy_risk: R~, or an upper bound of it, such as V_beta of a certified set of noisy labels.
        n_classes: k, at least 2.
        noise_rate: eta in [0, (k-1)/k), exactly; neither a lower nor an upper bound is enough.
        beta: float in [1, inf).

    Returns:
        The bound, at most beta.

    Raises:
        TypeError, ValueError: if an argument is outside its domain.

    Example:
        >>> round(clean_risk_bound(0.9, 5, 0.3, 1.4), 4)
        0.8661

    Reference: the theorem that the source of the paper has commented out (its theorem 4).
    """
    least, _ = loss_sum_bounds(n_classes, beta)
    _check_rate(noise_rate, n_classes)
    signal = 1 - noise_rate * n_classes / (n_classes - 1)
    return min(float(beta), max(0.0, (noisy_risk - noise_rate * least / (n_classes - 1)) / signal))


def _check_rate(noise_rate: float, k: int) -> None:
    _validation.check_fraction("noise_rate", noise_rate)
    if not noise_rate < (k - 1) / k:
        raise ValueError(_validation.expected("noise_rate", f"below {k - 1}/{k}", noise_rate))
