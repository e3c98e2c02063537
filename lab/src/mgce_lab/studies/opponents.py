"""Thirteen methods beside `mgce fit`, each tuned as far as its users would, on the same noisy rows.

A grid is searched by three folds of the noisy rows; boosting stops early by a fifth of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cleanlab.classification import CleanLearning
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

LEAVES = {"min_samples_leaf": [1, 3, 10, 30, 100]}
FOLDS = 3
NEIGHBOURS = 10  # that the filter asks
ROUNDS, PATIENCE = 500, 20  # of boosting, at most, and without an improvement
Model = Any  # a fitted classifier of scikit-learn's interface
Fit = Callable[[Any, Any, int], Model]


def by_folds(make: Callable[[int], Any], grid: dict[str, Sequence[Any]]) -> Fit:
    """Choose settings by the accuracy on noisy folds, and fit to all rows."""

    def fit(X: Any, y: Any, seed: int) -> Model:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        return GridSearchCV(make(seed), grid, cv=folds).fit(X, y).best_estimator_

    return fit


def early_stopped(candidates: Callable[[int, int], Sequence[tuple[Any, dict[str, Any]]]]) -> Fit:
    """Fit each candidate until a fifth of the noisy rows stop it, and return the best on these by log-loss."""

    def fit(X: Any, y: Any, seed: int) -> Model:
        X, X_valid, y, y_valid = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
        fitted = [
            model.fit(X, y, eval_set=[(X_valid, y_valid)], **options)
            for model, options in candidates(seed, len(np.unique(y)))
        ]
        return min(fitted, key=lambda model: log_loss(y_valid, model.predict_proba(X_valid)))

    return fit


def neighbour_filter(X: Any, y: Any, seed: int) -> Model:
    """Drop rows that most of 10 other neighbours disagree with, and fit boosting to the others."""
    near = KNeighborsClassifier(NEIGHBOURS + 1).fit(X, y).kneighbors(X, return_distance=False)
    others = np.stack([row[row != i][:NEIGHBOURS] for i, row in enumerate(near)])
    votes = np.stack([(y[others] == label).sum(1) for label in range(y.max() + 1)], axis=1)
    kept = votes.argmax(1) == y
    if len(np.unique(y[kept])) < len(np.unique(y)):  # a class that the filter forgets stays as it is
        kept |= ~np.isin(y, y[kept])
    return HistGradientBoostingClassifier(random_state=seed).fit(X[kept], y[kept])


def clean_learning(make: Callable[[int], Any]) -> Fit:
    """Leave out rows whose labels cleanlab finds wrong by five folds, and fit to the others."""
    return lambda X, y, seed: CleanLearning(make(seed), seed=seed).fit(X, y).clf


def _boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(random_state=seed)


def _forest(seed: int) -> Any:
    return RandomForestClassifier(random_state=seed)


def _lightgbm(seed: int, n_classes: int) -> list[tuple[Any, dict[str, Any]]]:
    from lightgbm import LGBMClassifier, early_stopping

    options = {"callbacks": [early_stopping(PATIENCE, verbose=False)]}
    settings: dict[str, Any] = {"n_estimators": ROUNDS, "random_state": seed, "n_jobs": 1, "verbose": -1}
    return [(LGBMClassifier(num_leaves=leaves, **settings), options) for leaves in (7, 31)]


def _xgboost(seed: int, n_classes: int) -> list[tuple[Any, dict[str, Any]]]:
    from xgboost import XGBClassifier

    settings: dict[str, Any] = {"n_estimators": ROUNDS, "random_state": seed, "n_jobs": 1, "learning_rate": 0.1}
    metric = "logloss" if n_classes == 2 else "mlogloss"
    stop: dict[str, Any] = {"early_stopping_rounds": PATIENCE, "eval_metric": metric}
    return [(XGBClassifier(max_depth=depth, **settings, **stop), {"verbose": False}) for depth in (3, 6)]


def _catboost(seed: int, n_classes: int) -> list[tuple[Any, dict[str, Any]]]:
    from catboost import CatBoostClassifier

    settings: dict[str, Any] = {"iterations": ROUNDS, "random_seed": seed, "thread_count": 1, "verbose": False}
    stop = {"early_stopping_rounds": PATIENCE, "allow_writing_files": False}
    return [(CatBoostClassifier(**settings, **stop), {})]


def _svm(X: Any, y: Any, seed: int) -> Model:
    chosen = by_folds(lambda _: SVC(), {"C": [0.1, 1, 10]})(X, y, seed)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return CalibratedClassifierCV(SVC(C=chosen.C), cv=folds, ensemble=False).fit(X, y)


OPPONENTS: dict[str, Fit] = {
    "random forest, leaf size by folds": by_folds(_forest, LEAVES),
    "extra trees, leaf size by folds": by_folds(lambda seed: ExtraTreesClassifier(random_state=seed), LEAVES),
    "random forest": lambda X, y, seed: _forest(seed).fit(X, y),
    "CleanLearning(forest)": clean_learning(_forest),
    "neighbour filter, boosting": neighbour_filter,
    "CleanLearning(boosting)": clean_learning(_boosting),
    "logistic regression, C by folds": by_folds(
        lambda _: LogisticRegression(max_iter=1000), {"C": [0.001, 0.01, 0.1, 1, 10]}
    ),
    "SVM, C by folds": _svm,
    "neighbours, k by folds": by_folds(lambda _: KNeighborsClassifier(), {"n_neighbors": [1, 5, 15, 45, 101]}),
    "boosting, stopped early": lambda X, y, seed: HistGradientBoostingClassifier(
        early_stopping=True, random_state=seed
    ).fit(X, y),
    "LightGBM, stopped early": early_stopped(_lightgbm),
    "XGBoost, stopped early": early_stopped(_xgboost),
    "CatBoost, stopped early": early_stopped(_catboost),
}
