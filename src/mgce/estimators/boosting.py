r"""Define gradient boosting on labels that a random forest has corrected, with the probabilities of MGCE."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import check_random_state
from torch import nn

from mgce.estimators.base import FloatArray, IntArray, RobustClassifier
from mgce.estimators.forest import MGCEForestClassifier
from mgce.estimators.parameters import Interval, checked
from mgce.estimators.torch_modules import Baseline, TreeSums
from mgce.estimators.trees import Nodes, Trees
from mgce.labels.confident import confident_labels
from mgce.numerics.root import DEFAULT_BETA


class MGCEBoostingClassifier(RobustClassifier):
    r"""Correct labels with a random forest, then fit scikit-learn's gradient boosting to the corrected labels.

    .. math:: f_j(x) = b_j + \sum_{t=1}^{T} g_{t,j}(x)

    f_j is the margin (logit) of class j. :math:`b_j` is the logarithm of the share of class j among the labels, up to a
    constant. The trees :math:`g_{t,j}` reduce cross-entropy step by step. With enough steps, boosting fits every label,
    wrong ones too. So a :class:`MGCEForestClassifier` first predicts each row by the trees that were not trained on the
    row. If a row confidently belongs to another class than its label says (:func:`mgce.noise.confident_labels`), the
    label is replaced by the class that the forest finds most probable.

    Features need no scaling. Missing values must be filled in beforehand.

    Args:
        beta: loss parameter in [1, inf]; affects only :meth:`predict_proba` and :meth:`worst_case_proba`.
        max_iter: number of boosting steps T.
        learning_rate: factor by which the values of every tree are multiplied, positive.
        max_leaf_nodes: largest number of leaves of a tree.
        min_samples_leaf: fewest rows of a leaf.
        correct: whether to correct the labels first.
        forest: the :class:`MGCEForestClassifier` that judges the labels; None for one of 100 trees. It is cloned.
        random_state: seed of the default forest, and of the rows held out for early stopping. With 10,000 rows or
            fewer, none are held out and boosting does not stop early.
        n_jobs: number of trees of the default forest grown at once; None for 1, -1 for one on each core.

    Attributes:
        classes_: the labels of the k classes, shape (k,).
        beta_: the beta of the last fit.
        labels_: the corrected labels of the training rows, shape (n,). It is not saved to files.
        baseline_: the constants b_j, shape (k,); for two classes shape (1,), b of the second class minus b of the
            first.
        n_iter_: the number of boosting steps.
        trees_: the trees, as arrays.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCEBoostingClassifier(max_iter=20, random_state=0).fit(X, y)
        >>> round(clf.score(X, y), 2)
        0.99

    Reference: Friedman, Greedy function approximation, 2001; Northcutt, Jiang and Chuang, Confident learning, 2021.
    """

    _domains: ClassVar[dict[str, Any]] = {
        "beta": [Interval(Real, 1, None, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left")],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "correct": ["boolean"],
        "forest": [MGCEForestClassifier, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        beta: float = DEFAULT_BETA,
        *,
        max_iter: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        correct: bool = True,
        forest: MGCEForestClassifier | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.beta = beta
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.correct = correct
        self.forest = forest
        self.random_state = random_state
        self.n_jobs = n_jobs

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEBoostingClassifier:
        """Correct the labels, and fit the boosted trees to the corrected labels.

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
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        corrected = self._corrected(X, index, weight, seed) if self.correct else index
        self.labels_ = np.empty_like(self.classes_[corrected])
        self.labels_[order] = self.classes_[corrected]
        boosting = HistGradientBoostingClassifier(
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            random_state=seed,
        )
        # Equal weights change nothing, but with weights the bins of the features take most of the time.
        boosting.fit(X, corrected, None if (weight == weight[0]).all() else weight)
        self.beta_, self.n_iter_ = float(self.beta), int(boosting.n_iter_)
        self.trees_ = Trees([_nodes(tree.nodes) for step in boosting._predictors for tree in step])
        scores = boosting.decision_function(X[:1]).reshape(-1)
        self.baseline_ = scores - self._sums(X[:1])[0]
        return self

    def _corrected(self, X: NDArray[Any], index: IntArray, weight: FloatArray, seed: int) -> IntArray:
        """Return the class index of each row, replaced if the forest confidently predicts another class, shape (n,)."""
        forest = self.forest or MGCEForestClassifier(random_state=seed, n_jobs=self.n_jobs)
        forest = clone(forest).fit(X, index, weight)
        judged = np.flatnonzero(~np.isnan(forest.oob_decision_function_[:, 0]))
        probs, given = forest.oob_decision_function_[judged], index[judged]
        issue = confident_labels(probs, given) != given
        proposed = index.copy()
        proposed[judged[issue]] = probs.argmax(1)[issue]
        return _with_every_class(index, proposed)

    def _margins(self, X: Any) -> FloatArray:
        self.trees_.check(self.n_features_in_, 1)
        f = self._sums(X) + self.baseline_
        return f if f.shape[1] > 1 else np.concatenate([np.zeros_like(f), f], axis=1)

    def _margin_modules(self) -> list[nn.Module]:
        self.trees_.check(self.n_features_in_, 1)
        return [TreeSums(self.trees_, len(self.baseline_)), Baseline(self.baseline_)]

    def _sums(self, X: NDArray[Any]) -> FloatArray:
        """Return for n rows the sums of the trees' values for k classes, (n, k); for two classes one sum, (n, 1)."""
        columns = len(self.classes_) if len(self.classes_) > 2 else 1
        return self.trees_.sums(np.asarray(X, dtype=np.float64), columns)[..., 0]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        # A model that is shared should not reveal anything about single training rows.
        state.pop("labels_", None)
        return state


def _with_every_class(given: IntArray, proposed: IntArray) -> IntArray:
    """Return the proposed labels, but keep the given labels of a class that would otherwise lose all its rows."""
    corrected = proposed
    kept = np.zeros(len(given), dtype=bool)
    while (lost := np.setdiff1d(given, corrected)).size:  # a label that is kept may have been the last of another class
        kept |= np.isin(given, lost)
        corrected = np.where(kept, given, proposed)
    return corrected


def _nodes(nodes: NDArray[Any]) -> Nodes:
    """Convert the nodes of a tree of scikit-learn's boosting, whose leaves hold one number each, to `Nodes`."""
    children = np.stack([nodes["left"], nodes["right"]], 1)
    threshold = nodes["num_threshold"].astype(np.float64)
    return Nodes(children, nodes["is_leaf"] > 0, nodes["feature_idx"], threshold, nodes["value"][:, None])
