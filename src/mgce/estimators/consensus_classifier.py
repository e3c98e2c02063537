"""Learn a classifier from several labels a row, and the right label of each row on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mgce._arrays import FloatArray, IntArray, taken
from mgce._messages import check_count, expected
from mgce._row_order import content_order
from mgce.estimators.base import check_single
from mgce.estimators.soft_targets import SoftTargetModel
from mgce.labels.annotators import Annotations, annotator_model
from mgce.labels.consensus import consensus_of, read_labels
from mgce.labels.out_of_fold import completed, folds_of, out_of_fold

# Consensus and model in turn: a third time changed the share of right labels by less than 0.1 points on CIFAR-10N.
ROUNDS = 2
NEGLIGIBLE = 0.01  # a soft target below this is left out of the fit of an estimator: it repeats each row for each class


class ConsensusClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learn a classifier from several labels a row, and the right label of each row on the way.

    The classifier predicts each row out of fold. Its predictions are the prior of the consensus. The consensus is then
    the soft target of the classifier. Prediction and consensus are repeated once.

    Args:
        estimator: a classifier with `predict_proba` and `sample_weight`, such as a forest or a pipeline. None: linear
            heads and kernel regression on numeric features, made for embeddings
            (:class:`mgce.estimators.soft_targets.SoftTargetModel`).
        cv: number of folds.
        missing: a value that stands for no label, beside None and NaN.
        random_state: seed of the folds.

    Attributes:
        classes_: the classes, sorted, shape (k,).
        consensus_: the :class:`Consensus` of the training rows.
        oof_proba_: probabilities of each training row by a classifier that did not learn its labels, shape (n, k).
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> rng = np.random.default_rng(0)
        >>> labels = np.where(rng.random((len(y), 3)) < 0.3, rng.integers(10, size=(len(y), 3)), y[:, None])
        >>> clf = ConsensusClassifier(random_state=0).fit(X[:600], labels[:600])
        >>> bool((clf.consensus_.labels == y[:600]).mean() > 0.96), clf.score(X[600:], y[600:]) > 0.9
        (True, True)

    Reference: Raykar et al., Learning from crowds, 2010.
    """

    def __init__(self, estimator: Any = None, *, cv: int = 5, missing: Any = -1, random_state: Any = None) -> None:
        self.estimator = estimator
        self.cv = cv
        self.missing = missing
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ConsensusClassifier:
        """Find the consensus of the labels, and fit the classifier to it.

        Args:
            X: features, shape (n, d). With an `estimator`, a DataFrame of any columns that it accepts.
            y: labels, a matrix or a DataFrame (n, m) with a column for each annotator. Rows without any label are
                predicted.

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        check_count("cv", self.cv, minimum=2)
        if not (self.estimator is None or hasattr(self.estimator, "predict_proba")):
            raise ValueError(expected("estimator", "a classifier with predict_proba, or None", self.estimator))
        matrix, names, self.classes_ = read_labels(y, self.missing, None)
        X = self._checked(X, reset=True)
        if X.shape[0] != len(matrix):
            raise ValueError(expected("y", f"of {X.shape[0]} rows, one for each row of X", len(matrix)))
        by_content = X.astype(str).to_numpy(dtype=object) if hasattr(X, "iloc") else X
        order = content_order(matrix, by_content)
        rows, annotations = taken(X, order), Annotations.of(matrix[order], len(self.classes_))
        labelled = np.unique(annotations.row)
        if len(labelled) < self.cv:
            raise ValueError(expected("y", f"labels of at least {self.cv} rows, one for each fold", len(labelled)))
        only, own = annotations.only(labelled), taken(rows, labelled)
        self._model = self._made(own, check_random_state(self.random_state))
        votes = only.votes()
        targets = votes / votes.sum(1, keepdims=True)
        for _ in range(ROUNDS):
            oof = self._model.out_of_fold(targets)
            targets = annotator_model(only, oof).probs
        self._model.fit(targets)
        predict = self._model.predict_proba
        probs = completed(oof, labelled, len(matrix), lambda others: predict(taken(rows, others)))
        self.consensus_ = consensus_of(annotator_model(annotations, probs), order, matrix, names, self.classes_)
        self.oof_proba_ = np.empty_like(probs)
        self.oof_proba_[order] = probs
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class to be the right one, shape (n, k), of rows (n, d)."""
        check_is_fitted(self)
        return np.asarray(self._model.predict_proba(self._checked(X, reset=False)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if self.estimator is None:
            X = validate_data(self, X, dtype=np.float64, reset=reset)
            check_single(X)
            return X
        return X if hasattr(X, "iloc") or hasattr(X, "tocsr") else np.asarray(X)

    def _made(self, rows: Any, random_state: np.random.RandomState) -> Any:
        if self.estimator is None:
            return SoftTargetModel(rows.astype(np.float32), self.cv, random_state)
        return _ByFolds(self.estimator, rows, self.cv, len(self.classes_), random_state)


class _ByFolds:
    """A classifier that accepts weights, fitted to soft targets: a row counts for each class, by its target."""

    def __init__(self, estimator: Any, rows: Any, cv: int, k: int, random_state: np.random.RandomState) -> None:
        self._estimator, self._rows, self._k = estimator, rows, k
        self._fold = random_state.permutation(rows.shape[0]) % cv

    def out_of_fold(self, targets: FloatArray) -> FloatArray:
        """Return probabilities of each row by a classifier that was not fitted to its target, shape (n, k)."""

        def predicted(others: IntArray, own: IntArray) -> FloatArray:
            return self._predicted(self._fitted(targets, others), taken(self._rows, own))

        return out_of_fold(predicted, folds_of(self._fold), (len(targets), targets.shape[1]))

    def fit(self, targets: FloatArray) -> None:
        """Fit the classifier to the targets of all rows."""
        self._model = self._fitted(targets, np.arange(len(targets)))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the class probabilities of new rows, shape (n, k)."""
        return self._predicted(self._model, X)

    def _fitted(self, targets: FloatArray, rows: IntArray) -> Any:
        place, label = np.nonzero(targets[rows] >= NEGLIGIBLE)
        weight = {"sample_weight": targets[rows][place, label]}
        model = clone(self._estimator)
        if hasattr(model, "steps"):  # a pipeline hands weights to the step that is named
            weight = {f"{model.steps[-1][0]}__sample_weight": weight["sample_weight"]}
        return model.fit(taken(self._rows, rows[place]), label, **weight)

    def _predicted(self, model: Any, rows: Any) -> FloatArray:
        probs = np.zeros((rows.shape[0], self._k))
        probs[:, model.classes_] = model.predict_proba(rows)
        return probs
