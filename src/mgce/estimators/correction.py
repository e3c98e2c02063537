r"""Define the classifier that estimates the right labels of its training rows, and then learns from these."""

from __future__ import annotations

import math
import warnings
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils import check_random_state
from torch import nn

from mgce.estimators.base import FloatArray, RobustClassifier, check_single
from mgce.estimators.forest import LARGEST_SCALE, SELECTION_ROWS, SELECTION_TREES, TREE_ROWS
from mgce.estimators.fourier_ridge import FourierRidge, on_simplex
from mgce.estimators.parameters import Interval, checked
from mgce.estimators.torch_modules import Cosines, ForestAndRegression, ScaledLog, TreeSums, dense_layers
from mgce.estimators.trees import Nodes, Trees
from mgce.labels.correction import correct
from mgce.labels.sharpened import sharpened

# Candidates for the fewest rows of a leaf on the given labels: powers of about three, from leaves that memorise every
# label to leaves in which 40 % of wrong ones are outvoted.
LEAVES = (1, 3, 10)
# Rows times classes of a tree's bootstrap sample. A node has a number for each class, some 15 bytes a cell in all: a
# hundred trees take 1.5 GB at most. Up to ten classes this is no limit.
TREE_CELLS = 1_000_000
CORRECTED_LEAF = 2  # on estimates of right labels, which are smooth: 1 to 3 differ by chance only


class LabelCorrectionClassifier(RobustClassifier):
    r"""Estimate the right label of every training row, and learn from the estimates: a forest and a kernel regression.

    .. math:: p_i = \tfrac12 \big(p_i^{\text{forest}} + p_i^{\text{kernel}}\big), \qquad
              r_{ic} \propto q_{ic}\, T_{c y_i}, \qquad p_i \approx q_i T, \qquad
              f(x) = s \log \tfrac12 \big(g^{\text{forest}}(x) + g^{\text{kernel}}(x)\big)

    First a forest and a kernel ridge regression learn the given labels y. Their mean p predicts each training row
    without its own label: by out-of-bag trees, and by leaving one row out. From p follow the noise matrix T, the
    probabilities q of right labels, and with the given label r: see :func:`mgce.labels.correction.correct`.
    Then both models learn r, shape (n, k), instead of the labels: g are the models so fitted. A mean of trees and a
    regression with a penalty are less sure than their targets, most of all with many features. The scale s corrects
    this. Predictions by g for left-out rows have one scale with the least cross-entropy to q, and another one with the
    least to the given labels. s is the larger scale: a right label is no less probable than a label that may be wrong.
    For s, q is computed from p sharpened by :func:`mgce.labels.sharpened.sharpened`. The margins f (logits) are those
    of cross-entropy, so :meth:`predict_proba` returns estimated probabilities of right labels.

    No row is left out, and no share of wrong labels has to be known. Distances between rows matter to the kernel: put a
    StandardScaler in front. Missing values must be filled in beforehand.

    Args:
        n_estimators: number of trees of a forest.
        n_components: number of random Fourier features of the kernel.
        random_state: seed of bootstrap samples, splits and features.
        n_jobs: number of trees grown at once, in threads; None for 1, -1 for one on each core.

    Attributes:
        classes_: the labels of the k classes, shape (k,).
        beta_: inf: the margins are those of cross-entropy.
        left_out_proba_: p, probabilities of given labels by models that had not learnt the row's label, (n, k).
        right_proba_: r, the probability of each class to be the right one of a training row, given its label, (n, k).
            Both are NaN for rows of weight zero, which are left out, and are not saved to files.
        transition_: T, the estimated probability that a row of class i is given the label j, shape (k, k).
        leaf_: the fewest rows of a leaf of the forest on the given labels.
        trees_, ridge_: g, the trees and the kernel regression.
        scale_: the scale s.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import make_moons
        >>> X, right = make_moons(400, noise=0.1, random_state=0)
        >>> given = np.where(np.random.default_rng(0).random(400) < 0.3, 1 - right, right)  # 29 % are wrong
        >>> model = LabelCorrectionClassifier(random_state=0).fit(X, given)
        >>> round(model.score(X, right), 2), round(float((model.right_proba_.argmax(1) == right).mean()), 2)
        (0.98, 0.92)

    Reference: Breiman, Random forests, 2001; Rahimi and Recht, Random features for large-scale kernel machines, 2007;
    Patrini et al., Making deep neural networks robust to label noise: a loss correction approach, 2017 (for p = q T);
    Guo et al., On calibration of modern neural networks, 2017 (s is one over their temperature).
    """

    _of_training = ("left_out_proba_", "right_proba_")
    _domains: ClassVar[dict[str, Any]] = {
        "n_estimators": [Interval(Integral, 1)],
        "n_components": [Interval(Integral, 1)],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        n_components: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LabelCorrectionClassifier:
        """Learn the given labels, estimate the right ones, and learn these.

        Args:
            X: n rows of d features, shape (n, d).
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: weight of each row, not negative, shape (n,).

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        X, index, weight, order = self._sorted_training(X, y, sample_weight)
        check_single(X)
        self.left_out_proba_, self.right_proba_ = np.full((2, len(X), len(self.classes_)), np.nan)
        # A bootstrap sample of rows without weight would grow no tree.
        counted = weight > 0
        X, index, weight, order = X[counted], index[counted], weight[counted], order[counted]
        self.beta_, self.least_prob_ = math.inf, 1 / len(X)
        random_state = check_random_state(self.random_state)
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        given = np.eye(len(self.classes_))[index]
        some = np.sort(random_state.permutation(len(X))[:SELECTION_ROWS])
        tried = X[some], given[some], weight[some]
        # What :func:`mgce.estimators.merged.for_chunk` has set: the model of another chunk, and how many trees to keep.
        first, n_trees = self.__dict__.pop("follows_", (None, self.n_estimators))
        leaves = LEAVES if first is None else (first.leaf_,)

        def error(leaf: int) -> float:
            return _error(self._grown(*tried, leaf, seed, SELECTION_TREES), *tried[1:])

        self.leaf_ = min(leaves, key=error) if len(leaves) > 1 else leaves[0]
        by_trees = _out_of_bag(self._grown(X, given, weight, self.leaf_, seed, self.n_estimators))
        like = None if first is None else first.ridge_
        self.ridge_ = FourierRidge(X, given, weight, self.n_components, random_state, like)
        probs = (by_trees + on_simplex(self.ridge_.fit(given))) / 2
        correction = correct(probs, index)
        self.transition_ = correction.transition
        by_ridge = on_simplex(self.ridge_.fit(correction.probs))
        self.ridge_.forget()
        forest = self._grown(X, correction.probs, weight, CORRECTED_LEAF, seed, n_trees)
        grown = [tree.tree_ for tree in forest.estimators_]
        self.trees_ = Trees([Nodes.of(tree, tree.value[:, :, 0]) for tree in grown])  # leaves hold probabilities
        left_out = np.log((_out_of_bag(forest) + by_ridge) / 2 + self.least_prob_)
        of_row = correct(sharpened(probs, index), index).of_row
        self.scale_ = max(_scale(left_out, of_row, weight), _scale(left_out, given, weight))
        self.left_out_proba_[order], self.right_proba_[order] = probs, correction.probs
        return self

    def _grown(self, X: FloatArray, target: FloatArray, weight: FloatArray, leaf: int, seed: int, n_trees: int) -> Any:
        """Return a fitted forest that regresses targets, shape (n, k): the mean of probabilities in each leaf."""
        forest = RandomForestRegressor(
            n_trees,
            min_samples_leaf=leaf,
            max_features="sqrt",
            max_samples=min(len(X), TREE_ROWS, max(1, TREE_CELLS // target.shape[1])),
            oob_score=True,
            random_state=seed,
            n_jobs=self.n_jobs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of rows without out-of-bag trees: see `_out_of_bag`
            return forest.fit(X, target, sample_weight=weight)

    def _margins(self, X: Any) -> FloatArray:
        self.trees_.check(self.n_features_in_, len(self.classes_))
        sums = self.trees_.sums(np.ascontiguousarray(X, dtype=np.float32))
        mean = (sums / len(self.trees_.starts) + on_simplex(self.ridge_.predict(X))) / 2
        return np.asarray(self.scale_ * np.log(mean + self.least_prob_))

    def _margin_modules(self) -> list[nn.Module]:
        self.trees_.check(self.n_features_in_, len(self.classes_))
        ridge = self.ridge_
        angles = dense_layers([(ridge.random_weights_.T, ridge.random_offset_)])
        regression = nn.Sequential(*angles, Cosines(ridge.means_), *dense_layers([(ridge.coef_, ridge.intercept_)]))
        trees = TreeSums(self.trees_)
        return [
            ForestAndRegression(trees, len(self.trees_.starts), regression),
            ScaledLog(self.scale_, 2, self.least_prob_),
        ]


def _out_of_bag(forest: Any) -> FloatArray:
    """Return each row's mean leaf value over its out-of-bag trees, (n, k); without such trees, equal probabilities."""
    return on_simplex(forest.oob_prediction_)  # scikit-learn gives zeros to a row without


def _error(forest: Any, target: FloatArray, weight: FloatArray) -> float:
    return float(weight @ np.square(_out_of_bag(forest) - target).sum(1))


def _scale(logs: FloatArray, right: FloatArray, weight: FloatArray) -> float:
    """Return s for which softmax(s `logs`) has the least cross-entropy to the probabilities `right`, both (n, k)."""
    said = (right * logs).sum(1)

    def loss(scale: float) -> float:
        return float(weight @ (logsumexp(scale * logs, axis=1) - scale * said))

    return float(minimize_scalar(loss, bounds=(0, LARGEST_SCALE), method="bounded").x)
