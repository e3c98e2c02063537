r"""The convex problem of linear MGCE (eq. 11): its value and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from mgce.kernels.options import LossOptions
from mgce.linear.arrays import FloatArray, Matrix, moments, product
from mgce.linear.plan import Size
from mgce.losses.fused import loss_and_gradient

Link = Callable[[FloatArray, float], tuple[FloatArray, FloatArray]]


def phi_and_p(margins: FloatArray, beta: float) -> tuple[FloatArray, FloatArray]:
    """Give phi (n,) and the worst-case probabilities p (n, k) of margins (n, k)."""
    f = torch.from_numpy(margins)
    if math.isinf(beta):
        return -f.logsumexp(-1).numpy(), f.softmax(-1).numpy()
    # The loss of class 0 is -f_0 - phi, and its gradient p - e_0. mgce_loss would give the same bits, but on the
    # hundreds of rows that most fits have its checks and its graph cost three times the work.
    label = torch.zeros(len(f), dtype=torch.int64)
    loss, grad = loss_and_gradient(f, label, None, LossOptions(reduction="none"), beta)
    p = grad.numpy()
    p[:, 0] += 1
    return -loss.numpy() - margins[:, 0], p


def trivial_value(n_classes: int, beta: float) -> float:
    """Give the risk of the uniform rule, `beta (1 - k^(-1/beta))`."""
    log_k = math.log(n_classes)
    return log_k if math.isinf(beta) else -beta * math.expm1(-log_k / beta)


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
    def size(self) -> Size:
        """Rows, classes and features."""
        return Size(self.weight.size, *self.tau.shape)

    @property
    def trivial_value(self) -> float:
        """F(0), the risk of the uniform rule."""
        return trivial_value(self.tau.shape[0], self.beta)

    def margins(self, coef: FloatArray) -> FloatArray:
        """Give the margins f, shape (n, k)."""
        return product(self.features, coef.T)

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
