r"""Compute the minimax alpha-risk V_beta of an uncertainty set (eq. 11): an attained value, and a lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgce import _validation
from mgce._arrays import FloatArray, Matrix, as_array, as_labels, as_matrix, one_hot, with_intercept
from mgce.linear.moments import moments
from mgce.linear.objective import phi_and_p
from mgce.linear.progress import EmptyUncertaintySetError
from mgce.linear.solver import fit_linear
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
    _validation.check_beta(beta)
    psi = as_matrix(features)
    if isinstance(uncertainty, UncertaintySet):
        psi = with_intercept(psi, uncertainty.intercept)
        tau, lambda_ = uncertainty.tau, uncertainty.lambda_
    else:
        tau, lambda_ = (as_array(part, "uncertainty") for part in uncertainty)
    if tau.ndim != 2 or tau.shape[1] != psi.shape[1] or lambda_.shape != tau.shape:
        got = f"tau {tau.shape}, lambda {lambda_.shape}"
        raise ValueError(_validation.expected("uncertainty", f"of shapes (k, {psi.shape[1]})", got))
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
    """Return class probabilities of each row that lie well inside the set, or None; the lower bound starts from them.

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
    _validation.check_beta(beta)
    mu, psi = as_array(coef, "coef"), as_matrix(features)
    if mu.ndim != 2 or mu.shape[1] != psi.shape[1]:
        raise ValueError(_validation.expected("coef", f"of shape (k, {psi.shape[1]})", mu.shape))
    n, k = psi.shape[0], mu.shape[0]
    p = phi_and_p(np.ascontiguousarray(psi @ mu.T), float(beta))[1]
    residual = p - one_hot(as_labels(labels, n, k), k)
    penalty = np.broadcast_to(as_array(lambda_, "lambda_"), mu.shape)
    return np.asarray(penalty * np.sign(mu) + moments(psi, residual, np.full(n, 1 / n)))
