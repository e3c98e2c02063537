r"""Averaged decision trees whose leaves are large enough to outvote wrong labels, with the links of MGCE."""

from __future__ import annotations

import warnings
from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import _fit_context
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from mgce._validation import expected
from mgce.estimators.base import FloatArray, IntArray, RobustClassifier
from mgce.functional import mgce_loss

FORESTS = {"best": RandomForestClassifier, "random": ExtraTreesClassifier}  # by `splitter`, as a tree spells it
LEAVES = (1, 2, 5, 10, 20, 50)  # clean labels want 1 or 2; with 40 % wrong ones, 5 to 50 were best on all tables tried
SELECTION_ROWS = 10_000  # rows that leaves and splitter are chosen on, at most: twelve forests of them take seconds
SELECTION_TREES = 30  # of such a forest: a row is then judged by about eleven trees, enough to rank the candidates
TREE_ROWS = 100_000  # drawn for one tree, at most, so that forests of millions of rows stay small
LARGEST_SCALE = 100.0  # of the logarithms: margins of a forest that is certain and never wrong would grow for ever
CHUNK_ROWS = 8192  # walked down a tree at once: their node numbers stay in the processor's cache


class MGCEForestClassifier(RobustClassifier):
    r"""Forest whose leaf size is chosen under the labels as given, and whose margins are those of the MGCE loss.

    .. math:: f_y(x) = s \log \bar p_y(x), \qquad \bar p_y(x) = \frac{1}{T} \sum_{t=1}^{T} \hat p_{t,y}(x)

    where p_t(x) are the shares of the classes in the leaf of tree t that x falls into, and the scale s minimises the
    mean MGCE loss of the rows left out of the trees' bootstrap samples. Trees that split until a leaf holds a single
    row memorise wrong labels; in a leaf of m rows, the majority outvotes them. Which m is best depends on the share
    of wrong labels, so it is chosen by out-of-bag accuracy: each row is judged by the trees that have not seen it,
    and labels that are wrong at random lower that accuracy for all candidates alike.

    Scales and units of the features do not matter. Missing values are to be filled in before.

    Args:
        beta: loss parameter in [1, inf], of the scale s and of the links.
        n_estimators: number of trees T.
        splitter: "best" splits (a random forest) or "random" ones (extremely randomised trees), or "oob": chosen.
        min_samples_leaf: fewest rows of a leaf, or "oob": chosen among 1, 2, 5, 10, 20, 50.
        max_features: features tried at a split: a share of them in (0, 1], or "sqrt".
        random_state: seed of the bootstrap samples and the splits.
        n_jobs: trees grown at once, in threads; None for 1, -1 for all cores.

    Attributes:
        classes_: labels, shape (k,).
        beta_: the beta of the links.
        min_samples_leaf_, splitter_: the chosen ones.
        scores_: out-of-bag accuracy of each candidate, shape (number of splitters, number of leaf sizes).
        scale_: s.
        oob_decision_function_: as scikit-learn's forests have it, the mean shares of the classes for every training
            row by the trees that have not seen it, shape (n, k); NaN for a row that all have seen. Not kept in a file.
        least_prob_: what is added to each share before the logarithm, one over the number of training rows.
        tree_starts_, children_, features_, thresholds_, leaf_probs_: the trees, as arrays.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCEForestClassifier(random_state=0).fit(X, y)
        >>> round(clf.score(X, y), 2), clf.predict_proba(X[:1]).round(2)
        (1.0, array([[1., 0., 0.]]))

    Reference: Breiman, Random forests, 2001; Geurts, Ernst and Wehenkel, Extremely randomized trees, 2006.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "beta": [Interval(Real, 1, None, closed="both")],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "splitter": [StrOptions({"best", "random", "oob"})],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left"), StrOptions({"oob"})],
        "max_features": [Interval(Real, 0, 1, closed="right"), StrOptions({"sqrt"})],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        beta: float = 1.4,
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

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEForestClassifier:
        """Choose splitter and leaf size, grow the trees, and scale their logarithms.

        Args:
            X: rows, shape (n, d).
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: not negative, shape (n,).

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        X, index, weight = self._encode_training(X, y, sample_weight)
        random_state = check_random_state(self.random_state)
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        self._choose(X, index, weight, random_state, seed)
        forest = self._grow(self.splitter_, self.min_samples_leaf_, (X, index, weight), seed, self.n_estimators)
        self._keep(forest)
        self.beta_ = float(self.beta)
        self.oob_decision_function_ = _oob_probs(forest, len(self.classes_))
        self.scale_ = _best_scale(self._logs(self.oob_decision_function_), index, weight, self.beta_)
        return self

    def tree_proba(self, X: Any) -> FloatArray:
        """Give the mean shares of the classes in the leaves that rows fall into.

        Args:
            X: rows, shape (n, d).

        Returns:
            Probabilities, shape (n, k), with columns as in `classes_`. Unlike h and p, they do not depend on beta.
        """
        check_is_fitted(self)
        return self._shares(validate_data(self, X, reset=False, dtype=(np.float64, np.float32)))

    def _choose(
        self, X: NDArray[Any], index: IntArray, weight: FloatArray, random_state: np.random.RandomState, seed: int
    ) -> None:
        """Set `splitter_` and `min_samples_leaf_` to the candidates of the best out-of-bag accuracy."""
        splitters: tuple[str, ...] = tuple(FORESTS) if self.splitter == "oob" else (self.splitter,)
        leaves: tuple[Any, ...] = LEAVES if self.min_samples_leaf == "oob" else (self.min_samples_leaf,)
        self.splitter_, self.min_samples_leaf_ = splitters[0], int(leaves[0])
        self.scores_ = np.full((len(splitters), len(leaves)), np.nan)
        if self.scores_.size == 1:
            return
        rows = random_state.permutation(len(X))[:SELECTION_ROWS]
        for place in product(range(len(splitters)), range(len(leaves))):
            part = X[rows], index[rows], weight[rows]
            trees = min(SELECTION_TREES, self.n_estimators)
            forest = self._grow(splitters[place[0]], int(leaves[place[1]]), part, seed, trees)
            judged = np.nan_to_num(_oob_probs(forest, len(self.classes_)))
            self.scores_[place] = np.average(judged.argmax(1) == index[rows], weights=weight[rows])
        best = np.unravel_index(self.scores_.argmax(), self.scores_.shape)  # the first of several, the smaller leaf
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
            warnings.simplefilter("ignore", UserWarning)  # a row that all trees have seen: `_oob` takes care of it
            return forest.fit(X, index, sample_weight=weight)

    def _keep(self, forest: Any) -> None:
        """Take the trees out of scikit-learn's forest: arrays are what a file of this estimator may hold."""
        trees = [tree.tree_ for tree in forest.estimators_]
        starts = np.cumsum([0] + [tree.node_count for tree in trees])
        self.tree_starts_ = starts[:-1]
        children = [np.stack([tree.children_left, tree.children_right], 1) for tree in trees]
        joined = np.concatenate(
            [np.where(pair < 0, -1, pair + start) for pair, start in zip(children, starts[:-1], strict=True)]
        )
        leaf = joined[:, 0] < 0
        joined[leaf, 0] = -1 - np.arange(leaf.sum())  # a leaf's own number, told from a node's by the sign
        self.children_ = joined
        self.features_ = np.concatenate([np.maximum(tree.feature, 0) for tree in trees])
        self.thresholds_ = np.concatenate([tree.threshold for tree in trees])
        shares = np.concatenate([tree.value[:, 0] for tree in trees])[leaf]
        self.leaf_probs_ = (shares / shares.sum(1, keepdims=True)).astype(np.float32)
        self.least_prob_ = 1 / len(forest.oob_decision_function_)

    def _logs(self, probs: FloatArray) -> FloatArray:
        # A class that no leaf of a row has seen gets as much as one row of all would give it, not the logarithm of 0.
        return np.log(probs + self.least_prob_)

    def _margins(self, X: Any) -> FloatArray:
        return self.scale_ * self._logs(self._shares(X))

    def _shares(self, X: Any) -> FloatArray:
        self._check_trees()
        # Trees compare in float32, as they were grown.
        rows = np.ascontiguousarray(X, dtype=np.float32)
        probs = np.zeros((len(rows), len(self.classes_)))
        for first in range(0, len(rows), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            for root in self.tree_starts_:
                probs[part] += self.leaf_probs_[self._leaves(rows[part], int(root))]
        return probs / len(self.tree_starts_)

    def _leaves(self, rows: NDArray[np.float32], root: int) -> IntArray:
        """Give the number of the leaf that each row falls into."""
        node = np.full(len(rows), root)
        inner = np.arange(len(rows)) if self.children_[root, 0] >= 0 else np.arange(0)
        while inner.size:
            here = node[inner]
            right = rows[inner, self.features_[here]] > self.thresholds_[here]
            node[inner] = self.children_[here, right.astype(np.int64)]
            inner = inner[self.children_[node[inner], 0] >= 0]
        return np.asarray(-1 - self.children_[node, 0])

    def _check_trees(self) -> None:
        """Make sure that every walk down a tree ends and stays inside the arrays, whatever file they came from.

        Raises:
            ValueError: if they are no trees.
        """
        n_nodes, leaf = len(self.children_), self.children_[:, 0] < 0
        inner = self.children_[~leaf]
        whole = (
            len(self.features_) == len(self.thresholds_) == n_nodes
            and self.leaf_probs_.shape == (leaf.sum(), len(self.classes_))
            and np.array_equal(np.sort(-1 - self.children_[leaf, 0]), np.arange(leaf.sum()))
            # A child stands behind its parent, so that no walk is a circle.
            and bool((inner > np.flatnonzero(~leaf)[:, None]).all() and (inner < n_nodes).all())
            and bool((self.features_ >= 0).all() and (self.features_ < self.n_features_in_).all())
            and bool((self.tree_starts_ >= 0).all() and (self.tree_starts_ < n_nodes).all())
        )
        if not whole:
            raise ValueError(expected("children_", "the trees of a fitted forest", "arrays that are none"))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("oob_decision_function_", None)  # of the training rows: a model that is shared should not carry them
        return state


def _oob_probs(forest: Any, n_classes: int) -> FloatArray:
    """Give the mean shares of the classes by the trees that have not seen a row; NaN where all have."""
    probs = np.zeros((len(forest.oob_decision_function_), n_classes))
    probs[:, forest.classes_] = forest.oob_decision_function_
    probs[probs.sum(1) == 0] = np.nan
    return probs


def _best_scale(logs: FloatArray, index: IntArray, weight: FloatArray, beta: float) -> float:
    """Give the s in [0, 100] of least mean MGCE loss of the margins s times `logs`: a convex problem in one number."""
    judged = ~np.isnan(logs[:, 0])
    f, target = torch.from_numpy(logs[judged]), torch.from_numpy(index[judged])
    weights = torch.from_numpy(weight[judged])
    if not len(f) or not weights.sum() > 0:
        return 1.0

    def mean_loss(scale: float) -> float:
        return float(mgce_loss(scale * f, target, reduction="none", beta=beta) @ weights / weights.sum())

    return float(minimize_scalar(mean_loss, bounds=(0, LARGEST_SCALE), method="bounded").x)
