r"""Regress class probabilities on random Fourier features: kernel ridge regression that keeps no training row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.kernel_approximation import RBFSampler

from mgce._arrays import FloatArray
from mgce._limits import CHUNK_ROWS

WIDTHS = (0.1, 0.3, 1.0, 3.0)  # of the kernel, as factors of scikit-learn's gamma="scale"
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # on the scale of the kernel, whose largest value is 1
WIDTH_ROWS = 2_000  # by which the width is chosen: neighbouring widths hardly differ
MOST_ROWS = 20_000  # that are regressed: 20 for each of 1,000 features, which take 160 MB; more change little
LEAST_VARIANCE = float(np.finfo(np.float32).tiny)  # of all values: those of constant columns have none
LEAST = 1e-6  # of a probability before the sum is made 1: no class is impossible


class FourierRidge:
    r"""Ridge regression of class probabilities on random Fourier features of a Gaussian kernel.

    .. math:: g(x) = A\,\big(\psi(x) - m\big) + b, \qquad \psi_j(x) = \cos(\omega_j^\top x + c_j)

    The chosen width and ridge have the least squared error of left-out rows. The error of a left-out row has a closed
    form, so nothing is fitted twice.

    Args:
        X: training rows, shape (n, d).
        target: the targets by which the width is chosen, shape (n, k).
        weight: weight of each row, shape (n,).
        n_components: number D of features.
        random_state: draws omega, c, and the rows that choose the width.
        like: a ridge regression whose features are used; None to choose the width and draw features.

    Attributes:
        random_weights_, random_offset_: omega, shape (d, D), and c, shape (D,).
        means_: m, shape (D,).
        coef_, intercept_: A, shape (k, D), and b, shape (k,), of the last :meth:`fit`.

    Reference: Rahimi and Recht, Random features for large-scale kernel machines, 2007; Hastie, Tibshirani and Friedman,
    The elements of statistical learning, 2nd edition, 2009, section 7.10 (the error of left-out rows).
    """

    random_weights_: FloatArray
    random_offset_: FloatArray
    means_: FloatArray

    def __init__(
        self,
        X: FloatArray,
        target: FloatArray,
        weight: FloatArray,
        n_components: int,
        random_state: Any,
        like: FourierRidge | None = None,
    ) -> None:
        gamma = 1 / (X.shape[1] * max(float(X.var(dtype=np.float64)), LEAST_VARIANCE))
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        drawn = random_state.permutation(len(X))
        some, self._kept = np.sort(drawn[:WIDTH_ROWS]), np.sort(drawn[:MOST_ROWS])
        errors = []
        for width in WIDTHS if like is None else ():
            self._draw(X[some], weight[some], width * gamma, n_components, seed)
            part = _Rows(self.features(X[some]), weight[some])
            errors.append(min(part.error(target[some], ridge) for ridge in RIDGES))
        if like is None:
            self._draw(X[self._kept], weight[self._kept], WIDTHS[int(np.argmin(errors))] * gamma, n_components, seed)
        else:
            self.random_weights_, self.random_offset_ = like.random_weights_, like.random_offset_
            self.means_ = like.means_
        self._rows = _Rows(self.features(X[self._kept]), weight[self._kept])
        self._others = X[np.setdiff1d(np.arange(len(X)), self._kept)]

    def _draw(self, X: FloatArray, weight: FloatArray, gamma: float, n_components: int, seed: int) -> None:
        found = drawn_features(X, weight, gamma, n_components, seed)
        self.random_weights_, self.random_offset_, self.means_ = found

    def fit(self, target: FloatArray) -> FloatArray:
        """Choose the ridge and fit; return the prediction for each row by a regression without the row, (n, k)."""
        wanted = target[self._kept]
        ridge = min(RIDGES, key=lambda ridge: self._rows.error(wanted, ridge))
        self.coef_, self.intercept_ = self._rows.coef(wanted, ridge)
        others = np.setdiff1d(np.arange(len(target)), self._kept)
        found = np.empty_like(target)
        found[self._kept], found[others] = self._rows.left_out(wanted, ridge), self.predict(self._others)
        return found

    def forget(self) -> None:
        """Delete the rows and their features, which only :meth:`fit` needs."""
        del self._rows, self._others, self._kept

    def features(self, X: FloatArray) -> FloatArray:
        """Return the centred features psi - m of rows X, shape (n, D)."""
        return cosines(X, self.random_weights_, self.random_offset_) - self.means_

    def predict(self, X: FloatArray) -> FloatArray:
        """Return g of rows X, shape (n, k)."""
        found = np.empty((len(X), len(self.intercept_)))
        for first in range(0, len(X), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            found[part] = self.features(X[part]) @ self.coef_.T + self.intercept_
        return found


def drawn_features(
    X: FloatArray, weight: FloatArray, gamma: float, n_components: int, random_state: Any
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw D random Fourier features of a Gaussian kernel: frequencies (d, D), offsets (D,) and mean cosines (D,).

    Args:
        X: rows, shape (n, d), whose weighted mean cosines are returned.
        weight: weight of each row, shape (n,).
        gamma: gamma of the kernel exp(-gamma ||x - x'||^2).
        n_components: D.
        random_state: draws the frequencies and offsets.
    """
    sampler = RBFSampler(gamma=gamma, n_components=n_components, random_state=random_state).fit(X.astype(np.float64))
    weights, offset = sampler.random_weights_, sampler.random_offset_
    return weights, offset, np.average(cosines(X, weights, offset), axis=0, weights=weight)


def cosines(X: FloatArray, weights: FloatArray, offset: FloatArray) -> FloatArray:
    """Return the cosines of the angles of rows, shape (n, D); NaN where an angle overflows."""
    angles = np.asarray(X, dtype=np.float64) @ weights + offset
    # PyTorch's cosine uses the processor's vector instructions and NumPy's, in double precision, does not: 4 and 39 ns
    # for a feature.
    return np.asarray(torch.from_numpy(angles).cos_().numpy())


class _Rows:
    """Features of rows, in a basis in which a regression with any ridge takes one matrix product."""

    def __init__(self, features: FloatArray, weight: FloatArray) -> None:
        self._share = weight / weight.sum()
        self._weight = (weight / weight.mean())[:, None]
        # The mean square of a cosine is 1/2: with this factor the kernel's largest value is 1.
        self._unit = 2 / features.shape[1]
        self._spread, self._basis = _spectrum(np.sqrt(self._unit * self._weight) * features)
        self._turned = features @ self._basis
        self._squares = self._unit * self._weight * np.square(self._turned)

    def left_out(self, target: FloatArray, ridge: float) -> FloatArray:
        """Return the prediction for each row by a regression without the row, by the diagonal of the hat matrix."""
        mean = self._share @ target
        # The first part is the row's share in the intercept.
        leverage = np.minimum(self._share + self._squares @ (1 / (self._spread + ridge)), 1 - 1e-6)[:, None]
        fitted = self._turned @ self._solved(target - mean, ridge) + mean
        return np.asarray((fitted - leverage * target) / (1 - leverage))

    def error(self, target: FloatArray, ridge: float) -> float:
        """Return the mean squared error of the predictions for left-out rows."""
        return float(self._share @ np.square(self.left_out(target, ridge) - target).sum(1))

    def coef(self, target: FloatArray, ridge: float) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients and the intercept of the regression on all rows."""
        mean = self._share @ target
        return np.asarray((self._basis @ self._solved(target - mean, ridge)).T), mean

    def _solved(self, target: FloatArray, ridge: float) -> FloatArray:
        moments = self._unit * self._turned.T @ (self._weight * target)
        return np.asarray(moments / (self._spread + ridge)[:, None])


def _spectrum(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues (m,) and eigenvectors (D, m) of X'X for rows X; zeros may be left out.

    With fewer rows than features, XX' has the same nonzero eigenvalues and is solved sooner.
    """
    if len(rows) >= rows.shape[1]:
        spread, basis = np.linalg.eigh(rows.T @ rows)
        return np.maximum(spread, 0), basis
    spread, of_rows = np.linalg.eigh(rows @ rows.T)
    some = spread > max(float(spread[-1]), np.finfo(np.float64).tiny) * 1e-12  # below, rounding decides
    return spread[some], rows.T @ (of_rows[:, some] / np.sqrt(spread[some]))


def on_simplex(values: FloatArray) -> FloatArray:
    """Cut values (n, k) off at 0 and 1, add `LEAST`, and divide each row by its sum; return these probabilities."""
    probs = np.clip(values, 0, 1) + LEAST
    return np.asarray(probs / probs.sum(1, keepdims=True))
