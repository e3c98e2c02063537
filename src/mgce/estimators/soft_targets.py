"""Learn class probabilities of rows from soft targets: linear heads and kernel regression, averaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import linalg
from torch import Tensor

from mgce._arrays import FloatArray, IntArray
from mgce._threads import threads_for
from mgce.estimators.directions import (
    REDUCTION,
    Coordinates,
    SingleArray,
    coordinates,
    fit_head,
    fitted_directions,
    margins,
    softmax,
)
from mgce.functional import gce_loss
from mgce.labels.choosing import most_predicted
from mgce.labels.out_of_fold import folds_of, out_of_fold

# Cross-entropy predicts probabilities, GCE at 1.4 gives up rows that it cannot fit. Their mean is better than either.
# The penalties are those of rows of length 1; on CIFAR-10N a factor of 2 changes no figure by more than 0.2 points.
HEADS = ((float("inf"), 6e-5), (1.4, 3e-5))  # beta and L2 penalty


class Regression(NamedTuple):
    """The settings of kernel regression.

    Attributes:
        widths: candidates for the factor of the squared distance, whose mean is 2; for embeddings only the first.
        ridges: candidates for the variance of the noise, in units of the kernel's variance.
        landmarks: number of rows that span the kernel's functions: with all 6,000 rows, no figure on CIFAR-10N was
            better by 0.1.
        jitter: keeps the landmarks' kernel matrix positive definite in float32.
        factors: candidates for s, from regression to logits: a larger s would make no measurable difference.
    """

    widths: tuple[float, ...] = (0.5, 2.0, 8.0)
    ridges: tuple[float, ...] = tuple(np.geomspace(0.03, 30, 7).round(3).tolist())
    landmarks: int = 2000
    jitter: float = 1e-4
    factors: tuple[float, ...] = tuple(np.geomspace(1, 30, 18).tolist())


REGRESSION = Regression()


class SoftTargetModel:
    r"""Class probabilities from soft targets: the mean of linear heads and of kernel ridge regression.

    .. math:: p(x) = \frac{1}{2} \Bigl( \frac{1}{2} \sum_{m=1}^{2} \mathrm{softmax}(W_m z + b_m)
              + \mathrm{softmax}(s\, g(z)) \Bigr)

    z is the direction of x (:mod:`mgce.estimators.directions`). The heads minimise generalised cross-entropy, at
    infinite beta (cross-entropy) and at 1.4. g is kernel ridge regression of the targets with a Gaussian kernel.
    The chosen ridge and width predict the most probable class of the most left-out rows.

    Args:
        X: features, shape (n, d), in float32.
        cv: number of folds of the heads; the regression leaves out one row at a time.
        random_state: draws folds and landmarks.
    """

    def __init__(self, X: SingleArray, cv: int, random_state: np.random.RandomState) -> None:
        n, d = X.shape
        self._narrow = None
        if d < REDUCTION.fewest:  # columns of a table have units
            spread = X.std(0)
            self._narrow = np.where(spread > 0, spread, 1).astype(np.float32)
            X = X / self._narrow
        even = np.ones(n, np.float32)
        self._directions, z = fitted_directions(X, even)
        self._space: Coordinates = coordinates(z, even)
        self._fold = random_state.permutation(n) % min(cv, n)
        chosen = np.sort(random_state.permutation(n)[: REGRESSION.landmarks])
        self._landmarks = self._space.rows[chosen]
        self._kernel: _Kernel | None = None
        self._narrow_columns = d < REDUCTION.fewest

    def out_of_fold(self, targets: FloatArray) -> FloatArray:
        """Return probabilities of each row by models that were not fitted to its target, shape (n, k)."""
        with threads_for(4.0 * self._space.rows.size * targets.shape[1]):
            heads = self._left_out(targets)
            if self._kernel is None:
                widths = REGRESSION.widths if self._narrow_columns else REGRESSION.widths[:1]
                kernels = (_Kernel(self._space.rows, self._landmarks, width, targets) for width in widths)
                self._kernel = min(kernels, key=lambda kernel: kernel.error)
            return np.asarray((heads + self._kernel.left_out(targets)) / 2)

    def fit(self, targets: FloatArray) -> SoftTargetModel:
        """Fit the heads and the regression to the targets of all rows."""
        assert self._kernel is not None, "out_of_fold chooses the ridge"
        self._heads = self._fitted_heads(targets, np.arange(len(targets)))
        self._kernel.fit(targets)
        return self

    def predict_proba(self, X: SingleArray) -> FloatArray:
        """Return probabilities of new rows, shape (n, k)."""
        assert self._kernel is not None
        X = X if self._narrow is None else X / self._narrow
        with torch.no_grad():
            z = self._directions(torch.from_numpy(X).double()).numpy().astype(np.float32)
        rows = z @ self._space.axes
        heads = [softmax(margins(rows, head)) for head in self._heads]
        return np.asarray((np.mean(heads, 0) + self._kernel.predict(rows)) / 2)

    def _left_out(self, targets: FloatArray) -> FloatArray:
        def predicted(others: IntArray, own: IntArray) -> FloatArray:
            heads = self._fitted_heads(targets, others)
            return np.asarray(np.mean([softmax(margins(self._space.rows[own], head)) for head in heads], 0))

        return out_of_fold(predicted, folds_of(self._fold), (len(targets), targets.shape[1]))

    def _fitted_heads(self, targets: FloatArray, rows: IntArray) -> list[SingleArray]:
        """Return the heads fitted to `rows`; each starts from the head before, so that GCE does not lose a class."""
        wanted = torch.from_numpy(targets[rows].astype(np.float32))
        z, weight = self._space.rows[rows], np.ones(len(rows), np.float32)
        heads = [np.zeros((len(self._space.spread) + 1, targets.shape[1]), np.float32)]
        for beta, l2 in HEADS:
            loss = _soft_loss(wanted, beta)
            heads.append(fit_head(z, self._space.spread, loss, weight, l2, heads[-1]))
        return heads[1:]


def _soft_loss(wanted: Tensor, beta: float) -> Callable[[Tensor], Tensor]:
    return lambda logits: gce_loss(logits, wanted, reduction="none", beta=beta)


class _Kernel:
    """Kernel ridge regression on landmarks, in a basis in which a regression with any ridge takes one matrix product.

    Attributes:
        error: share of left-out rows whose most probable class is not predicted.
    """

    def __init__(self, rows: SingleArray, landmarks: SingleArray, width: float, targets: FloatArray) -> None:
        self._landmarks, self._width = landmarks, width
        own = _gaussian(landmarks, landmarks, width)
        own[np.diag_indices_from(own)] += REGRESSION.jitter
        self._root = linalg.cholesky(own, lower=True)
        features = self._features(rows)
        self._spread, self._basis = np.linalg.eigh(features.T @ features)
        self._spread = np.maximum(self._spread, 0)
        self._rows = features @ self._basis
        self._squares = np.square(self._rows)
        tried = ((self._error(ridge, targets), ridge) for ridge in REGRESSION.ridges)
        self.error, self._ridge = most_predicted((-error, (error, ridge)) for error, ridge in tried)
        self._factor = 1.0

    def left_out(self, targets: FloatArray) -> FloatArray:
        """Return probabilities of each row by a regression without the row."""
        score = self._regressed(targets)
        self._factor = min(REGRESSION.factors, key=lambda s: -(targets * np.log(softmax(s * score) + 1e-12)).sum())
        return softmax(self._factor * score)

    def fit(self, targets: FloatArray) -> None:
        """Fit the regression to all rows."""
        self._mean = targets.mean(0)
        self._coef = self._basis @ self._solved(targets - self._mean)

    def predict(self, rows: SingleArray) -> FloatArray:
        """Return probabilities of new rows."""
        return softmax(self._factor * (self._features(rows) @ self._coef + self._mean))

    def _error(self, ridge: float, targets: FloatArray) -> float:
        """Return the share of left-out rows whose most probable class is not predicted with this ridge."""
        self._ridge = ridge
        return float((self._regressed(targets).argmax(1) != targets.argmax(1)).mean())

    def _features(self, rows: SingleArray) -> SingleArray:
        near = _gaussian(rows, self._landmarks, self._width)
        return np.asarray(linalg.solve_triangular(self._root, near.T, lower=True, overwrite_b=True).T)

    def _solved(self, targets: Any) -> Any:
        return (self._rows.T @ targets.astype(np.float32)) / (self._spread + self._ridge)[:, None]

    def _regressed(self, targets: FloatArray) -> FloatArray:
        """Return the prediction for each row by a regression without the row, by the diagonal of the hat matrix."""
        mean = targets.mean(0)
        leverage = np.minimum(self._squares @ (1 / (self._spread + self._ridge)), 1 - 1e-4)[:, None]
        fitted = self._rows @ self._solved(targets - mean)
        return np.asarray((fitted - leverage * (targets - mean)) / (1 - leverage) + mean)


def _gaussian(rows: SingleArray, others: SingleArray, width: float) -> SingleArray:
    squares = np.square(rows).sum(1)[:, None] + np.square(others).sum(1) - 2 * rows @ others.T
    return np.asarray(np.exp(-np.float32(width) * np.maximum(squares, 0)), dtype=np.float32)
