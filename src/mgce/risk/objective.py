r"""The convex problem of linear MGCE (eq. 11): its value and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from mgce.numerics import root
from mgce.risk.arrays import FloatArray, Matrix, moments

Link = Callable[[FloatArray, float], tuple[FloatArray, FloatArray]]


def phi_and_p(margins: FloatArray, beta: float) -> tuple[FloatArray, FloatArray]:
    """Give phi (n,) and the worst-case probabilities p (n, k) of margins (n, k)."""
    f = torch.from_numpy(margins)
    top = f.amax(-1, keepdim=True)
    x = f - top
    t = root.newton(x, beta)
    w, _ = root.powers(x, t, beta)
    return (t - top.squeeze(-1)).numpy(), w.div_(w.sum(-1, keepdim=True)).numpy()


@dataclass(frozen=True, eq=False)
class LinearProblem:
    r"""Minimise `F(mu) = -tau.mu + l1.|mu| - sum_i w_i phi(mu psi(x_i))` over mu of shape (k, d)."""

    features: Matrix  # (n, d)
    tau: FloatArray  # (k, d)
    l1: FloatArray  # (k, d), not negative
    weight: FloatArray  # (n,), sums to one
    beta: float
    link: Link = phi_and_p

    @property
    def trivial_value(self) -> float:
        """F(0), the risk of the uniform rule: `beta (1 - k^(-1/beta))`."""
        log_k = math.log(self.tau.shape[0])
        return log_k if math.isinf(self.beta) else -self.beta * math.expm1(-log_k / self.beta)

    def margins(self, coef: FloatArray) -> FloatArray:
        """Give the margins f, shape (n, k)."""
        return np.ascontiguousarray(self.features @ coef.T)

    def smooth(self, coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Give the value of F without its l1 term, the gradient of that, and p."""
        phi, p = self.link(self.margins(coef), self.beta)
        return float(-(self.tau * coef).sum() - self.weight @ phi), self.residual(p), p

    def value(self, coef: FloatArray) -> float:
        """Give F(coef)."""
        return self.smooth(coef)[0] + float((self.l1 * np.abs(coef)).sum())

    def residual(self, p: FloatArray) -> FloatArray:
        """Give the moments of p less tau, shape (k, d); p is in the uncertainty set if it is within l1."""
        return moments(self.features, p, self.weight) - self.tau
