r"""Average the probabilities of several classifiers, and compute margins (logits) of MGCE from the average."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from mgce._row_order import content_order
from mgce._validation import expected
from mgce.estimators.base import FloatArray, IntArray, RobustClassifier
from mgce.estimators.folds import checked_folds
from mgce.estimators.log_margins import best_scale
from mgce.estimators.parameters import Choice, Interval, checked
from mgce.estimators.torch_modules import ProbabilitySums, ScaledLog
from mgce.labels.out_of_fold import out_of_fold
from mgce.numerics.root import DEFAULT_BETA


class MGCEVotingClassifier(RobustClassifier):
    r"""Average the probabilities of several classifiers, and compute margins f (logits) of MGCE from the average.

    .. math:: f_y(x) = s \log \Big( \bar h_y(x) + \frac{1}{n} \Big), \qquad
              \bar h_y(x) = \frac{1}{M} \sum_{m=1}^{M} h_{m,y}(x)

    where h_m(x), shape (k,), are the probabilities of the k classes by `predict_proba` of classifier m, one of M, and n
    is the number of training rows. The scale s minimises the mean MGCE loss in a cross-validation. Classifiers of
    different kinds err on different rows, also if they were trained on wrong labels. So the average is often more
    accurate than the best of the classifiers.

    Args:
        estimators: pairs (name, classifier), at least one; each is cloned and fitted. Names are unique. Any
            classifier with `predict_proba` is accepted.
        beta: loss parameter in [1, inf], for the scale s and the map from margins to probabilities. The classifiers
            keep their own beta.
        scale: s, positive; or "cv" to choose it.
        cv: folds for the choice of s: their number, at least 2, or what scikit-learn accepts for `cv`. There are fewer
            folds than this number if a class has fewer rows.
        random_state: seed of the folds.

    Attributes:
        classes_: the labels of the k classes, shape (k,).
        estimators_: the fitted classifiers, in the order of `estimators`.
        beta_: the beta of the last fit.
        scale_: the scale s.
        least_prob_: 1/n.
        n_features_in_, feature_names_in_: as in every scikit-learn estimator.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from mgce.estimators import MGCEClassifier, MGCEForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> members = [("linear", MGCEClassifier()), ("forest", MGCEForestClassifier(random_state=0))]
        >>> round(MGCEVotingClassifier(members, random_state=0).fit(X, y).score(X, y), 2)
        0.97

    Reference: Kittler, Hatef, Duin and Matas, On combining classifiers, 1998 (the sum rule).
    """

    _domains: ClassVar[dict[str, Any]] = {
        "estimators": [list],
        "beta": [Interval(Real, 1, None, closed="both")],
        "scale": [Interval(Real, 0, None, closed="neither"), Choice({"cv"})],
        "cv": ["cv_object"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimators: Any,
        beta: float = DEFAULT_BETA,
        *,
        scale: float | str = "cv",
        cv: Any = 3,
        random_state: Any = None,
    ) -> None:
        self.estimators = estimators
        self.beta = beta
        self.scale = scale
        self.cv = cv
        self.random_state = random_state

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEVotingClassifier:
        """Fit the classifiers, and choose the scale s of the margins.

        Args:
            X: n rows of d features, shape (n, d).
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: weight of each row, not negative, shape (n,); passed to the classifiers if it is given.

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        self._check_members()
        X, index, weight = self._encode_training(X, y, sample_weight)
        if isinstance(self.cv, Integral):  # other values of cv refer to the rows in the order given
            order = content_order(X, index, weight)
            X, index, weight = X[order], index[order], weight[order]
        labels, options = self.classes_[index], [{}, {"sample_weight": weight}][sample_weight is not None]
        self.beta_, self.least_prob_ = float(self.beta), 1 / len(X)
        if self.scale == "cv":
            logs = self._log_probs(self._out_of_fold(X, index, options))
            self.scale_ = best_scale(logs, index, weight, self.beta_)
        else:
            self.scale_ = float(self.scale)
        self.estimators_ = [clone(member).fit(X, labels, **options) for _, member in self.estimators]
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of this estimator and, as `NAME__PARAMETER`, of its classifiers.

        Args:
            deep: whether to include the parameters of the classifiers.

        Returns:
            A dictionary from parameter names to values.
        """
        found = dict(super().get_params(deep=deep))
        for name, member in _pairs(self.estimators) if deep else []:
            found |= {name: member, **{f"{name}__{key}": value for key, value in member.get_params().items()}}
        return found

    def set_params(self, **params: Any) -> MGCEVotingClassifier:
        """Set parameters of this estimator, or of a classifier in it as `NAME__PARAMETER`.

        Args:
            params: parameter names and their new values.

        Returns:
            self.
        """
        self.estimators = params.pop("estimators", self.estimators)
        if any(name in params for name, _ in _pairs(self.estimators)):
            self.estimators = [(name, params.pop(name, member)) for name, member in self.estimators]
        super().set_params(**params)
        return self

    def average_proba(self, X: Any, members: Sequence[Any] | None = None) -> FloatArray:
        """Return the mean of the classifiers' probabilities.

        Args:
            X: n rows of d features, shape (n, d).
            members: other fitted classifiers to average; by default those in `estimators_`.

        Returns:
            Probabilities, shape (n, k) for k classes, with columns as in `classes_`. They do not depend on beta.
        """
        if members is None:
            check_is_fitted(self)
            members = self.estimators_
        total = np.zeros((len(X), len(self.classes_)))
        for member in members:
            # A class that a classifier has not seen is not among its columns.
            places = np.searchsorted(self.classes_, member.classes_)
            total[:, places] += member.predict_proba(X)
        return total / len(members)

    def _check_members(self) -> None:
        names = [name for name, _ in self.estimators]
        if not names or len(set(names)) < len(names):
            raise ValueError(expected("estimators", "pairs of unique names and classifiers, at least one", names))
        for name, member in self.estimators:
            if not hasattr(member, "predict_proba"):
                raise ValueError(expected(f"estimators[{name!r}]", "a classifier with `predict_proba`", member))

    def _out_of_fold(self, X: Any, index: NDArray[np.int64], options: dict[str, Any]) -> FloatArray:
        """Return for each row the mean probabilities of classifiers not fitted to the row; NaN if there are none."""
        folds, shape = self.cv, (len(X), len(self.classes_))
        if isinstance(folds, Integral):
            folds = min(int(folds), int(np.bincount(index).min()))
            if folds < 2:  # a class of one row would be missing where that row is predicted
                return np.full(shape, np.nan)
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            folds = StratifiedKFold(folds, shuffle=True, random_state=seed)
        labels = self.classes_[index]
        weight = options.get("sample_weight", np.ones(len(X)))

        def predicted(train: IntArray, test: IntArray) -> FloatArray:
            weights = {name: value[train] for name, value in options.items()}
            members = [clone(member).fit(X[train], labels[train], **weights) for _, member in self.estimators]
            return self.average_proba(X[test], members)

        return out_of_fold(predicted, checked_folds(folds, X, self.classes_, index, weight), shape)

    def _log_probs(self, probs: FloatArray) -> FloatArray:
        return np.asarray(np.log(probs + self.least_prob_))

    def _margins(self, X: Any) -> FloatArray:
        return self.scale_ * self._log_probs(self.average_proba(X))

    def _margin_modules(self) -> list[nn.Module]:
        for (name, _), member in zip(self.estimators, self.estimators_, strict=True):
            if not isinstance(member, RobustClassifier):
                what = "a classifier of this package, whose probabilities PyTorch can compute"
                raise TypeError(expected(f"estimators[{name!r}]", what, type(member).__name__))
        columns = [np.searchsorted(self.classes_, member.classes_) for member in self.estimators_]
        members = [member.to_torch() for member in self.estimators_]
        sums = ProbabilitySums(members, columns, len(self.classes_))
        return [sums, ScaledLog(self.scale_, len(members), self.least_prob_)]


def _pairs(estimators: Any) -> list[tuple[str, Any]]:
    """Return the pairs of a name and a classifier; none where `fit` would refuse them."""
    paired = isinstance(estimators, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in estimators)
    return estimators if paired else []
