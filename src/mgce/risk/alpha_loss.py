r"""Define constants of the alpha-loss `beta (1 - h_y^(1/beta))`, bounds on a classifier's error, and margin losses.

In the alpha-loss, h are the predicted probabilities of the classes, and y is the label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce._arrays import ROUNDED, FloatArray, as_array, as_probs
from mgce._messages import check_count, check_fraction, expected
from mgce._validation import check_beta
from mgce.linear.objective import trivial_value


def argmax_factor(beta: float) -> float:
    r"""Return the least factor C such that `argmax error <= C * alpha-risk` for every classifier.

    .. math:: C_\beta = \frac{1}{\beta (1 - 2^{-1/\beta})}

    The argmax error is the probability that the class predicted as most probable is wrong. The alpha-risk R_beta is the
    mean alpha-loss, `beta (1 - h_y^(1/beta))` for the predicted probability h_y of the label y.

    Args:
        beta: float in [1, inf].

    Returns:
        C, from 2 at beta = 1 down to 1/log 2 at infinity.

    Raises:
        TypeError, ValueError: if `beta` is not a number in [1, inf].

    Example:
        >>> [round(argmax_factor(beta), 4) for beta in (1, 1.4, 2, 5)]
        [2.0, 1.8292, 1.7071, 1.545]

    Reference: where the predicted class is wrong, `h_y <= 1/2`, so the alpha-loss is at least `beta (1 - 2^(-1/beta))`.
    """
    check_beta(beta)
    return 1 / trivial_value(2, beta)  # the loss of h = (1/2, 1/2)


def loss_sum_bounds(n_classes: int, beta: float) -> tuple[float, float]:
    r"""Return the least and the largest possible sum of the alpha-losses of all k classes for one row.

    .. math:: \beta \big(k - k^{(\beta - 1)/\beta}\big) \le \sum_{y=1}^k \ell_\beta(h, y) \le \beta (k - 1)

    The alpha-loss of label y is `beta (1 - h_y^(1/beta))`, at most beta, if the classifier predicts the probabilities
    h. At beta = 1 both bounds are k - 1: the alpha-loss is then symmetric. The margin loss has no such bounds: its sum
    is unbounded.

    Args:
        n_classes: k, the number of classes, at least 2.
        beta: float in [1, inf).

    Returns:
        Both bounds; uniform and one-hot probabilities attain them.

    Raises:
        TypeError, ValueError: if an argument is outside its domain.

    Example:
        >>> [round(bound, 4) for bound in loss_sum_bounds(4, 2)]
        [4.0, 6.0]

    Reference: paper, equation (5); Zhang and Sabuncu (2018), lemma 2.
    """
    check_count("n_classes", n_classes, minimum=2)
    beta = _finite(beta)
    return beta * (n_classes - n_classes ** (1 - 1 / beta)), beta * (n_classes - 1)


def mae_bounds(alpha_risk: float, beta: float) -> tuple[float, float]:
    r"""Return a lower and an upper bound, computed from the alpha-risk, on the error of a class drawn from h.

    .. math:: \max\Big(\frac{R_\beta}{\beta},\; R_\beta - (\beta - 1)\Big) \le R_{\mathrm{MAE}} \le R_\beta

    h are the predicted probabilities. R_MAE, the MAE risk, is the probability that a class drawn at random from h is
    wrong. The two bounds differ by at most beta - 1, and coincide at beta = 1.

    Args:
        alpha_risk: R_beta, the mean of `beta (1 - h_y^(1/beta))` over examples with labels y, in [0, beta].
        beta: float in [1, inf).

    Returns:
        Both bounds, in [0, 1].

    Raises:
        TypeError, ValueError: if an argument is outside its domain.

    Example:
        >>> [round(bound, 4) for bound in mae_bounds(0.7, 1.4)]
        [0.5, 0.7]

    Reference: paper, Theorem 2, equations (18) and (19).
    """
    beta = _finite(beta)
    if not 0 <= alpha_risk <= beta:
        raise ValueError(expected("alpha_risk", f"in [0, {beta:g}]", alpha_risk))
    return max(alpha_risk / beta, alpha_risk - (beta - 1)), min(1.0, alpha_risk)


def optimal_margins(probs: Any, beta: float) -> FloatArray:
    r"""Return the margins (logits) f that minimise the expected margin loss, if label y has probability p_y.

    .. math:: f_y = \beta (v_y - 1), \qquad v_y = \Big(\frac{p_y}{\lVert p \rVert_\alpha}\Big)^{\alpha - 1},
        \qquad \alpha = \frac{\beta}{\beta - 1}

    The margins are in the same order as p, so the margin loss is classification-calibrated. p are the worst-case
    probabilities of f. Adding a constant to all margins changes no loss; the constant of these margins makes phi zero.
    Margins in float64 cannot express a probability below about `eps^(beta - 1)` (1e-3 at beta = 1.2; eps is the machine
    epsilon).

    Args:
        probs: p, shape (..., k), each row of sum one up to rounding, as for :func:`mgce.certify`.
        beta: float in (1, inf).

    Returns:
        f, of the shape of p.

    Raises:
        TypeError, ValueError: if `beta` is not in (1, inf), or `probs` are no probabilities.

    Example:
        >>> optimal_margins([0.6, 0.8, 0.0] / np.array(1.4), 2).round(4).tolist()
        [-0.8, -0.4, -2.0]

    Reference: paper, Corollary 1; the inverse of equation (17).
    """
    return _finite(beta) * (_inverse_link(probs, beta) - 1)


def composite_losses(probs: Any, beta: float) -> FloatArray:
    r"""Return the margin loss of every label, computed from the worst-case probabilities p instead of the margins.

    .. math:: \tilde\ell_\beta(p, y) = \beta \Big(1 - \Big(\frac{p_y}{\lVert p \rVert_\alpha}\Big)^{\alpha - 1}\Big)

    This loss is strictly proper: if labels have the probabilities q, its expectation is least only at p = q. It is the
    pseudo-spherical score of order alpha. For a class of probability 0 the loss is beta, the least margin loss that
    such a class can have.

    Args:
        probs: p, shape (..., k), each row of sum one up to rounding, as for :func:`mgce.certify`.
        beta: float in (1, inf).

    Returns:
        The losses of all labels, of the shape of p.

    Raises:
        TypeError, ValueError: if `beta` is not in (1, inf), or `probs` are no probabilities.

    Example:
        >>> composite_losses([0.6, 0.8, 0.0] / np.array(1.4), 2).round(4).tolist()
        [0.8, 0.4, 2.0]

    Reference: paper, after Corollary 1; Gneiting and Raftery (2007) for the pseudo-spherical score.
    """
    return _finite(beta) * (1 - _inverse_link(probs, beta))


def _inverse_link(probs: Any, beta: float) -> FloatArray:
    """Return `v = h^(1/beta)`, with h the minimax probabilities of the logits whose worst-case probabilities are p."""
    if _finite(beta) == 1:
        raise ValueError(expected("beta", "above 1, where probabilities tell the margins", beta))
    p = as_probs(probs)
    top = p.max(-1, keepdims=True)
    power = beta / (beta - 1)
    norm = ((p / top) ** power).sum(-1, keepdims=True) ** (1 / power)
    return np.asarray((p / top / norm) ** (power - 1))


def _finite(beta: float) -> float:
    """Return beta as a float; raise an error unless it is a number in [1, inf)."""
    check_beta(beta)
    if math.isinf(beta):
        raise ValueError(expected("beta", "finite", beta))
    return float(beta)


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
    `(1 - eta k/(k-1)) R + eta/(k-1) S`. S, the mean sum of the losses of all classes, is in the range of equation (5).
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
        Both bounds; `clean_regret` bounds R_MAE, the error of a class drawn from the probabilities that h~ predicts.

    Raises:
        TypeError, ValueError: if an argument is outside its domain, or a diagonal entry is not the largest.

    Example:
        >>> bounds = asymmetric_noise_bounds([[0.9, 0.1], [0.2, 0.8]], 1.05)
        >>> round(bounds.noisy_regret, 4), round(bounds.clean_regret, 4)
        (0.0317, 0.0503)

    Reference: paper, after equation (5); Zhang and Sabuncu (2018), theorem 2. The noisy risk is
    `E[T_yy S - sum_{j != y} (T_yy - T_yj) l(j)]`, with S the sum of the losses l(j) of all classes j. For h*, every
    l(j) of a wrong class is beta, the largest loss. The second bound uses `beta - l(j) = beta h_j^(1/beta)`, which is
    at least `beta h_j`.
    """
    matrix = as_array(transition, "transition")
    k = len(matrix)
    if matrix.shape != (k, k) or matrix.min() < 0 or np.abs(matrix.sum(1) - 1).max() > ROUNDED:
        raise ValueError(expected("transition", "square, of rows that sum to one", matrix.shape))
    least, most = loss_sum_bounds(k, beta)
    stays = np.diagonal(matrix)
    margin = float((stays[:, None] - matrix)[~np.eye(k, dtype=bool)].min())
    if margin <= 0:
        raise ValueError(expected("transition", "of diagonal entries that lead their rows", margin))
    kept = float(stays.max()) if prior is None else float(as_array(prior, "prior") @ stays)
    noisy = (most - least) * kept
    return NoiseBounds(noisy, noisy / (beta * margin))


def clean_risk_bound(noisy_risk: float, n_classes: int, noise_rate: float, beta: float) -> float:
    r"""Bound the alpha-risk on clean labels by the alpha-risk on labels with symmetric noise of a known rate.

    .. math:: R_\beta \le \frac{\tilde R_\beta - \beta \eta (k - k^{(\beta - 1)/\beta})/(k - 1)}{1 - \eta k/(k - 1)}

    The bound uses the least possible value of S, the mean sum of the losses of all classes. :func:`~mgce.certify` with
    `beta` and the transition matrix computes S from the examples, and so is tighter.

    Args:
        noisy_risk: R~, or an upper bound of R~, such as that of :func:`linear_risk_bound` with a set of noisy labels.
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
    check_fraction("noise_rate", noise_rate)
    if not noise_rate < (k - 1) / k:
        raise ValueError(expected("noise_rate", f"below {k - 1}/{k}", noise_rate))
