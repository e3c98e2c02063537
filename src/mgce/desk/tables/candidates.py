"""Define the models among which a fit to a table chooses, and the baselines that are reported beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from mgce.estimators import (
    LabelCorrectionClassifier,
    MGCEBoostingClassifier,
    MGCEClassifier,
    MGCEEmbeddingClassifier,
    MGCEForestClassifier,
    MGCEFourierClassifier,
    MGCEMLPClassifier,
)
from mgce.estimators.forest import TREE_ROWS
from mgce.numerics.root import DEFAULT_BETA

MODELS = {
    "forest": "forest of decision trees whose leaves outvote wrong labels",
    "linear": "linear MGCE with an L1 penalty, convex",
    "mlp": "multilayer perceptron trained by the MGCE loss",
    "boosting": "gradient boosting on labels that a forest has corrected",
    "fourier": "MGCE that is linear in 500 random Fourier features, convex",
}
CORRECTION, HEAD = "correction", "head"
CORRECTIONS = {CORRECTION: "mean of a forest and a kernel regression, on labels that both have corrected"}
HEADS = {
    HEAD: "mean of linear heads on the embeddings, with robust losses and the noise estimated"
}  # by name, what they are
BASELINES = {  # by name, what they are
    "logistic regression": "logistic regression of scikit-learn",
    "gradient boosting": "gradient boosting of scikit-learn, on the labels as given",
}
# Tables of numbers alone with as many columns have the head among their candidates: so many are features of a network,
# as a rule. On 3,000 pictures with 1,280 features and people's labels the head is right on 74 %, the other on 71 %.
WIDE = 256
# By default scikit-learn stops after 100 iterations, which are too few for tables of many columns.
LOGISTIC_STEPS = 300
AUTO = "auto"  # learn from corrected labels
# Beta from robust to wrong labels (1.4) to nearly cross-entropy (11), with one value in between. Only three, since each
# costs a fit and models with neighbouring betas hardly differ.
BETAS = (1.4, 3.0, 11.0)
# Weights of the penalty, by model: powers of ten, and powers of its square root (about 3) for Fourier features, whose
# candidates differ in the penalty only. If an end of the range is chosen, the user is told: see `Candidate.edge`.
PENALTIES = {"linear": (1e-4, 1e-3, 1e-2), "fourier": (1e-3, 3e-3, 1e-2, 3e-2)}
# Tolerance of the duality gap and limit of iterations in trials. The final fit has a tenth of this tolerance, but the
# last digits of the coefficients change the predicted classes of few rows, if of any.
TOL = 1e-3
MAX_ITER = 200
TREES = 100  # trees of a forest: the default of scikit-learn's forests
# The most rows that a model of 500 random features is fitted to: sixty rows for each feature. Its matrix takes
# 30,000 x 500 x 8 bytes = 120 MB and the fit about ten seconds; a million rows took five minutes and 13 GB.
FOURIER_ROWS = 30_000
# The most rows for boosting, whose forest and trees take about as long for them.
BOOSTING_ROWS = 30_000
# With more classes boosting is no baseline: it grows a tree for each class in each of 100 steps. A trial on 2,000 rows
# of 100 classes takes 40 seconds.
MANY_CLASSES = 50


@dataclass(frozen=True)
class Candidate:
    """A model with its hyperparameters that may be chosen: two unfitted estimators, for trials and the final fit."""

    model: str  # a key of `MODELS`
    settings: str  # the hyperparameters that tell it from other candidates of the same model, as text
    quick: Any  # the estimator for trials, with a loose tolerance where the solver has one
    final: Any  # the same estimator with its default tolerance, for the fit after the choice
    most_rows: int | None = None  # fit `final` to at most this many rows, drawn at random; None for all
    edge: str = ""  # a note for the user, if it is chosen and its penalty is the smallest or largest candidate

    @property
    def name(self) -> str:
        """The name of the candidate's model with its settings, unique among the candidates."""
        return f"{self.model}, {self.settings}" if self.settings else self.model


@dataclass(frozen=True)
class Baseline:
    """A model that is tried and reported for comparison. It is chosen only if all candidates are clearly worse."""

    name: str
    quick: Any  # the estimator for trials, named as in `Candidate`
    final: Any = None  # the same model as an estimator of this package; None for one that is never chosen
    most_rows: int | None = None  # as in `Candidate`

    @property
    def candidate(self) -> Candidate:
        """The baseline as a candidate, for the fit after the choice."""
        return Candidate(self.name, "", self.quick, self.final, self.most_rows)


class Logistic(BaseEstimator):  # type: ignore[misc]
    """Fit scikit-learn's logistic regression: a linear model of MGCE at beta = inf, with another penalty."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MGCEClassifier:
        """Fit the logistic regression; return an `MGCEClassifier` that has the fitted coefficients."""
        fitted = LogisticRegression(max_iter=LOGISTIC_STEPS).fit(X, y, sample_weight)
        linear = MGCEClassifier(math.inf)
        linear.classes_, linear.beta_, linear.n_features_in_ = fitted.classes_, math.inf, X.shape[1]
        coef, intercept = fitted.coef_.astype(float), fitted.intercept_.astype(float)  # of float32 for such features
        if len(fitted.classes_) == 2:  # one row, of the second class
            coef, intercept = np.concatenate([0 * coef, coef]), np.concatenate([[0.0], intercept])
        linear.coef_, linear.intercept_ = coef, intercept
        return linear


def candidates(
    model: str, beta: float | None, seed: int, n_rows: int, jobs: int = 1, *, wide: bool = False
) -> list[Candidate]:
    """Return the candidates: of one model, those with several hyperparameters.

    Args:
        model: a key of `MODELS`, or `AUTO` for the one that learns from corrected labels.
        beta: loss parameter of all candidates; None for a few values among which it is chosen.
        seed: seed of the models that draw random numbers.
        n_rows: number of rows of the final fit.
        jobs: number of trees that a forest grows at once; -1 for one on each core.
        wide: whether the table has `WIDE` columns of numbers or more, and no others.
    """
    if model == AUTO:
        found = {CORRECTION: correction(seed, jobs)} | ({HEAD: head(seed)} if wide else {})
        return [Candidate(name, "", estimator, estimator) for name, estimator in found.items()]
    return _candidates_of(model, (beta,) if beta else BETAS, seed, n_rows, jobs)


def correction(seed: int, jobs: int = 1) -> LabelCorrectionClassifier:
    """Return the unfitted classifier that corrects labels and learns from them, and judges the given ones."""
    return LabelCorrectionClassifier(random_state=seed, n_jobs=jobs)


def head(seed: int) -> Any:
    """Return the unfitted classifier of embeddings."""
    return MGCEEmbeddingClassifier(random_state=seed)


def forest(n_rows: int, seed: int, jobs: int = 1, beta: float = DEFAULT_BETA) -> MGCEForestClassifier:
    r"""Return an unfitted forest: 100 trees for up to `TREE_ROWS` rows, fewer for more rows, at least 37.

    A tree draws :math:`m = \min(n, 10^5)` of n rows with replacement, and misses a given row with probability :math:`(1
    - 1/n)^m`. For m = n this is about 1/e. So 37 of 100 trees are out-of-bag trees of a row, which judge its label. The
    larger n is compared with m, the more trees miss a row. Then fewer trees are enough for the same number of
    out-of-bag trees.
    """
    missed = (1 - 1 / n_rows) ** min(n_rows, TREE_ROWS) if n_rows > 1 else 0.0
    trees = min(TREES, math.ceil(TREES * math.exp(-1) / missed)) if missed else TREES
    return MGCEForestClassifier(beta, n_estimators=trees, random_state=seed, n_jobs=jobs)


def baselines(seed: int, n_classes: int) -> list[Baseline]:
    """Return scikit-learn's models that are most often used for tables; boosting is left out for many classes."""
    logistic = Baseline("logistic regression", LogisticRegression(max_iter=LOGISTIC_STEPS), Logistic())
    quick, final = HistGradientBoostingClassifier(random_state=seed), MGCEBoostingClassifier(math.inf, correct=False)
    boosting = Baseline("gradient boosting", quick, final.set_params(random_state=seed), BOOSTING_ROWS)
    return [logistic, boosting] if n_classes <= MANY_CLASSES else [logistic]


def _candidates_of(
    model: str,
    betas: tuple[float, ...],
    seed: int,
    n_rows: int,
    jobs: int,
) -> list[Candidate]:
    if model == "forest":
        # One candidate: neither the trees nor the predicted classes depend on beta, so all betas have one accuracy.
        quick = MGCEForestClassifier(betas[0], random_state=seed, n_jobs=jobs)
        return [Candidate(model, f"beta {betas[0]:g}", quick, forest(n_rows, seed, jobs, betas[0]))]
    if model == "boosting":
        # Random splits: the fastest forest. It corrects labels, and need not be the best classifier.
        judge = MGCEForestClassifier(splitter="random", random_state=seed, n_jobs=jobs)
        boosting = MGCEBoostingClassifier(betas[0], forest=judge, random_state=seed)
        return [Candidate(model, f"beta {betas[0]:g}", boosting, boosting, BOOSTING_ROWS)]
    if model == "mlp":
        settings = f"beta {' or '.join(f'{beta:g}' for beta in betas)}"
        network = MGCEMLPClassifier(beta="cv" if len(betas) > 1 else betas[0], betas=betas, random_state=seed)
        return [Candidate(model, settings, network, network)]
    if model == "fourier":
        # Only the first beta: fits to Fourier features take the longest, and the penalty matters more than beta.
        return [
            _convex(model, MGCEFourierClassifier(betas[0], random_state=seed), value) for value in PENALTIES["fourier"]
        ]
    return [_convex(model, MGCEClassifier(beta), value) for beta in betas for value in PENALTIES[model]]


def _convex(model: str, estimator: Any, penalty: float) -> Candidate:
    """Return the candidate of a model with a convex loss, with one value of the penalty."""
    values = PENALTIES[model]
    end, beyond = {values[0]: ("smallest", "smaller"), values[-1]: ("largest", "larger")}.get(penalty, ("", ""))
    edge = (
        f"The penalty that was chosen, {penalty:g}, is the {end} that was tried. That is no error: a {beyond} one "
        "might be a little more accurate."
    )
    final = estimator.set_params(lambda0=penalty)
    quick = type(estimator)(**{**final.get_params(), "tol": TOL, "max_iter": MAX_ITER})
    most_rows = FOURIER_ROWS if model == "fourier" else None
    return Candidate(
        model, f"beta {estimator.beta:g}, penalty {penalty:g}", quick, final, most_rows, edge if end else ""
    )
