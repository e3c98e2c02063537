r"""Compute the minimax alpha-risk V_beta of an uncertainty set (eq. 11), and bound the error of a linear classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce._arrays import FloatArray, Matrix, as_array, as_labels, as_matrix, one_hot, with_intercept
from mgce._messages import expected
from mgce._validation import check_beta
from mgce.linear.objective import moments, phi_and_p, trivial_value
from mgce.linear.progress import EmptyUncertaintySetError
from mgce.linear.solver import fit_linear
from mgce.risk.alpha_loss import argmax_factor
from mgce.risk.betting import betting_upper, cells, n_orders, shuffled
from mgce.risk.certificate import RiskCertificate
from mgce.risk.uncertainty import UncertaintySet


@dataclass(frozen=True, eq=False)
class MinimaxRisk:
    """An interval [lower, value] that contains the minimax risk V_beta, and the coefficients that attain `value`."""

    value: float
    lower: float  # -inf where no bound is known
    coef: FloatArray  # (k, d); with an intercept, its column is the last
    beta: float
    n_iter: int
    converged: bool
    method: str  # the one that gave `coef`

    @property
    def gap(self) -> float:
        """The optimality gap `value - lower`: `value` exceeds the minimax risk V_beta by this at most."""
        return self.value - self.lower

    def worst_case_distribution(self, features: Any) -> FloatArray:
        """Return the class probabilities p(y | x) of the worst distribution in the set for the minimax classifier.

        The shape is (n, k): n rows, k classes. `features` are the rows that V was computed on, all equally likely. For
        beta > 1, the moments of the distribution are within lambda of tau and its risk is V, up to the gap (paper,
        Theorem 1 and equation (17)). At beta = 1 there are many solutions, and the returned distribution need not be in
        the set.
        """
        psi = as_matrix(features)
        psi = with_intercept(psi, self.coef.shape[1] == psi.shape[1] + 1)
        return phi_and_p(np.ascontiguousarray(psi @ self.coef.T), self.beta)[1]


def minimax_risk(
    features: Any,  # (n, d)
    uncertainty: UncertaintySet | tuple[Any, Any],
    *,
    beta: float,
    labels: Any = None,  # (n,)
    tol: float = 1e-6,
    max_iter: int = 2000,
    method: str = "auto",
) -> MinimaxRisk:
    r"""Compute the minimax alpha-risk V of an uncertainty set: the least worst-case risk of any linear classifier.

    .. math:: V_\beta = \min_\mu\; -\tau^\top\mu + \lambda^\top|\mu| - \frac1n \sum_i \varphi_\beta(\mu\,\psi(x_i))

    V is the worst-case risk over the set's distributions in which x is drawn from *these rows*. It is no bound on the
    true risk, for two reasons: the set may not be certified, and x is not drawn from these rows but from an unknown
    distribution. :func:`~mgce.risk.linear_risk_bound` solves both: it requires a certified set, and uses fresh rows.

    Args:
        features: psi, shape (n, d): n rows, d features. Dense or sparse; without the column of ones that the set adds.
        uncertainty: the set, or a pair (tau, lambda), each of shape (k, d) for k classes, used with the features as
            they are.
        beta: float in [1, inf]. For beta = 1 the problem is a linear program.
        labels: labels of the rows, integers, shape (n,). They do not change V, but make `lower` easier to find.
        tol: the gap to reach, as a share of the trivial risk `beta (1 - k^(-1/beta))`.
        max_iter: largest number of iterations of L-BFGS-B.
        method: `"auto"`, `"interior"`, `"lbfgs"`, `"columns"` or `"lp"`, as in :func:`~mgce.risk.fit_linear`.

    Returns:
        Value, lower bound, coefficients, and whether value minus lower bound reached `tol`. The same size limits
        hold as for :func:`~mgce.risk.fit_linear`.

    Raises:
        TypeError: if `beta` is not a number.
        ValueError: if shapes or values do not fit together, or the set is empty on these rows.

    Example:
        >>> x, y = np.array([[-2.0], [-1], [-0.5], [0.5], [1], [2]]), [0, 0, 1, 0, 1, 1]
        >>> tau = np.array([[-2.5, 3], [2.5, 3]]) / 6
        >>> v = minimax_risk(np.hstack([x, np.ones((6, 1))]), (tau, np.full((2, 2), 0.05)), beta=2)
        >>> round(v.value, 5), round(v.lower, 5)
        (0.39367, 0.39367)

    Reference: paper, equations (11) and (12).
    """
    check_beta(beta)
    psi = as_matrix(features)
    if isinstance(uncertainty, UncertaintySet):
        psi = with_intercept(psi, uncertainty.intercept)
        tau, lambda_ = uncertainty.tau, uncertainty.lambda_
    else:
        tau, lambda_ = (as_array(part, "uncertainty") for part in uncertainty)
    if tau.ndim != 2 or tau.shape[1] != psi.shape[1] or lambda_.shape != tau.shape:
        got = f"tau {tau.shape}, lambda {lambda_.shape}"
        raise ValueError(expected("uncertainty", f"of shapes (k, {psi.shape[1]})", got))
    anchor = None if labels is not None else _anchor(psi, tau, lambda_)
    fit = fit_linear(
        psi,
        beta=beta,
        lambda_=lambda_,
        tau=tau,
        labels=labels,
        anchor=anchor,
        tol=tol,
        max_iter=max_iter,
        method=method,
    )
    return MinimaxRisk(fit.value, fit.lower, fit.coef, float(beta), fit.n_iter, fit.converged, fit.method)


def _anchor(psi: Matrix, tau: FloatArray, lambda_: FloatArray) -> FloatArray | None:
    """Return class probabilities inside the uncertainty set, from which the lower bound starts, or None.

    The probabilities are the worst case of the set with half its lambda. So even a coarse solution (`tol`) is inside
    the whole set. Any probabilities inside would do; beta = 2 is used because the problem is smooth there.
    """
    try:
        fit = fit_linear(psi, beta=2.0, lambda_=lambda_ / 2, tau=tau, tol=1e-3)
    except EmptyUncertaintySetError:
        return None
    return phi_and_p(np.ascontiguousarray(psi @ fit.coef.T), 2.0)[1]


def stochastic_gradient(
    coef: Any,  # (k, d)
    features: Any,  # (n, d)
    labels: Any,  # (n,)
    *,
    beta: float,
    lambda_: Any = 0.0,
) -> FloatArray:
    r"""Return a stochastic subgradient of the objective of equation (11), computed from some rows and their labels.

    .. math:: g = \lambda \odot \mathrm{sign}(\mu) + \frac1n \sum_i \Big(\sum_y p_\beta(y | x_i)\, \Phi(x_i, y)
        - \Phi(x_i, y_i)\Big)

    Args:
        coef: coefficients mu, shape (k, d): k classes, d features.
        features: psi of the rows, shape (n, d), with a column of ones for an intercept.
        labels: integers in 0..k-1, shape (n,).
        beta: float in [1, inf].
        lambda_: the widths, not negative: a number, or what broadcasts to (k, d).

    Returns:
        g, shape (k, d). Where mu is zero, the sign is taken as zero.

    Raises:
        TypeError: if `beta` is not a number.
        ValueError: if shapes or values do not fit together.

    Example:
        >>> stochastic_gradient(np.zeros((2, 1)), [[1.0], [2.0]], [0, 1], beta=2).tolist()
        [[0.25], [-0.25]]

    Reference: paper, equations (21) and (22).
    """
    check_beta(beta)
    mu, psi = as_array(coef, "coef"), as_matrix(features)
    if mu.ndim != 2 or mu.shape[1] != psi.shape[1]:
        raise ValueError(expected("coef", f"of shape (k, {psi.shape[1]})", mu.shape))
    n, k = psi.shape[0], mu.shape[0]
    p = phi_and_p(np.ascontiguousarray(psi @ mu.T), float(beta))[1]
    residual = p - one_hot(as_labels(labels, n, k), k)
    penalty = np.broadcast_to(as_array(lambda_, "lambda_"), mu.shape)
    return np.asarray(penalty * np.sign(mu) + moments(psi, residual, np.full(n, 1 / n)))


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
    check_beta(beta)
    if not uncertainty.certified or uncertainty.delta is None or uncertainty.feature_range is None:
        raise ValueError(expected("uncertainty", "certified", f"a {uncertainty.bound} set"))
    mu = as_array(coef, "coef")
    if mu.shape != uncertainty.tau.shape:
        raise ValueError(expected("coef", f"of shape {uncertainty.tau.shape}", mu.shape))
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
