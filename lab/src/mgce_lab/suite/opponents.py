"""What is compared: the model of `mgce fit`, and what a good user writes in a few lines, each tuned by folds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from mgce.estimators import LabelCorrectionClassifier
from mgce_lab.suite.cells import Cell

FOLDS = 3


class Probabilities(NamedTuple):
    """Probabilities of all classes: of training rows, by models that had not learnt their label, and of test rows."""

    own: Any
    new: Any


OURS = "mgce"


def _folds(seed: int) -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def _searched(model: Any, grid: dict[str, Any], X: Any, y: Any, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = GridSearchCV(model, grid, cv=_folds(seed), refit=False).fit(X, y).best_params_
    return found


def forest(X: Any, y: Any, seed: int) -> Any:
    """Return a forest whose least leaf is chosen by folds."""
    leaf = _searched(RandomForestClassifier(random_state=seed), {"min_samples_leaf": [1, 3, 10, 30]}, X, y, seed)
    return RandomForestClassifier(random_state=seed, **leaf)


def svm(X: Any, y: Any, seed: int) -> Any:
    """Return an SVM whose C and gamma are chosen by folds, calibrated by folds."""
    scale = 1 / (X.shape[1] * max(float(X.var()), 1e-12))  # scikit-learn's gamma="scale"
    grid = {"C": [0.1, 1, 10, 100], "gamma": [0.1 * scale, scale, 10 * scale]}
    return CalibratedClassifierCV(SVC(**_searched(SVC(), grid, X, y, seed)), cv=_folds(seed), ensemble=False)


def logistic(X: Any, y: Any, seed: int) -> Any:
    """Return logistic regression whose C is chosen by folds."""
    grid = {"C": [0.001, 0.01, 0.1, 1, 10]}
    return LogisticRegression(max_iter=500, **_searched(LogisticRegression(max_iter=500), grid, X, y, seed))


OPPONENTS: dict[str, Callable[[Any, Any, int], Any]] = {"forest": forest, "svm": svm, "logistic": logistic}


ENTRANTS = (OURS, *OPPONENTS)
TRANSFORMER = "transformer"  # whose files `mgce_lab.table_model.suite` writes


def probabilities(name: str, cell: Cell, seed: int) -> Probabilities:
    """Tune and fit a model, and return its probabilities of training rows out of fold, and of test rows."""
    X, y, X_test = cell.X, cell.given, cell.X_test
    own, new = np.zeros((len(X), cell.n_classes)), np.zeros((len(X_test), cell.n_classes))
    if name == OURS:  # what `mgce fit` saves: fitted to all rows
        model: Any = LabelCorrectionClassifier(random_state=seed).fit(X, y)
        own[:, model.classes_] = model.left_out_proba_
    else:
        model = OPPONENTS[name](*_foldable(X, y), seed)
        for train, held_out in _folds(seed + 1).split(X, y):
            fitted = clone(model).fit(*_foldable(X[train], y[train]))
            own[np.ix_(held_out, fitted.classes_)] = fitted.predict_proba(X[held_out])
        model.fit(*_foldable(X, y))
    new[:, model.classes_] = model.predict_proba(X_test)
    return Probabilities(own, new)


def _foldable(X: Any, y: Any) -> tuple[Any, Any]:
    """Leave out rows of classes that have fewer rows than there are folds, since calibration needs one in each."""
    kept = np.bincount(y)[y] >= FOLDS
    return X[kept], y[kept]
