"""The models that a fit to a table chooses among."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from mgce.estimators import MGCEClassifier, MGCEForestClassifier, MGCEFourierClassifier, MGCEMLPClassifier

MODELS = {
    "forest": "forest of decision trees whose leaves outvote wrong labels",
    "linear": "linear MGCE with an L1 penalty, convex",
    "fourier": "MGCE that is linear in 500 random Fourier features, convex",
    "mlp": "multilayer perceptron trained by the MGCE loss",
}
AUTO = "auto"  # the best of all
# Robust, in between, and nearly cross-entropy: few values, since each costs a fit and neighbours hardly differ.
BETAS = (1.4, 3.0, 11.0)
FEW_BETAS = (1.4, 3.0)  # where other models are candidates too
PENALTIES = {"linear": (1e-4, 1e-3, 1e-2), "fourier": (1e-3, 3e-3, 1e-2, 3e-2)}
TOL = 1e-3  # duality gap of a candidate, ten times as wide as that of the final fit
# Rows that a model of 500 random features learns from at most: a hundred for each feature, 200 MB of them, and ten
# seconds or so. A million rows took five minutes and 13 GB.
FOURIER_ROWS = 50_000
MAX_ITER = 200  # of a candidate: the last digits of its coefficients change the labels of few rows, if of any


@dataclass(frozen=True)
class Candidate:
    """A model that may be chosen: its name in `MODELS`, what sets it apart from others, and how it is fitted."""

    model: str
    settings: str
    quick: Any  # an estimator for the choice, not fitted
    final: Any  # the same with all its digits, for the rows of the final fit
    most_rows: int | None = None  # for the final fit, drawn at random; None for all
    edge: str = ""  # what to say if it is chosen, because it is the last of a row of values

    @property
    def name(self) -> str:
        """Tell it from all others."""
        return f"{self.model}, {self.settings}"


@dataclass(frozen=True)
class Baseline:
    """A model to compare with, that is never chosen."""

    name: str
    quick: Any


def candidates(model: str, beta: float | None, seed: int, jobs: int = 1) -> list[Candidate]:
    """List the candidates of a model of `MODELS`, or of all (`AUTO`); a `beta` of None is to be chosen too.

    A forest grows as many trees at once as there are `jobs`; -1 for as many as there are cores.
    """
    if model == AUTO:
        return [candidate for name in MODELS for candidate in _of(name, (beta,) if beta else FEW_BETAS, seed, jobs)]
    return _of(model, (beta,) if beta else BETAS, seed, jobs)


def baselines(seed: int) -> list[Baseline]:
    """List what people would use instead."""
    return [
        # The 100 iterations that scikit-learn has by default are too few for wide tables.
        Baseline("logistic regression", LogisticRegression(max_iter=300)),
        Baseline("gradient boosting", HistGradientBoostingClassifier(random_state=seed)),
    ]


def _of(model: str, betas: tuple[float, ...], seed: int, jobs: int) -> list[Candidate]:
    if model == "forest":
        # Its trees do not depend on beta, nor do the classes that it predicts.
        forest = MGCEForestClassifier(betas[0], random_state=seed, n_jobs=jobs)
        return [Candidate(model, f"beta {betas[0]:g}", forest, forest)]
    if model == "mlp":
        settings = f"beta {' or '.join(f'{beta:g}' for beta in betas)}"
        network = MGCEMLPClassifier(beta="cv" if len(betas) > 1 else betas[0], betas=betas, random_state=seed)
        return [Candidate(model, settings, network, network)]
    if model == "fourier":
        # One beta: these take the longest, and the penalty, of which there are four, matters more.
        return [_convex(model, MGCEFourierClassifier(betas[0], random_state=seed), value) for value in PENALTIES[model]]
    return [_convex(model, MGCEClassifier(beta), value) for beta in betas for value in PENALTIES[model]]


def _convex(model: str, estimator: Any, penalty: float) -> Candidate:
    values = PENALTIES[model]
    end = {values[0]: "smallest", values[-1]: "largest"}.get(penalty, "")
    edge = f"The penalty that was chosen, {penalty:g}, is the {end} that was tried." if end else ""
    final = estimator.set_params(lambda0=penalty)
    quick = type(estimator)(**{**final.get_params(), "tol": TOL, "max_iter": MAX_ITER})
    most_rows = FOURIER_ROWS if model == "fourier" else None
    return Candidate(model, f"beta {estimator.beta:g}, penalty {penalty:g}", quick, final, most_rows, edge)
