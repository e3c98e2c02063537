"""Choose and fit the classifier of embeddings, which judges their labels too."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import completed
from mgce.tables.candidates import HEAD, Candidate, head
from mgce.tables.choice import Choice, Margins, OnFit, Trial, Weight

HEAD_FITS = 1  # calls of `on_fit` that the choice makes


def choose_head(X: NDArray[Any], y: NDArray[Any], *, seed: int, on_fit: OnFit, weight: Weight = None) -> Choice:
    """Fit the head to the training rows, and measure it on rows of folds that it was not fitted to.

    Args:
        X: features of the training rows, shape (n, d).
        y: their labels, shape (n,).
        seed: of the folds.
        on_fit: called before each step with a description of it.
        weight: of each row in the fits, shape (n,); None where all weigh the same.
    """
    start = time.process_time()
    estimator = head(seed)
    candidate = Candidate(HEAD, "", estimator, estimator)
    on_fit("Fitting the head")
    fitted = estimator.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
    probs = fitted.oof_proba_
    target = np.unique(y, return_inverse=True)[1]
    # A class that a fold has not learnt may have the probability zero there: as much as one row of all says.
    margins = np.log(np.maximum(probs, 1 / len(y)))
    accuracy, seconds = float((probs.argmax(1) == target).mean()), time.process_time() - start
    trial = Trial(HEAD, candidate, len(y), accuracy, seconds, probs=probs.astype(np.float32))
    measured_on = f"in {estimator.cv}-fold cross-validation on {len(y):,} training rows"
    return Choice(fitted, trial, [trial], measured_on, [], Margins(margins, target.astype(np.int64)))


def judge_by_head(
    choice: Choice, X: NDArray[Any], target: NDArray[np.int64], train: NDArray[np.int64], first: NDArray[np.int64]
) -> DoubtfulLabels:
    """Judge the label of each row by a head that was not fitted to it: of its fold, or of all training rows.

    Args:
        choice: what :func:`choose_head` returned.
        X: features of all rows, shape (n, d).
        target: given labels, shape (n,).
        train: indices of the training rows.
        first: for each row, the index of the row that represents all its copies, shape (n,).
    """
    assert choice.trial.probs is not None
    probs = completed(choice.trial.probs, train, len(X), lambda others: choice.fitted.predict_proba(X[others]))
    classes = choice.fitted.classes_
    return doubtful_labels(probs[first], target, classes=classes, first=first, X=X, source=choice.trial.model)
