r"""Bound the error of a linear MGCE classifier by an uncertainty set and unlabelled examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import FloatArray, as_array, as_matrix, with_intercept
from mgce.linear.objective import phi_and_p, trivial_value
from mgce.risk.alpha_loss import argmax_factor
from mgce.risk.betting import betting_upper, cells, n_orders, shuffled
from mgce.risk.certificate import RiskCertificate
from mgce.risk.uncertainty import UncertaintySet


def linear_risk_bound(
    coef: Any,  # (k, d)
    uncertainty: UncertaintySet,
    unlabelled: Any,  # (n, d)
    *,
    beta: float,
    delta: float = 0.05,
) -> RiskCertificate:
    r"""Bound the error of a linear MGCE classifier by a certified uncertainty set and new unlabelled examples.

    .. math:: R_{\text{MAE}} \le R_\beta \le -\tau^\top\mu + \lambda^\top|\mu| - \mathrm{LCB}\; E\,\varphi_\beta

    The classifier predicts the probabilities `h = h_beta(mu psi(x))` from the features psi(x). R_MAE is the error of a
    class drawn from h, and R_beta the alpha-risk. LCB is the lower confidence bound of :func:`~mgce.risk.betting_upper`
    on the mean of phi over the unlabelled examples. The set may have been made from the examples that mu was fitted to.
    The set misses the distribution with probability `uncertainty.delta` at most. The LCB exceeds the mean with
    probability `delta` at most. The confidence is 1 minus both. The bound is loose unless k d, the number of classes
    times the number of features, is small; :func:`~mgce.certify` on labelled examples is tighter.

    Args:
        coef: mu, shape (k, d): k classes, d features. The intercept is the last column, if the set has one.
        uncertainty: a certified set.
        unlabelled: features of fresh examples that were used for nothing else, shape (n, d),
            within the set's feature range.
        beta: float in [1, inf].
        delta: probability in (0, 1) with which the bound on the mean of phi may fail.

    Returns:
        A certificate; its bound on the argmax error is the bound on the alpha-risk times `argmax_factor(beta)`.

    Raises:
        TypeError: if `beta` is not a number.
        ValueError: if the set is not certified, or shapes or values do not fit together.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.choice([-1.0, 1.0], (20000, 1))
        >>> u = UncertaintySet.from_samples(x, (x[:, 0] > 0), n_classes=2, feature_range=(-1, 1), delta=0.025)
        >>> bound = linear_risk_bound([[-1, 0], [1, 0]], u, rng.choice([-1.0, 1.0], (5000, 1)), beta=1.4, delta=0.025)
        >>> round(bound.alpha_risk, 3), bound.delta
        (0.024, 0.05)

    Reference: paper, Remark 1, with the marginal estimated.
    """
    _validation.check_beta(beta)
    if not uncertainty.certified or uncertainty.delta is None or uncertainty.feature_range is None:
        raise ValueError(_validation.expected("uncertainty", "certified", f"a {uncertainty.bound} set"))
    mu = as_array(coef, "coef")
    if mu.shape != uncertainty.tau.shape:
        raise ValueError(_validation.expected("coef", f"of shape {uncertainty.tau.shape}", mu.shape))
    psi = with_intercept(as_matrix(unlabelled, "unlabelled"), uncertainty.intercept)
    margins = np.ascontiguousarray(psi @ mu.T)
    phi = phi_and_p(margins, float(beta))[0]
    limits = _range_of_minus_phi(mu, uncertainty.feature_range, float(beta))
    content = cells(np.sort(margins.T)).tobytes()
    turns = range(n_orders(cells(phi)[:, None], delta))
    mean_upper = max(betting_upper(shuffled(-phi, content, turn), delta, limits=limits) for turn in turns)
    risk = float(-(uncertainty.tau * mu).sum() + (uncertainty.lambda_ * np.abs(mu)).sum() + mean_upper)
    return RiskCertificate(
        argmax_error=min(1.0, argmax_factor(beta) * risk),
        randomized_error=min(1.0, risk),
        alpha_risk=min(float(beta), risk),
        delta=uncertainty.delta + delta,
        n=phi.size,
        n_classes=mu.shape[0],
        beta=float(beta),
        noise_rate=0.0,
        assumptions=(
            f"the n = {uncertainty.n} labelled examples of the uncertainty set and the unlabelled ones are independent "
            "draws from the distribution of interest",
            "the range of the features was stated without looking at them",
            "the coefficients were fixed without the unlabelled examples",
        ),
    )


def _range_of_minus_phi(
    mu: FloatArray, feature_range: tuple[FloatArray, FloatArray], beta: float
) -> tuple[float, float]:
    """Return the least and the largest possible value of -phi for features within their range.

    phi is the function of the margins (logits) in the MGCE loss. -phi lies between the largest margin and the largest
    margin plus -phi(0). Reason: adding a constant to all margins lowers phi by this constant, and phi does not rise
    with any margin.
    """
    ends = mu * feature_range[0], mu * feature_range[1]
    least = np.minimum(*ends).sum(1).max()
    most = np.maximum(*ends).sum(1).max() + trivial_value(mu.shape[0], beta)
    # phi is solved to about 1e-14 of the margins: a billionth covers its rounding, and no digit of a bound shows it.
    slack = 1e-9 * (1 + abs(least) + abs(most))
    return float(least - slack), float(most + slack)
