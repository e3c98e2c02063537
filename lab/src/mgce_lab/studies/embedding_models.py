"""The models of the benchmarks of embeddings, and what is measured of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from mgce import MGCEEmbeddingClassifier, find_suspects

OURS = "MGCEEmbeddingClassifier"

FOLDS = 3


def logistic(C: float = 1e-3) -> LogisticRegression:
    """Return the logistic regression that baselines are made of."""
    return LogisticRegression(C=C, max_iter=200)


def tuned(model: Any, **grid: Any) -> GridSearchCV:
    """Return a search by accuracy on noisy folds."""
    return GridSearchCV(model, grid, cv=StratifiedKFold(FOLDS, shuffle=True, random_state=0))


def cleaned(C: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2)) -> Any:
    """Return cleanlab's CleanLearning of logistic regression, C chosen by noisy folds."""
    from cleanlab.classification import CleanLearning

    def fitted(X: Any, y: Any) -> Any:
        best = tuned(logistic(), C=list(C)).fit(X, y).best_params_["C"]
        return CleanLearning(logistic(best), cv_n_folds=FOLDS, seed=0).fit(X, y)

    return _Fitted(fitted)


class _Fitted:
    """A model whose `fit` is a function of rows and labels."""

    def __init__(self, make: Callable[[Any, Any], Any]) -> None:
        self._make = make

    def fit(self, X: Any, y: Any) -> Any:
        return self._make(X, y)


MODELS: dict[str, Callable[[], Any]] = {
    OURS: lambda: MGCEEmbeddingClassifier(random_state=0),
    "logistic regression": lambda: tuned(logistic(), C=[1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2]),
    "LDA, Ledoit-Wolf": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "CleanLearning": cleaned,
    "nearest neighbours": lambda: tuned(
        make_pipeline(Normalizer(), KNeighborsClassifier()), kneighborsclassifier__n_neighbors=[10, 20, 50, 100]
    ),
    "boosting, 50 components": lambda: tuned(
        make_pipeline(
            PCA(50, random_state=0), HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=8, random_state=0)
        ),
        histgradientboostingclassifier__learning_rate=[0.03, 0.1],
    ),
}


# Baselines of suspects: the margin of a label in probabilities of the same folds.
SUSPECTS = {"logistic regression": logistic(1e-4), "LDA, Ledoit-Wolf": MODELS["LDA, Ledoit-Wolf"]()}


class Split(NamedTuple):
    """Training rows with given and right labels, and test rows with right ones."""

    train: Any
    given: Any
    right: Any
    test: Any
    right_test: Any


def line_of(make: Callable[[], Any], judges: dict[str, Any], name: str, split: Split) -> dict[str, Any]:
    """Return seconds of the processor, accuracy, which test rows are wrong, and the average precision of suspects."""
    train, given, right, test, right_test = split
    if name != OURS:
        scale = StandardScaler().fit(train)
        train, test = scale.transform(train), scale.transform(test)
    began = time.process_time()
    model = make().fit(train, given)
    seconds = time.process_time() - began
    wrong = model.predict(test) != right_test
    line: dict[str, Any] = {"seconds": round(seconds, 1), "accuracy": 1 - float(wrong.mean())}
    line["wrong"] = np.packbits(wrong).tobytes().hex()
    if (given != right).any() and (name == OURS or name in judges):
        probs = (
            model.oof_proba_
            if name == OURS
            else cross_val_predict(
                judges[name],
                train,
                given,
                cv=StratifiedKFold(FOLDS, shuffle=True, random_state=0),
                method="predict_proba",
            )
        )
        line["suspects"] = float(average_precision_score(given != right, score(probs, given, name == OURS)))
    return line


def score(probs: Any, given: Any, ours: bool) -> Any:
    """Return how suspect each label is: by `find_suspects`, or by the margin of the label, the best of a library."""
    if ours:
        return find_suspects(probs, given, given="probs").wrong
    rows = np.arange(len(given))
    others = probs.copy()
    others[rows, given] = -1
    return others.max(1) - probs[rows, given]


def difference(cells: dict[Any, Any], sets: list[int], noise: str, names: list[str]) -> list[str]:
    """Return the best baseline of some models, the mean difference to it in points, and an interval of 95 %."""
    complete = [s for s in sets if all((noise, name, s) in cells for name in names)]
    if not complete:
        return ["", "", ""]
    means = {name: np.mean([cells[noise, name, s]["accuracy"] for s in complete]) for name in names if name != OURS}
    best = max(means, key=lambda name: means[name])
    gaps = np.array([cells[noise, OURS, s]["accuracy"] - cells[noise, best, s]["accuracy"] for s in complete]) * 100
    if len(gaps) > 1:
        half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
    else:
        ours, other = (_wrong(cells[noise, name, complete[0]]) for name in (OURS, best))
        paired = other.astype(float) - ours
        half = 100 * stats.norm.ppf(0.975) * paired.std() / np.sqrt(len(paired))
    return [best, f"{gaps.mean():+.1f}", f"{gaps.mean() - half:+.1f} to {gaps.mean() + half:+.1f}"]


def _wrong(line: dict[str, Any]) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(bytes.fromhex(line["wrong"]), np.uint8))
