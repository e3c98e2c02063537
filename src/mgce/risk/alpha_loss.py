r"""The alpha-loss `l_beta(h, y) = beta (1 - h_y^(1/beta))` of probabilities, and what it says of errors."""

from __future__ import annotations

from mgce import _validation
from mgce.linear.objective import trivial_value


def argmax_factor(beta: float) -> float:
    r"""Give the least C with `argmax error <= C R_beta` for every classifier, where R_beta is its alpha-risk.

    .. math:: C_\beta = \frac{1}{\beta (1 - 2^{-1/\beta})}

    Args:
        beta: float in [1, inf].

    Returns:
        C, from 2 at beta = 1 down to 1/log 2 at infinity.

    Raises:
        TypeError, ValueError: if `beta` is not a number in [1, inf].

    Example:
        >>> [round(argmax_factor(beta), 4) for beta in (1, 1.4, 2, 5)]
        [2.0, 1.8292, 1.7071, 1.545]

    Reference: where the most probable class is wrong, `h_y <= 1/2`, so the alpha-loss is at least
    `beta (1 - 2^(-1/beta))`.
    """
    _validation.check_beta(beta)
    return 1 / trivial_value(2, beta)  # the loss of h = (1/2, 1/2)
