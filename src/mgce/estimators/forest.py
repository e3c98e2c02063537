r"""Define a random forest whose leaves hold enough rows to outvote wrong labels, with the probabilities of MGCE."""

from __future__ import annotations

import warnings
from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from mgce.estimators.base import FloatArray, IntArray, RobustClassifier, check_single
from mgce.estimators.parameters import Choice, Interval, checked
from mgce.estimators.torch_modules import ScaledLog, TreeSums
from mgce.estimators.trees import Nodes, Trees
from mgce.functional import mgce_loss
from mgce.labels.choosing import most_predicted
from mgce.numerics.root import DEFAULT_BETA

LARGEST_SCALE = 100.0  # upper limit of the scale s: for a model that is always right, the loss falls with s for ever


def best_scale(logs: FloatArray, index: NDArray[np.int64], weight: FloatArray, beta: float) -> float:
    """Return the scale s in [0, 100] for which the margins (logits) s * `logs` have the least mean MGCE loss.

    The loss is convex in s. Rows of NaN, for which no model made a prediction, are ignored. If all rows are ignored, s
    is 1.

    Args:
        logs: logarithms of probabilities, each row predicted by models that were not trained on the row, shape
            (n, k) for n rows and k classes.
        index: class indices of the rows, shape (n,).
        weight: weight of each row, shape (n,).
        beta: the beta of the MGCE loss, in [1, inf].
    """
    judged = ~np.isnan(logs[:, 0])
    f, target = torch.from_numpy(logs[judged]), torch.from_numpy(index[judged])
    weights = torch.from_numpy(weight[judged])
    if not len(f) or not weights.sum() > 0:
        return 1.0

    def mean_loss(scale: float) -> float:
        return float(mgce_loss(scale * f, target, reduction="none", beta=beta) @ weights / weights.sum())

    return float(minimize_scalar(mean_loss, bounds=(0, LARGEST_SCALE), method="bounded").x)


FORESTS = {"best": RandomForestClassifier, "random": ExtraTreesClassifier}  # by the `splitter` of scikit-learn's trees
# Candidates for the fewest rows of a leaf. With clean labels 1 or 2 are best; with 40 % of them wrong, 5 to 50 were
# best on all tables tried.
LEAVES = (1, 2, 5, 10, 20, 50)
# The most rows and trees of a forest that is grown only to choose splitter and leaf size: there are twelve such
# forests (2 splitters x 6 leaf sizes), which together take seconds. A bootstrap sample misses a row with probability
# 1/e, so a row has about 30 / e = 11 out-of-bag trees, enough to rank the candidates by accuracy.
SELECTION_ROWS = 5_000
SELECTION_TREES = 30
TREE_ROWS = 100_000  # the most rows in one tree's bootstrap sample, so that forests of millions of rows stay small


class MGCEForestClassifier(RobustClassifier):
    r"""Random forest for noisy labels, with a leaf size that is large enough for the majority to outvote wrong labels.

    .. math:: f_y(x) = s \log \bar p_y(x), \qquad \bar p_y(x) = \frac{1}{T} \sum_{t=1}^{T} \hat p_{t,y}(x)

    f are the margins (logits). :math:`\hat p_t(x)` are the class shares among the training rows in the leaf of tree t
    that x falls into. The scale s minimises the mean MGCE loss of out-of-bag margins. Before the logarithm, 1/n is
    added to :math:`\bar p`, which can be 0; n is the number of training rows.

    Trees that split until a leaf holds a single row memorise wrong labels. In a leaf of m rows, the majority outvotes
    the wrong labels. The best m depends on the share of wrong labels, so it is chosen by out-of-bag accuracy: each row
    is classified by the trees whose bootstrap sample does not contain the row. Labels that are wrong at random lower
    this accuracy for all candidates alike.

    Features need no scaling. Missing values must be filled in beforehand.

    Args:
        beta: loss parameter in [1, inf]; determines the scale s, and the map from margins to probabilities.
        n_estimators: number of trees T.
        splitter: "best" for the best splits (a random forest), "random" for random ones (extremely randomised trees),
            or "oob" to choose between them by out-of-bag accuracy.
        min_samples_leaf: fewest rows of a leaf, or "oob" to choose among 1, 2, 5, 10, 20, 50 by out-of-bag accuracy.
        max_features: number of features tried at a split: as a share in (0, 1] of all features, or "sqrt".
        random_state: seed of the bootstrap samples and the splits.
        n_jobs: number of trees grown at once, in threads; None for 1, -1 for one on each core.

    Attributes:
        classes_: the labels of the k classes, shape (k,).
        beta_: the beta of the last fit.
        min_samples_leaf_, splitter_: the leaf size and the kind of splits that were chosen.
        scores_: out-of-bag accuracy of each candidate, shape (number of splitters, number of leaf sizes).
        scale_: the scale s.
        oob_decision_function_: mean class shares for every training row over its out-of-bag trees, shape (n, k), as in
            scikit-learn's forests; NaN for a row without out-of-bag trees. It is not saved to files.
        least_prob_: the constant 1/n that is added to each share before the logarithm.
        trees_: the trees, as arrays.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCEForestClassifier(random_state=0).fit(X, y)
        >>> round(clf.score(X, y), 2), clf.predict_proba(X[:1]).round(2)
        (0.95, array([[1., 0., 0.]]))

    Reference: Breiman, Random forests, 2001; Geurts, Ernst and Wehenkel, Extremely randomized trees, 2006.
    """

    _of_training = ("oob_decision_function_",)
    _domains: ClassVar[dict[str, Any]] = {
        "beta": [Interval(Real, 1, closed="both")],
        "n_estimators": [Interval(Integral, 1)],
        "splitter": [Choice({"best", "random", "oob"})],
        "min_samples_leaf": [Interval(Integral, 1), Choice({"oob"})],
        "max_features": [Interval(Real, 0, 1, closed="right"), Choice({"sqrt"})],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        beta: float = DEFAULT_BETA,
        *,
        n_estimators: int = 100,
        splitter: str = "oob",
        min_samples_leaf: int | str = "oob",
        max_features: float | str = "sqrt",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.beta = beta
        self.n_estimators = n_estimators
        self.splitter = splitter
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEForestClassifier:
        """Choose the splitter and the leaf size, grow the trees, and choose the scale s of the margins.

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
        random_state = check_random_state(self.random_state)
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        self._choose(X, index, weight, random_state, seed)
        forest = self._grow(self.splitter_, self.min_samples_leaf_, (X, index, weight), seed, self.n_estimators)
        self.trees_ = Trees([_nodes(tree.tree_) for tree in forest.estimators_])
        self.least_prob_ = 1 / len(X)
        self.beta_ = float(self.beta)
        judged = _oob_probs(forest, len(self.classes_))
        self.scale_ = best_scale(self._logs(judged), index, weight, self.beta_)
        self.oob_decision_function_ = np.empty_like(judged)
        self.oob_decision_function_[order] = judged
        return self

    def tree_proba(self, X: Any) -> FloatArray:
        """Return the class shares in the leaves that rows fall into, averaged over the trees.

        Args:
            X: n rows of d features, shape (n, d).

        Returns:
            Probabilities, shape (n, k) for k classes, with columns as in `classes_`. They do not depend on beta.
        """
        check_is_fitted(self)
        return self._shares(validate_data(self, X, reset=False, dtype=(np.float64, np.float32)))

    def _choose(
        self, X: NDArray[Any], index: IntArray, weight: FloatArray, random_state: np.random.RandomState, seed: int
    ) -> None:
        """Set `splitter_` and `min_samples_leaf_` to the pair of candidates with the best out-of-bag accuracy."""
        splitters: tuple[str, ...] = tuple(FORESTS) if self.splitter == "oob" else (self.splitter,)
        leaves: tuple[Any, ...] = LEAVES if self.min_samples_leaf == "oob" else (self.min_samples_leaf,)
        self.splitter_, self.min_samples_leaf_ = splitters[0], int(leaves[0])
        self.scores_ = np.full((len(splitters), len(leaves)), np.nan)
        if self.scores_.size == 1:
            return
        rows = random_state.permutation(len(X))[:SELECTION_ROWS]
        part, trees = (X[rows], index[rows], weight[rows]), min(SELECTION_TREES, self.n_estimators)

        def tried(place: tuple[int, int]) -> float:
            forest = self._grow(splitters[place[0]], int(leaves[place[1]]), part, seed, trees)
            judged = np.nan_to_num(_oob_probs(forest, len(self.classes_)))
            self.scores_[place] = np.average(judged.argmax(1) == index[rows], weights=weight[rows])
            return float(self.scores_[place])

        # Of equal accuracies the first is taken: the smaller leaf.
        best = most_predicted((tried(place), place) for place in product(range(len(splitters)), range(len(leaves))))
        self.splitter_, self.min_samples_leaf_ = splitters[best[0]], int(leaves[best[1]])

    def _grow(
        self, splitter: str, leaf: int, rows: tuple[NDArray[Any], IntArray, FloatArray], seed: int, trees: int
    ) -> Any:
        X, index, weight = rows
        forest = FORESTS[splitter](
            trees,
            min_samples_leaf=leaf,
            max_features=self.max_features,
            bootstrap=True,
            oob_score=True,
            max_samples=min(len(X), TREE_ROWS),
            random_state=seed,
            n_jobs=self.n_jobs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of rows without out-of-bag trees: see `_oob_probs`
            return forest.fit(X, index, sample_weight=weight)

    def _logs(self, probs: FloatArray) -> FloatArray:
        # A class without training rows in any of the row's leaves counts as if it had one of all n rows: no log of 0.
        return np.log(probs + self.least_prob_)

    def _margins(self, X: Any) -> FloatArray:
        return self.scale_ * self._logs(self._shares(X))

    def _margin_modules(self) -> list[nn.Module]:
        self.trees_.check(self.n_features_in_, len(self.classes_))
        sums = TreeSums(self.trees_)
        return [sums, ScaledLog(self.scale_, len(self.trees_.starts), self.least_prob_)]

    def _shares(self, X: Any) -> FloatArray:
        self.trees_.check(self.n_features_in_, len(self.classes_))
        # scikit-learn grows trees on features in float32, so thresholds must be compared with float32 values.
        sums = self.trees_.sums(np.ascontiguousarray(X, dtype=np.float32))
        return np.asarray(sums / len(self.trees_.starts))


def _oob_probs(forest: Any, n_classes: int) -> FloatArray:
    """Return the mean class shares of each training row over its out-of-bag trees; NaN for a row without such trees."""
    probs = np.zeros((len(forest.oob_decision_function_), n_classes))
    probs[:, forest.classes_] = forest.oob_decision_function_
    probs[probs.sum(1) == 0] = np.nan
    return probs


def _nodes(tree: Any) -> Nodes:
    """Convert a tree of scikit-learn to `Nodes`, whose leaves hold class shares."""
    shares = tree.value[:, 0]
    return Nodes.of(tree, shares / shares.sum(1, keepdims=True))
