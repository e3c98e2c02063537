r"""Classifier on embeddings with doubtful labels: heads with robust losses, their noise matrix estimated, averaged."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import nn

from mgce._limits import CHUNK_ROWS
from mgce._threads import threads_for
from mgce.estimators.base import FloatArray, IntArray, RobustClassifier, check_single
from mgce.estimators.directions import (
    Coordinates,
    Directions,
    MeanSoftmax,
    SingleArray,
    coordinates,
    fitted_directions,
)
from mgce.estimators.embedding_heads import Search, fitted_heads, folds
from mgce.estimators.parameters import Interval, checked


class MGCEEmbeddingClassifier(RobustClassifier):
    r"""Find a linear head on embeddings whose labels are partly wrong; nothing has to be known of the noise.

    .. math:: p(x) = \frac{1}{M} \sum_{m=1}^{M} \mathrm{softmax}(W_m z(x) + b_m)

    z(x) is the direction of the centred embedding; features that are never negative are replaced by their square roots
    first. Each head minimises a mean loss with an L2 penalty:

    - `robust`: generalised cross-entropy (:func:`mgce.functional.gce_loss`) at beta = 1.2, whose loss of a wrong label
      is bounded;
    - `forward`: generalised cross-entropy at beta = 3 of :math:`p\,T`, with T the noise matrix;
    - `corrected`: cross-entropy with the probabilities of the right classes in place of labels;
    - `corrected_robust`: the same with generalised cross-entropy, and a quarter of the penalty.

    The first two have their penalties chosen by accuracy on noisy folds. All start at a cross-entropy head, `logistic`,
    whose penalty is chosen alike. T is estimated from the predictions of `robust` on rows that it was not fitted to.

    Probabilities of `robust` and of `forward`, times T, are compared: under which of the two are the noisy labels of
    other folds more probable? That head corrects the labels, and `corrected` has its penalty. If it is `forward`,
    T and `forward` are fitted anew to each other while this likelihood rises, and `robust` is left out of the mean.

    Rows and intermediate results are held in float32: fitting needs about 3 n d + 2 d^2 + 10 n k numbers of 4 bytes
    besides X, or n^2 for d^2 if n < d. One million rows of 1,280 features and 10 classes take some 16 GB.

    Args:
        cv: number of folds, at least 2.
        random_state: seed of the folds.

    Attributes:
        classes_: labels, shape (k,).
        beta_: inf, as the margins are logarithms of probabilities.
        head_: the L2 penalty of each head that is averaged, by its name.
        cv_results_: arrays `head`, `l2` and `accuracy`: the share of noisy labels of other folds that was predicted.
        noise_matrix_: T, shape (k, k): the estimated probability that class i is labelled j.
        oof_proba_: for each training row, the mean of the probabilities of `robust` and `forward`, fitted without the
            fold of the row, or those of `forward` where `robust` is left out; shape (n, k). It is not saved to files.
        coefs_, intercepts_: W, shape (M, k, d), and b, shape (M, k), of the heads in the order of `head_`.
        rooted_, means_, scales_, center_: what makes z of x, see :class:`mgce.estimators.directions.Directions`.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> wrong = np.random.default_rng(0).random(len(y)) < 0.4
        >>> noisy = np.where(wrong, (y + 1) % 10, y)  # 40 % of the labels are those of the next digit
        >>> clf = MGCEEmbeddingClassifier(random_state=0).fit(X[:1200], noisy[:1200])
        >>> clf.score(X[1200:], y[1200:]) > 0.85
        True

    Reference: Zhang and Sabuncu, Generalized cross entropy loss, 2018; Patrini et al., Making deep neural networks
    robust to label noise: a loss correction approach, 2017.
    """

    _domains: ClassVar[dict[str, Any]] = {
        "cv": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, *, cv: int = 3, random_state: Any = None) -> None:
        self.cv = cv
        self.random_state = random_state

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEEmbeddingClassifier:
        """Choose and fit the heads.

        Args:
            X: embeddings, shape (n, d), in the range of float32.
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: not negative, shape (n,); rows of weight 0 are left out.

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        X, index, weight, order = self._sorted_training(X, y, sample_weight)
        check_single(X)
        kept = np.flatnonzero(weight > 0)
        rows, target = np.ascontiguousarray(X[kept], dtype=np.float32), index[kept]
        single = (weight[kept] / weight[kept].mean()).astype(np.float32)
        with threads_for(4.0 * rows.size * self.classes_.size):
            follows = self.__dict__.pop("follows_", None)  # what :func:`mgce.estimators.merged.for_chunk` has set
            directions, z = fitted_directions(rows, single) if follows is None else follows._directed(rows)
            space = coordinates(z, single)
            del rows, z  # of them the search needs nothing, and it takes the most time
            oof = self._search(directions, space, target, single)
        self.oof_proba_ = np.full((len(index), self.classes_.size), np.nan)
        self.oof_proba_[order[kept]] = oof
        return self

    def _search(self, directions: Directions, space: Coordinates, target: IntArray, weight: SingleArray) -> FloatArray:
        """Choose and fit the heads to rows in coordinates; return the probabilities out of fold."""
        fold = folds(target, self.cv, check_random_state(self.random_state))
        search = Search(space, target, weight, fold, self.classes_.size)
        heads, oof, self.noise_matrix_ = fitted_heads(search, target)
        self.beta_ = float("inf")
        self.head_ = {name: l2 for name, (l2, _) in heads.items()}
        self.cv_results_ = {name: np.array(values) for name, values in search.results.items()}
        solved = np.stack([head for _, head in heads.values()])  # (M, r + 1, k)
        self.coefs_ = np.stack([(space.axes @ head[:-1]).T for head in solved])
        self.intercepts_ = np.ascontiguousarray(solved[:, -1])
        self.rooted_ = directions.rooted
        for name in ("means", "scales", "center"):
            setattr(self, f"{name}_", getattr(directions, name).numpy().astype(np.float32))
        return oof

    def _directions(self) -> Directions:
        return Directions(self.rooted_, self.means_, self.scales_, self.center_)

    def _directed(self, rows: SingleArray) -> tuple[Directions, SingleArray]:
        directions, z = self._directions(), np.empty_like(rows)
        for first in range(0, len(rows), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            z[part] = directions(torch.tensor(rows[part], dtype=torch.float64)).numpy()
        return directions, z

    def _margin_modules(self) -> list[nn.Module]:
        return [self._directions(), MeanSoftmax(self.coefs_, self.intercepts_)]

    def _margins(self, X: Any) -> NDArray[np.floating[Any]]:
        module = nn.Sequential(*self._margin_modules())
        parts = [X[first : first + CHUNK_ROWS] for first in range(0, max(1, len(X)), CHUNK_ROWS)]
        with torch.no_grad():
            return np.concatenate([module(torch.tensor(part, dtype=torch.float64)).numpy() for part in parts])

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("oof_proba_", None)  # it is as long as the training set, and belongs to it
        return state
