"""Define the linear MGCE classifier whose beta and penalty strength are chosen by cross-validation."""

from __future__ import annotations

from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from torch import nn

from mgce import _validation
from mgce._threads import one_blas_thread
from mgce.estimators.base import FloatArray, RobustClassifier, row_weights
from mgce.estimators.linear import MGCEClassifier
from mgce.estimators.parameters import Choice, Interval, checked
from mgce.estimators.torch_modules import dense_layers
from mgce.labels.choosing import most_predicted
from mgce.labels.out_of_fold import checked_folds

# As many as the paper has for its cross-validation, from nearly MAE to nearly cross-entropy.
BETAS = (1.05, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0, 11.0)
LAMBDA0S = (1e-4, 1e-3, 1e-2)  # the least automatic one of MGCEClassifier, and a factor of ten on either side
Part = tuple[Any, NDArray[Any], FloatArray | None]  # X, y and weights of the rows to fit to, or to score on, in a fold


class MGCEClassifierCV(RobustClassifier):
    r"""Linear MGCE classifier whose beta and lambda0 have the best mean score over the folds of a cross-validation.

    In each fold, the candidates (lambda0, beta) are fitted one after the other, each starting from the coefficients of
    the previous one. The strongest penalty lambda0 comes first, and for each penalty the largest beta, whose objective
    is the smoothest. If several candidates have the best mean score, the first in this order is chosen. The chosen
    candidate is then fitted to all rows. See :class:`MGCEClassifier` for the objective and its arguments.

    Args:
        betas: candidates, each in [1, inf]; eight from 1.05 to 11 by default, as in the paper.
        lambda0s: candidates for the strength of the penalty, not negative.
        cv: None for 5 folds, an integer, a splitter, or an iterable of (train, test) indices. The folds of None and of
            an integer are random, with a fixed seed, and do not depend on the order of the rows. A splitter and indices
            refer to the rows in the caller's order.
        scoring: the name of a scorer, a scorer, or None for accuracy. Labels that are wrong at random lower the
            accuracy of all candidates alike, so accuracy on noisy labels still ranks them.
        fit_intercept, class_weight, tol, max_iter: as for MGCEClassifier.
        n_jobs: number of folds fitted at once, through joblib and its active backend.

    Attributes:
        beta_, lambda0_: the chosen beta and strength of the penalty.
        scores_: shape (number of lambda0s, number of betas, number of folds), in the order of the arguments.
        classes_, coef_, intercept_, minimax_risk_, duality_gap_, n_iter_, n_features_in_, feature_names_in_: as for
            MGCEClassifier, from the fit to all rows.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MGCEClassifierCV(betas=(1.4, 5.0), lambda0s=(1e-2, 1.0)).fit(X, y)
        >>> clf.lambda0_, clf.scores_.shape, round(clf.score(X, y), 2)
        (0.01, (2, 2, 5), 0.96)

    Reference: paper, section 5.
    """

    _sparse = True
    _domains: ClassVar[dict[str, Any]] = {
        "betas": ["array-like"],
        "lambda0s": ["array-like"],
        "cv": ["cv_object"],
        "scoring": [Choice(set(get_scorer_names())), callable, None],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, Choice({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        betas: Any = BETAS,
        lambda0s: Any = LAMBDA0S,
        cv: Any = None,
        scoring: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
    ) -> None:
        self.betas = betas
        self.lambda0s = lambda0s
        self.cv = cv
        self.scoring = scoring
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    @checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> MGCEClassifierCV:
        """Choose beta and lambda0 by cross-validation, and fit the chosen classifier to all rows.

        Args:
            X: n rows of d features, shape (n, d), dense or sparse.
            y: labels, shape (n,), of at least 2 classes.
            sample_weight: weight of each row, not negative, shape (n,); also used for the scores, if the scorer accepts
                weights.
            **params: metadata for the splitter and the scorer; they need scikit-learn's metadata routing enabled.

        Returns:
            self.

        Raises:
            ValueError: if the data or a parameter are not as described.
        """
        betas, lambda0s = _candidates("betas", self.betas, 1), _candidates("lambda0s", self.lambda0s, 0)
        X, index, weight = self._encode_training(X, y, sample_weight, self.class_weight)
        y = self.classes_[index]
        if sample_weight is not None:
            sample_weight = row_weights(sample_weight, X.shape[0])
        routed = self._route(sample_weight, params)
        scorer = self._scorer()
        folds = checked_folds(self.cv, X, self.classes_, index, weight, **routed.splitter.split)
        path = list(product(np.argsort(lambda0s)[::-1], np.argsort(betas)[::-1]))
        with one_blas_thread():  # folds that are fitted side by side would fight for the cores
            scores = Parallel(n_jobs=self.n_jobs)(
                delayed(_score_path)(
                    self._candidate(),
                    [(lambda0s[i], betas[j]) for i, j in path],
                    _part(X, y, sample_weight, train),
                    _part(X, y, None, test),
                    scorer,
                    {name: _of_rows(value, test, len(index)) for name, value in routed.scorer.score.items()},
                )
                for train, test in folds
            )
        self.scores_ = np.empty((len(lambda0s), len(betas), len(folds)))
        for (i, j), over_folds in zip(path, zip(*scores, strict=True), strict=True):
            self.scores_[i, j] = over_folds
        best = most_predicted((self.scores_[candidate].mean(), candidate) for candidate in path)
        self.lambda0_, self.beta_ = lambda0s[best[0]], betas[best[1]]
        final = self._candidate().set_params(beta=self.beta_, lambda0=self.lambda0_).fit(X, y, sample_weight)
        for name in ("coef_", "intercept_", "minimax_risk_", "duality_gap_", "n_iter_"):
            setattr(self, name, getattr(final, name))
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata scikit-learn passes to `fit`, to the splitter and to the scorer."""
        to_fit = MethodMapping().add(caller="fit", callee="split")
        to_score = MethodMapping().add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(splitter=check_cv(self.cv), method_mapping=to_fit)
            .add(scorer=self._scorer(), method_mapping=to_score)
        )

    def _scorer(self) -> Any:
        scorer = check_scoring(self._candidate(), scoring=self.scoring or "accuracy")
        if self.scoring is None and get_config()["enable_metadata_routing"]:
            scorer.set_score_request(sample_weight=True)
        return scorer

    def _route(self, sample_weight: Any, params: dict[str, Any]) -> Any:
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        if params:
            what = "left out unless scikit-learn's metadata routing is enabled"
            raise ValueError(_validation.expected("params", what, sorted(params)))
        score = {} if sample_weight is None else {"sample_weight": sample_weight}
        return Bunch(splitter=Bunch(split={}), scorer=Bunch(score=score))

    def _candidate(self) -> MGCEClassifier:
        return MGCEClassifier(
            fit_intercept=self.fit_intercept, class_weight=self.class_weight, tol=self.tol, max_iter=self.max_iter
        )

    def _margin_modules(self) -> list[nn.Module]:
        return dense_layers([(self.coef_, self.intercept_)])

    def _margins(self, X: Any) -> NDArray[np.floating[Any]]:
        return np.asarray(X @ self.coef_.T + self.intercept_)


def _candidates(name: str, values: Any, least: float) -> list[float]:
    candidates = np.asarray(values, dtype=np.float64)
    if candidates.ndim != 1 or not candidates.size or not (candidates >= least).all():
        raise ValueError(_validation.expected(name, f"one or more numbers of at least {least}", values))
    return [float(value) for value in candidates]


def _part(X: Any, y: NDArray[Any], sample_weight: FloatArray | None, rows: NDArray[Any]) -> Part:
    return X[rows], y[rows], None if sample_weight is None else sample_weight[rows]


def _score_path(
    estimator: MGCEClassifier,
    path: list[tuple[float, float]],
    train: Part,
    test: Part,
    scorer: Any,
    score_params: dict[str, Any],
) -> list[float]:
    """Fit the candidates (lambda0, beta) of `path` one after the other; return the score of each on the test rows."""
    estimator.set_params(warm_start=True)
    X_test, y_test, _ = test
    return [
        float(
            scorer(
                estimator.set_params(lambda0=lambda0, beta=beta).fit(*train),
                X_test,
                y_test,
                **score_params,
            )
        )
        for lambda0, beta in path
    ]


def _of_rows(value: Any, rows: NDArray[np.intp], n: int) -> Any:
    """Select some of n rows from a value with an entry for each row; return any other value unchanged."""
    return np.asarray(value)[rows] if hasattr(value, "__len__") and len(value) == n else value
