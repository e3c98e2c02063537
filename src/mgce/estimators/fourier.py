r"""Define the MGCE classifier that is linear in random Fourier features, for classes that no plane separates."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances
from sklearn.utils import check_random_state
from torch import nn

from mgce._limits import CHUNK_ROWS
from mgce._validation import expected
from mgce.estimators.base import FloatArray, RobustClassifier, largest
from mgce.estimators.fourier_ridge import cosines, drawn_features
from mgce.estimators.linear import MGCEClassifier
from mgce.estimators.parameters import Choice, Interval, checked
from mgce.estimators.torch_modules import Cosines, dense_layers
from mgce.numerics.root import DEFAULT_BETA

MEDIAN_ROWS = 1000  # the median distance of a thousand rows is that of all to a few percent


class MGCEFourierClassifier(RobustClassifier):
    r"""Approximate a classifier with a Gaussian kernel: minimise the MGCE loss over random Fourier features.

    .. math:: f(x) = \mu\,\psi(x), \qquad
              \psi_j(x) = \cos(\omega_j^\top x + b_j) - m_j, \qquad \omega_j \sim \mathcal N(0, 2 \gamma I)

    f are the margins (logits), b is uniform on [0, 2 pi), and m_j is the mean of the cosine over the training rows. An
    inner product of two rows' features is proportional to the kernel `exp(-gamma ||x - x'||^2)`, up to the centring.
    The frequencies omega are drawn once. Only mu is fitted, with an L1 penalty, by :class:`MGCEClassifier`. So the
    problem is convex, and the loss of a mislabelled row grows at most linearly with its margin.

    The kernel depends on distances between rows: put a StandardScaler in front.

    Args:
        beta: loss parameter in [1, inf]: 1 is the most robust, inf is cross-entropy.
        lambda0: strength of the L1 penalty, not negative, as for MGCEClassifier.
        n_components: number of features.
        gamma: gamma of the kernel, positive; or "median" for 1 / (2 m), m the median squared distance of training rows.
        tol: duality gap to reach, as for MGCEClassifier.
        max_iter: largest number of iterations.
        random_state: seed of the frequencies.

    Attributes:
        classes_: the labels of the k classes, shape (k,).
        beta_: the beta of the last fit.
        gamma_: the gamma of the kernel that was used.
        random_weights_, random_offset_: omega, shape (d, n_components), and b.
        means_: m, shape (n_components,).
        linear_: the MGCEClassifier that was fitted to the Fourier features.
        minimax_risk_, duality_gap_, n_iter_: those of `linear_`.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import make_circles
        >>> X, y = make_circles(200, noise=0.05, random_state=0)
        >>> MGCEFourierClassifier(random_state=0).fit(X, y).score(X, y)  # no plane separates circles
        0.98

    Reference: Rahimi and Recht, Random features for large-scale kernel machines, 2007; paper, section 5.
    """

    _domains: ClassVar[dict[str, Any]] = {
        "beta": [Interval(Real, 1, None, closed="both")],
        "lambda0": [Interval(Real, 0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), Choice({"median"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        beta: float = DEFAULT_BETA,
        *,
        lambda0: float = 3e-3,
        n_components: int = 500,
        gamma: float | str = "median",
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.beta = beta
        self.lambda0 = lambda0
        self.n_components = n_components
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEFourierClassifier:
        """Draw the frequencies omega, and fit the coefficients mu.

        Args:
            X: n rows of d features, shape (n, d).
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: weight of each row, not negative, shape (n,).

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        X, index, weight, _ = self._sorted_training(X, y, sample_weight)
        random_state = check_random_state(self.random_state)
        self.gamma_ = _median_gamma(X, random_state) if self.gamma == "median" else float(self.gamma)
        with np.errstate(over="ignore", invalid="ignore"):
            found = drawn_features(X, weight, self.gamma_, self.n_components, random_state)
        self.random_weights_, self.random_offset_, self.means_ = found
        self.linear_ = MGCEClassifier(self.beta, lambda0=self.lambda0, tol=self.tol, max_iter=self.max_iter)
        self.linear_.fit(self._features(X), self.classes_[index], weight)
        self.beta_ = self.linear_.beta_
        self.minimax_risk_, self.duality_gap_ = self.linear_.minimax_risk_, self.linear_.duality_gap_
        self.n_iter_ = self.linear_.n_iter_
        return self

    def _features(self, X: Any) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            found = cosines(X, self.random_weights_, self.random_offset_)
        if not np.isfinite(found).all():
            raise ValueError(
                expected("X", f"of values whose features are finite at gamma = {self.gamma_:.2g}", largest(X))
            )
        return found - self.means_

    def _margin_modules(self) -> list[nn.Module]:
        angles = dense_layers([(self.random_weights_.T, self.random_offset_)])
        return [*angles, Cosines(self.means_), *self.linear_._margin_modules()]

    def _margins(self, X: Any) -> NDArray[np.floating[Any]]:
        parts = [X[first : first + CHUNK_ROWS] for first in range(0, max(1, len(X)), CHUNK_ROWS)]
        return np.concatenate([self.linear_._margins(self._features(part)) for part in parts])


def _median_gamma(X: NDArray[Any], random_state: np.random.RandomState) -> float:
    rows = X[random_state.permutation(len(X))[:MEDIAN_ROWS]]
    median = _median_square(rows)
    if median == 0 and _median_square(rows / np.abs(rows).max(initial=np.finfo(rows.dtype).tiny)) == 0:
        return 1.0  # most rows are equal: their distances give no scale
    if not 0 < median < math.inf or math.isinf(1 / (2 * median)):
        raise ValueError(
            expected("X", "rows whose squared distances fit into float64 (scale the features)", largest(X))
        )
    return 1 / (2 * median)


def _median_square(rows: NDArray[Any]) -> float:
    """Return the median squared distance between two rows; inf if it overflows float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        squared = pairwise_distances(rows, metric="sqeuclidean")[np.triu_indices(len(rows), 1)]
    return float(np.median(np.where(np.isnan(squared), math.inf, squared))) if squared.size else 0.0
