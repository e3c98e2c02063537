"""Name and choose the model of a fit to a table: one that learns from corrected labels, or one that the user named."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgce._arrays import FloatArray
from mgce.estimators import (
    LabelCorrectionClassifier,
    MGCEClassifier,
    MGCEEmbeddingClassifier,
    MGCEForestClassifier,
)
from mgce.labels.choosing import most_predicted

AUTO = "auto"  # learn from corrected labels
CORRECTION, HEAD = "correction", "head"
CORRECTING = {  # by name, what they are
    CORRECTION: "mean of a forest and a kernel regression, on labels that both have corrected",
    HEAD: "mean of linear classifiers on the embeddings, with robust losses and the noise estimated",
}
NAMED = {  # models that a user may name, each with the settings of its class
    "forest": ("forest of decision trees whose leaves outvote wrong labels", MGCEForestClassifier),
    "linear": ("linear MGCE with an L1 penalty, convex", MGCEClassifier),
}
# Tables of numbers alone with as many columns have the head among their candidates: so many are features of a network,
# as a rule. On 3,000 pictures with 1,280 features and people's labels the head is right on 74 %, the other on 71 %.
WIDE = 256
OnFit = Callable[[str], None]
Weight = NDArray[np.float64] | None  # of the rows in a fit, (n,)


@dataclass(frozen=True)
class Trial:
    """How well a model predicts the given labels of training rows that it had not learnt."""

    name: str
    accuracy: float  # the share of these labels, or their mean share over classes for the balanced metric
    seconds: float  # of processor time, of its fit


@dataclass(frozen=True)
class Choice:
    """The model of a fit, fitted to the training rows."""

    name: str
    fitted: Any  # the estimator
    trials: list[Trial]  # of what was chosen among, the best first; none of a model that the user named

    @property
    def description(self) -> str:
        """What the model is, as a clause."""
        return CORRECTING[self.name] if self.name in CORRECTING else NAMED[self.name][0]


def candidates(model: str, *, encoded: bool = False, wide: bool = False) -> list[str]:
    """Return the names of the models to fit and to choose among.

    Args:
        model: the model that the user named, or `AUTO`.
        encoded: whether all features come from an encoder: a column of embeddings, or texts with their meaning.
        wide: whether the table has `WIDE` columns of numbers or more and no others, or texts with their meaning.
    """
    if model != AUTO:
        return [model]
    return [HEAD] if encoded else [CORRECTION, HEAD] if wide else [CORRECTION]


def estimator(name: str, seed: int, jobs: int = 1) -> Any:
    """Return an unfitted model.

    Args:
        name: one of `CORRECTING` or `NAMED`.
        seed: seed of the model's random draws.
        jobs: number of trees that a forest grows at once; -1 for one on each core.
    """
    if name == CORRECTION:
        return LabelCorrectionClassifier(random_state=seed, n_jobs=jobs)
    if name == HEAD:
        return MGCEEmbeddingClassifier(random_state=seed)
    model = NAMED[name][1]()
    known = model.get_params()
    return model.set_params(**{key: value for key, value in (("random_state", seed), ("n_jobs", jobs)) if key in known})


def unlearnt(fitted: Any) -> FloatArray:
    """Return the probabilities of k labels for n training rows by models that had not learnt the row, shape (n, k)."""
    return np.asarray(fitted.oof_proba_ if isinstance(fitted, MGCEEmbeddingClassifier) else fitted.left_out_proba_)


def choose(
    X: NDArray[Any],
    y: NDArray[Any],
    models: Sequence[tuple[str, Any]],
    *,
    on_fit: OnFit,
    weight: Weight = None,
    balanced: bool = False,
) -> Choice:
    """Fit each model to all rows, and choose the one that predicts most given labels of rows that it had not learnt.

    Args:
        X: features of the training rows, shape (n, d): n rows, d features.
        y: their labels, shape (n,).
        models: pairs of a name and an unfitted estimator, at least one.
        on_fit: called before each fit with a description of it.
        weight: weight of each row in the fits, shape (n,); None for equal weights.
        balanced: whether the share of predicted labels is averaged over labels instead of rows.
    """
    tried = []
    for name, model in models:
        on_fit(f"Fitting {name}")
        start = time.process_time()
        fitted = model.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
        trials = []
        if name in CORRECTING:
            right = fitted.classes_[unlearnt(fitted).argmax(1)] == y
            shares = [right[y == label].mean() for label in np.unique(y)] if balanced else right
            trials = [Trial(name, float(np.mean(shares)), time.process_time() - start)]
        tried.append(Choice(name, fitted, trials))
    if len(tried) == 1:
        return tried[0]
    trials = sorted((trial for one in tried for trial in one.trials), key=lambda trial: -trial.accuracy)
    best = most_predicted((one.trials[0].accuracy, one) for one in tried)
    return Choice(best.name, best.fitted, trials)
