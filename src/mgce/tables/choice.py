"""Choose beta for the rows of a table, and fit with it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, train_test_split

from mgce.estimators import MGCEClassifier, MGCEClassifierCV
from mgce.estimators.linear_cv import BETAS, LAMBDA0S
from mgce.estimators.mlp import MGCEMLPClassifier

FOLDS = 5  # as scikit-learn has it
# Rows that beta and the penalty are chosen on, at most: the accuracy of 10,000 rows has a standard error of half a
# percent or less, and with more the choice takes minutes.
CHOICE_ROWS = 10_000
CHOICE_TOL = 1e-3  # duality gap of a candidate, ten times as wide as that of the final fit
LINEAR_FITS = FOLDS * len(LAMBDA0S)  # for each beta
OnFit = Callable[[str], None]


@dataclass(frozen=True)
class Choice:
    """What was chosen for a table, and among what."""

    fitted: Any  # the estimator, fitted to all training rows
    again: Any  # an estimator of the same parameters, not fitted, for fits to parts of the rows
    betas: tuple[float, ...]
    accuracy: tuple[float, ...]  # of each beta, on training rows that it was not fitted to
    measured_on: str  # which rows those were, as it goes on after "accuracy"


def choose_linear(X: Any, y: NDArray[Any], beta: float | None, seed: int, on_fit: OnFit) -> Choice:
    """Choose beta, unless it is given, and the penalty by cross-validation, and fit to all rows."""
    betas = BETAS if beta is None else (beta,)
    rows = _some_rows(y, seed)

    def score(estimator: Any, X_test: Any, y_test: Any) -> float:
        on_fit("Choosing beta" if beta is None else "Choosing the penalty")
        return float(estimator.score(X_test, y_test))

    search = MGCEClassifierCV(betas=betas, tol=CHOICE_TOL, cv=folds(y[rows], seed), scoring=score)
    with (
        joblib.parallel_config("threading", n_jobs=min(FOLDS, os.cpu_count() or 1)),  # the solver leaves Python's lock
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # a candidate that did not converge, a class too rare for the folds
        search.fit(X[rows], y[rows])
    on_fit("Fitting")
    again = MGCEClassifier(beta=search.beta_, lambda0=search.lambda0_)
    accuracy = search.scores_.mean(2).max(0)
    measured_on = f"in {search.scores_.shape[2]}-fold cross-validation on {len(rows):,} training rows"
    return Choice(clone(again).fit(X, y), again, betas, tuple(accuracy.tolist()), measured_on)


def choose_mlp(X: Any, y: NDArray[Any], beta: float | None, seed: int, on_fit: OnFit) -> Choice:
    """Train a network for every candidate at once and keep the best, or one for a beta that is given."""
    on_fit("Training networks" if beta is None else "Training a network")
    fitted = MGCEMLPClassifier(beta="cv" if beta is None else beta, random_state=seed).fit(X, y)
    again = clone(fitted).set_params(beta=fitted.beta_)
    scores = [fitted.validation_scores_.max()] if fitted.scores_ is None else fitted.scores_
    measured_on = f"on {fitted.validation_fraction:.0%} of the training rows, kept out of the fit"
    betas = BETAS if beta is None else (beta,)
    return Choice(fitted, again, betas, tuple(float(score) for score in scores), measured_on)


CHOICES = {"linear": choose_linear, "mlp": choose_mlp}


def count_fits(model: str, beta: float | None) -> int:
    """Tell how often a function of `CHOICES` will call `on_fit`, at most."""
    return 1 if model == "mlp" else 1 + LINEAR_FITS * (len(BETAS) if beta is None else 1)


def folds(y: NDArray[Any], seed: int) -> StratifiedKFold:
    """Give five folds, or as many as the rarest class has rows, but at least two."""
    least = np.unique(y, return_counts=True)[1].min()
    return StratifiedKFold(int(np.clip(least, 2, FOLDS)), shuffle=True, random_state=seed)


def _some_rows(y: NDArray[Any], seed: int) -> NDArray[np.int64]:
    rows = np.arange(len(y))
    if len(rows) <= CHOICE_ROWS:
        return rows
    some, _ = train_test_split(rows, train_size=CHOICE_ROWS, stratify=y, random_state=seed)
    return np.sort(some)
