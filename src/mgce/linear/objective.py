"""Define the convex problem of linear MGCE, equation (11) of the paper, and choose the methods for its size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from mgce._arrays import FloatArray, Matrix
from mgce.kernels.options import LossArguments, LossOptions
from mgce.losses.fused import loss_and_gradient

# A core multiplies and adds about 2e10 float64 numbers in a second, in a product of matrices. The times below are of
# that.
#
# Largest n k d for the interior-point method, so that it fits into memory: it holds some thirty arrays of shape (n, k)
# and one or two of shape (n, d). From 30 features on these are about as many numbers as n k d, and 2e7 are 160 MB; with
# fewer features it takes more, up to thirty times that with one.
INTERIOR_ENTRIES = 2e7
# Multiplications in a step of the interior-point method. Above 1e9, a twentieth of a second, L-BFGS-B is tried before
# it, since it may close the gap in less time. Below beta = 1.4, where the objective nearly has kinks, it never does.
FIRST_ORDER_WORK = 1e9
KINKS_BELOW = 1.4


@dataclass(frozen=True)
class Patience:
    """Upper limits on the size of a problem for the exact methods.

    Attributes:
        interior_work: largest number of multiplications in a step of the interior-point method, which takes 10 to 150
            steps.
        program_entries: largest number of entries (rows times classes times features) in the matrix of the linear
            program for beta = 1. HiGHS takes seconds for 2e5 and minutes for 2e6 entries.
    """

    interior_work: float
    program_entries: float


# For an estimator, which cross-validation fits hundreds of times: steps of at most a hundredth of a second.
QUICK = Patience(interior_work=2e8, program_entries=2e5)
# For a minimax risk, which is asked for once and whose gap matters: steps of at most a second.
THOROUGH = Patience(interior_work=2e10, program_entries=2e6)


@dataclass(frozen=True)
class Size:
    """The numbers of rows n, classes k, features d and coefficients without L1 term (`free`) of a problem."""

    n: int
    k: int
    d: int
    free: int = 0

    @property
    def entries(self) -> int:
        """The number n k d of combinations of a row, a class and a feature."""
        return self.n * self.k * self.d

    @property
    def work_by_coefficients(self) -> int:
        """The multiplications needed for equations in the k d coefficients: n (k d)^2 + (k d)^3 / 3."""
        return self.n * (self.k * self.d) ** 2 + (self.k * self.d) ** 3 // 3

    @property
    def work_by_margins(self) -> int:
        """The multiplications needed for equations in the n k logits (margins): k d n^2 + 2 (n k + free)^3 / 3."""
        return self.k * self.d * self.n**2 + 2 * (self.n * self.k + self.free) ** 3 // 3

    @property
    def interior_work(self) -> int:
        """The number of multiplications in a step of the interior-point method."""
        return min(self.work_by_coefficients, self.work_by_margins)


def interior_is_affordable(size: Size, patience: Patience) -> bool:
    """Return whether the interior-point method is fast enough and fits into memory."""
    return size.interior_work <= patience.interior_work and size.entries <= INTERIOR_ENTRIES


def plan(size: Size, beta: float, patience: Patience) -> tuple[str, ...]:
    """Return the names of the methods to try in turn, until the gap between objective and lower bound is closed.

    Example:
        >>> plan(Size(n=150, k=3, d=5), 1.0, QUICK)
        ('lp', 'interior', 'lbfgs')
        >>> plan(Size(n=10**6, k=10, d=100), 1.4, QUICK)
        ('lbfgs',)
    """
    methods: tuple[str, ...] = ("lbfgs",)
    if interior_is_affordable(size, patience):
        first_order_first = size.interior_work > FIRST_ORDER_WORK and beta >= KINKS_BELOW
        methods = ("lbfgs", "interior") if first_order_first else ("interior", "lbfgs")
    return ("lp", *methods) if beta == 1 and size.entries <= patience.program_entries else methods


def margins(features: Matrix, coef: FloatArray) -> FloatArray:
    """Return the margins `features @ coef'`, shape (n, k), of coefficients (k, d).

    The product is computed as `coef @ features'` where the features are dense. A few rows times a wide matrix take BLAS
    half the time of a tall matrix times a few columns.
    """
    product = (coef @ features.T).T if isinstance(features, np.ndarray) else features @ coef.T
    return np.ascontiguousarray(product)


def moments(features: Matrix, probs: FloatArray, weight: FloatArray) -> FloatArray:
    r"""Return the moments `sum_i w_i p_i (x) psi_i` of features psi_i under probabilities p_i, shape (k, d).

    w_i are the weights of the rows, k is the number of classes and d that of features. Row y of the result is the
    weighted mean of p_iy psi_i.
    """
    weighted = weight[:, None] * probs
    product = weighted.T @ features if isinstance(features, np.ndarray) else (features.T @ weighted).T
    return np.ascontiguousarray(product)


def block_gram(features: Matrix, pairs: Iterable[FloatArray], k: int, d: int) -> FloatArray:
    r"""Return `sum_i C_i (x) psi_i psi_i'`, shape (k d, k d), for d features psi_i of each row i and matrices C_i.

    (x) is the Kronecker product. The C_i, of shape (k, k), are symmetric, and their rows sum to zero.

    Item y of `pairs` contains the entries left of the diagonal in row y of all C_i, shape (n, y) for n rows. These
    entries suffice: the diagonals follow from the row sums.
    """
    gram = np.zeros((k, d, k, d))
    n = features.shape[0]
    diagonal = np.zeros((n, k))
    for y, below in enumerate(pairs):
        diagonal[:, y] -= below.sum(1)
        diagonal[:, :y] -= below
        for other in range(y):
            gram[y, :, other] = gram[other, :, y] = features.T @ (features * below[:, other : other + 1])
    for y in range(k):
        gram[y, :, y] = features.T @ (features * diagonal[:, y : y + 1])
    return gram.reshape(k * d, k * d)


SCALES = 10.0  # how far the scale of a coefficient may be from that of its feature, as a factor

Link = Callable[[FloatArray, float], tuple[FloatArray, FloatArray]]


def phi_and_p(margins: FloatArray, beta: float) -> tuple[FloatArray, FloatArray]:
    """Return the normalizer phi (n,) and the worst-case probabilities p (n, k) of n rows of k logits (margins)."""
    f = torch.from_numpy(margins)
    if math.isinf(beta):
        return -f.logsumexp(-1).numpy(), f.softmax(-1).numpy()
    # For label 0 the loss is -f_0 - phi, and its gradient p with 1 taken from p_0: phi and p are read off these.
    # mgce_loss would give the same bits, but most fits have some hundred rows, for which its checks of arguments and
    # its autograd graph take three times as long as the loss itself.
    label = torch.zeros(len(f), dtype=torch.int64)
    loss, grad = loss_and_gradient(f, LossArguments(label, None, LossOptions(reduction="none"), beta))
    p = grad.numpy()
    p[:, 0] += 1
    return -loss.numpy() - margins[:, 0], p


def trivial_value(n_classes: int, beta: float) -> float:
    """Return the loss of uniform probabilities 1/k over k classes: `beta (1 - k^(-1/beta))` for every label."""
    log_k = math.log(n_classes)
    return log_k if math.isinf(beta) else -beta * math.expm1(-log_k / beta)


@dataclass(frozen=True, eq=False)
class LinearProblem:
    r"""The problem to minimise `F(mu) = -tau.mu + lambda.|mu| - sum_i w_i phi(mu psi_i)` over coefficients mu (k, d).

    The symbols are defined in the docstring of :mod:`mgce.linear`.
    """

    features: Matrix  # (n, d)
    tau: FloatArray  # (k, d)
    lambda_: FloatArray  # (k, d), not negative
    weight: FloatArray  # (n,), sums to one
    beta: float
    link: Link = phi_and_p

    @property
    def size(self) -> Size:
        """The numbers of rows, classes, features, and coefficients without L1 term."""
        k, d = self.tau.shape
        return Size(self.weight.size, k, d, int((self.lambda_ == 0).sum()))

    @property
    def trivial_value(self) -> float:
        """The value F(0) of the objective at coefficients 0, where all predicted probabilities are uniform."""
        return trivial_value(self.tau.shape[0], self.beta)

    @cached_property
    def scale(self) -> FloatArray:
        r"""The scales s (k, d) of the coefficients: minimisers find s mu rather than mu, so that units do not matter.

        The scale of a feature is its root mean square, divided by the root of k. The scale of a penalised coefficient
        is that of its feature times a factor between 1 / `SCALES` and `SCALES`: the ratio of lambda to scale, divided
        by the median ratio. Then s is about proportional to lambda, and all moments reach their limits at about the
        same time.
        """
        psi, k = self.features, self.tau.shape[0]
        squares = np.asarray((psi.multiply(psi) if hasattr(psi, "multiply") else psi**2).T @ self.weight)
        scale = np.sqrt(np.broadcast_to(squares / k, self.tau.shape))
        scale = np.where(scale > 0, scale, 1.0)
        share, on = self.lambda_ / scale, self.lambda_ > 0
        if on.any():
            scale[on] *= np.clip(share[on] / np.median(share[on]), 1 / SCALES, SCALES)
        return scale

    def margins(self, coef: FloatArray) -> FloatArray:
        """Return the logits (margins) f of all n rows and k classes for the coefficients `coef`, shape (n, k)."""
        return margins(self.features, coef)

    def smooth(self, coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the objective F without its L1 term, the gradient of this part, and the worst-case probabilities."""
        phi, p = self.link(self.margins(coef), self.beta)
        return float(-(self.tau * coef).sum() - self.weight @ phi), self.residual(p), p

    def value(self, coef: FloatArray) -> float:
        """Return the value F(coef) of the objective."""
        return self.smooth(coef)[0] + float((self.lambda_ * np.abs(coef)).sum())

    def residual(self, p: FloatArray) -> FloatArray:
        """Return the moments (mean features of each class) under probabilities p, minus their estimate tau, (k, d).

        p is in the uncertainty set if every entry of the result is at most lambda in absolute value. For the worst-case
        probabilities of coefficients, this is also the gradient of F without its L1 term.
        """
        return moments(self.features, p, self.weight) - self.tau
