"""Fit the linear MGCE classifier by passes over chunks of rows, for data that do not fit into memory.

As in `mgce.linear`, psi is a row of d features; one of them is the 1 of the intercept. The coefficients mu have a row
for each of k classes. `e_y (x) psi` is the array (k, d) with psi in the row of class y and zeros elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mgce._arrays import one_hot
from mgce._threads import one_blas_thread
from mgce.estimators.base import FloatArray, IntArray
from mgce.linear.objective import moments, phi_and_p
from mgce.linear.progress import entropy


class Descent(NamedTuple):
    """The settings of the stochastic solver.

    `step` and `initial_squares` were tried by ten epochs on four standardised tables (digits, wine, breast_cancer, five
    made classes with noise) at beta from 1.05 to 11. The objective was about 3 % of the trivial value above the least
    one at most. It was up to 10 and 14 % with steps of 1 or 10, up to 5 and 19 % with sums of 0.001 or 10.

    Attributes:
        batch_rows: rows in a step. On 20,000 rows of 100 features, ten epochs come about as near to the solution with
            64 to 1,024, but take half as long again with 64, and a tenth less with 1,024.
        step: learning rate of AdaGrad for rows of length one; the rate is divided by the length of a typical row.
        initial_squares: sum of squared gradients before the first, which keeps the first steps short.
        decay: the weight of iterate t in the average grows as t^3 (Shamir and Zhang, ICML 2013): the start, which is
            far from the solution, is soon forgotten.
        scale_floor: least deviation of a coordinate of `e_y (x) psi`, as a share of the root mean square of its
            feature. A coordinate is below it where fewer than one in 10,000 (0.01 squared) of the rows that have the
            feature are of class y.
        patience: number of epochs in a row that gain too little, after which to stop: a single such epoch may be due to
            the order of its rows.
    """

    batch_rows: int = 256
    step: float = 3.0
    initial_squares: float = 0.1
    decay: float = 3.0
    scale_floor: float = 0.01
    patience: int = 5


DESCENT = Descent()

Rows = tuple[Any, IntArray, FloatArray]  # psi (n, d), classes (n,), weights (n,)
Read = Callable[[], Iterator[Rows]]  # starts a pass over all chunks


@dataclass(eq=False)
class FeatureMoments:
    """Sums over the rows seen so far: of 1, of weights w and w^2, and weighted sums of `e_y (x) psi` and its square.

    The array `e_y (x) psi` has the features psi in the row of class y and zeros elsewhere.
    """

    rows: int

    first: FloatArray  # (k, d), sum of w e_y (x) psi
    second: FloatArray  # (k, d), sum of w (e_y (x) psi)^2
    weight: FloatArray  # (k,), sum of w over the rows of each class
    squares: FloatArray  # (k,), sum of w^2 over the rows of each class

    @classmethod
    def empty(cls, k: int, d: int) -> FeatureMoments:
        """Return sums that are all zero, for k classes and d features."""
        return cls(0, np.zeros((k, d)), np.zeros((k, d)), np.zeros(k), np.zeros(k))

    def add(self, psi: Any, index: IntArray, weight: FloatArray) -> None:
        """Add n rows psi of d features, with class indices (n,) and weights (n,), to the sums."""
        k = self.weight.size
        labels = one_hot(index, k)
        squares = psi.multiply(psi).tocsr() if hasattr(psi, "multiply") else psi**2
        self.first += moments(psi, labels, weight)
        self.second += moments(squares, labels, weight)
        self.weight += np.bincount(index, weight, minlength=k)
        with np.errstate(over="ignore"):
            self.squares += np.bincount(index, np.square(weight), minlength=k)
        self.rows += index.size

    def scaled(self, factors: FloatArray) -> FeatureMoments:
        """Return the sums after multiplying the weights of all rows of class y by `factors[y]`, for k classes."""
        by_class = factors[:, None]
        first, second = self.first * by_class, self.second * by_class
        return FeatureMoments(self.rows, first, second, self.weight * factors, self.squares * factors**2)

    @property
    def effective_rows(self) -> float:
        """Return the effective number of rows: the sum of w, or (sum w)^2 / sum w^2 if that is more; at least 1.

        The sum of w is the number of rows if each weight counts the copies of a row. The other formula is for weights
        that were scaled to sum to one.
        """
        total, squares = self.weight.sum(), self.squares.sum()
        equal = total / squares * total if 0 < squares < np.inf else 1.0
        return float(max(total, equal, 1.0))

    @property
    def length(self) -> float:
        """Return the root mean square of the Euclidean lengths of the rows psi."""
        return float(np.sqrt(self.second.sum() / self.weight.sum()))

    @property
    def deviation(self) -> FloatArray:
        r"""Return the standard deviations s of `e_y (x) psi`, (k, d), at least `scale_floor` times the feature's size.

        The array `e_y (x) psi` has the d features psi in the row of class y, of k classes, and zeros elsewhere.

        The size is the root mean square. Without the lower limit on s, a feature that is zero in all rows of a class
        would not be penalised for this class. A feature that is zero in all rows gets the deviation 1; any positive
        number would do.
        """
        total = self.weight.sum()
        variance = self.second / total - (self.first / total) ** 2
        square = self.second.sum(0) / total
        root_mean_square = np.where(square > 0, np.sqrt(square), 1 / DESCENT.scale_floor)
        return np.asarray(np.maximum(np.sqrt(np.maximum(variance, 0)), DESCENT.scale_floor * root_mean_square))


@dataclass(eq=False)
class AveragedAdaGrad:
    """The optimizer AdaGrad for the MGCE loss, with proximal steps for an L1 penalty and the mean of all iterates."""

    coef: FloatArray  # (k, d)
    average: FloatArray  # (k, d)
    squares: FloatArray  # (k, d), of the gradients so far
    steps: int = 0

    @classmethod
    def start(cls, coef: FloatArray) -> AveragedAdaGrad:
        """Return an optimizer that starts at the given coefficients, shape (k, d) for k classes and d features."""
        return cls(coef.copy(), coef.copy(), np.full_like(coef, DESCENT.initial_squares))

    def step(self, psi: Any, index: IntArray, weight: FloatArray, beta: float, l1: FloatArray, length: float) -> float:
        """Take one step on the weighted loss of n rows psi of d features; return the rows' loss before the step.

        `l1` are the weights of the penalty, shape (k, d) for k classes; `length` is the Euclidean length of a typical
        row psi.
        """
        f = np.ascontiguousarray(psi @ self.coef.T)
        phi, p = phi_and_p(f, beta)
        loss = -phi - f[np.arange(index.size), index]
        gradient = np.asarray((psi.T @ (weight[:, None] * (p - one_hot(index, p.shape[1])))).T)
        self.squares += gradient**2
        rate = DESCENT.step / (length * np.sqrt(self.squares))
        moved = self.coef - rate * gradient
        # The proximal step of the penalty: every coefficient shrinks by rate * l1, to zero if it is smaller.
        self.coef = np.sign(moved) * np.maximum(np.abs(moved) - rate * l1, 0)
        self.steps += 1
        self.average += (DESCENT.decay + 1) / (self.steps + DESCENT.decay) * (self.coef - self.average)
        return float(weight @ loss)


@dataclass(frozen=True, eq=False)
class StreamedProblem:
    """The penalised loss to minimise over rows that are read in chunks."""

    stats: FeatureMoments  # of all rows
    beta: float
    l1: FloatArray  # (k, d)


def run_epoch(solver: AveragedAdaGrad, rows: Rows, order: IntArray, problem: StreamedProblem) -> float:
    """Run the optimizer on batches of the rows, in the given order; return the sum of the rows' weighted losses."""
    psi, index, weight = rows
    stats = problem.stats
    mean_weight, length, loss = stats.weight.sum() / stats.rows, stats.length, 0.0
    for batch in np.array_split(order, -(-order.size // DESCENT.batch_rows)):  # of about the same size
        # The weight that a batch of this size has on average: divided by it, the batch's loss estimates the mean loss.
        unit = mean_weight * batch.size
        loss += unit * solver.step(psi[batch], index[batch], weight[batch] / unit, problem.beta, problem.l1, length)
    return loss


def descend(
    solver: AveragedAdaGrad,
    read: Read,
    problem: StreamedProblem,
    *,
    aim: float,
    max_iter: int,
    random_state: np.random.RandomState,
) -> tuple[int, bool]:
    """Run epochs until several in a row (see `Descent`) lower the objective by less than `aim`; run at most `max_iter`.

    Return the number of epochs, and whether they stopped because the objective fell too little.
    """
    best, since = np.inf, 0
    with one_blas_thread():  # the products of one batch are too small to be shared out over threads
        for epoch in range(1, max_iter + 1):
            loss = sum(run_epoch(solver, rows, random_state.permutation(rows[1].size), problem) for rows in read())
            value = loss / problem.stats.weight.sum() + float((problem.l1 * np.abs(solver.average)).sum())
            since = 0 if value < best - aim else since + 1
            best = min(best, value)
            if since == DESCENT.patience:
                return epoch, True
    return max_iter, False


def measure(coef: FloatArray, read: Read, problem: StreamedProblem) -> tuple[float, float]:
    """Return the objective at `coef`, and a lower bound on the least objective, by two passes over all rows.

    The bound is the value of the dual problem (`mgce.linear.progress`) at class probabilities q of the rows. If the
    mean products of q and the features psi differ by at most l1 from those of the one-hot labels, the mean entropy of q
    is a lower bound. The one-hot labels themselves meet this condition, but their entropy is zero. The worst-case
    probabilities p at the best coefficients give the best bound, but p at `coef` may not meet the condition. So q mixes
    p and the one-hot labels, with the largest share of p that meets the condition. The first pass finds this share, the
    second pass the entropy.
    """
    beta, l1 = problem.beta, problem.l1
    total, residual = problem.stats.weight.sum(), -problem.stats.first
    loss = entropies = 0.0
    for psi, index, weight in read():
        f = np.ascontiguousarray(psi @ coef.T)
        phi, p = phi_and_p(f, beta)
        loss -= float(weight @ (phi + f[np.arange(index.size), index]))
        residual = residual + moments(psi, p, weight)
    out = np.abs(residual) > l1 * total
    share = float((l1[out] * total / np.abs(residual[out])).min(initial=1))
    for psi, index, weight in read():
        p = phi_and_p(np.ascontiguousarray(psi @ coef.T), beta)[1]
        entropies += float(weight @ entropy(share * p + (1 - share) * one_hot(index, p.shape[1]), beta))
    return loss / total + float((l1 * np.abs(coef)).sum()), entropies / total
