"""Choose a model by cross-validated accuracy: try all candidates on few rows, then only the best on more rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, train_test_split

from mgce.tables.candidates import Baseline, Candidate

FOLDS = 3  # each candidate is fitted to two thirds of the rows and tested on the remaining third, three times
# Numbers of rows that candidates are tried on, one rung after the other (successive halving). An accuracy near 0.7,
# measured on 2,000 rows, has a standard error of sqrt(0.7 * 0.3 / 2,000), about 1 %: enough to drop candidates that
# are far behind. On 8,000 rows it is half of that.
RUNGS = (2_000, 8_000)
# A candidate moves on to the next rung if it is the best candidate of its model, and its accuracy is at most this far
# below the best candidate of all. The next rung has four times the rows, and models that need many rows, networks
# above all, can catch up by as much as five points of accuracy there.
BEHIND = 0.05
OnFit = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """The result of a candidate or a baseline on the last rung that it reached."""

    name: str
    candidate: Candidate | None  # None for a baseline
    rows: int  # number of training rows in the cross-validation
    accuracy: float  # share of the test rows of all folds whose given label was predicted
    seconds: float  # of processor time, for all folds together
    left_out: str = ""  # the reason if the candidate was too slow to be chosen, else ""

    @property
    def model(self) -> str:
        """The candidate's model, a key of `MODELS`; "" for a baseline."""
        return "" if self.candidate is None else self.candidate.model


@dataclass(frozen=True)
class Choice:
    """The chosen candidate, fitted to all training rows, and the trials that it was chosen from."""

    fitted: Any  # the estimator
    trial: Trial  # of the chosen candidate
    trials: list[Trial]  # of all candidates and baselines: by most rows, then by highest accuracy
    measured_on: str  # how accuracies of the last rung were measured, as text that can follow the word "accuracy"

    @property
    def candidate(self) -> Candidate:
        """The chosen candidate."""
        assert self.trial.candidate is not None  # a baseline is never chosen
        return self.trial.candidate


def choose(
    X: NDArray[Any],
    y: NDArray[Any],
    candidates: Sequence[Candidate],
    baselines: Sequence[Baseline] = (),
    *,
    budget: float,
    seed: int,
    on_fit: OnFit,
) -> Choice:
    """Try all candidates on few rows, the best ones on more rows, and fit the best of all to all training rows.

    Args:
        X: training rows, shape (n, d).
        y: their labels, shape (n,).
        candidates: models to choose from, at least one.
        baselines: models to report beside them, tried on the rows of the last rung.
        budget: seconds of processor time (not of the clock, so that other programs on the machine do not use it up)
            for trials and final fit. From the time that its trial took, the time of each candidate's final fit is
            estimated; candidates that would need more than the rest of the budget are not chosen. The rest counts as
            at least half of the budget, however long the trials took; if every candidate is too slow, the quickest is
            chosen. With `inf` the choice depends on the rows and the seed alone.
        seed: for drawing the rows of each rung and the folds.
        on_fit: called before each fit with a description of it.

    Returns:
        The fitted estimator of the chosen candidate, and all trials.
    """
    start = time.process_time()
    remaining = [Trial(candidate.name, candidate, 0, np.nan, 0.0) for candidate in candidates]
    dropped: list[Trial] = []
    rungs = sorted({min(rung, len(y)) for rung in RUNGS})
    rows = np.arange(len(y))
    for rung in rungs:
        rows = _draw_rows(y, rung, seed)
        steps = ((f"Trying {trial.candidate.model}", trial.candidate) for trial in remaining if trial.candidate)
        tried = [_try(step, candidate, X[rows], y[rows], seed, on_fit) for step, candidate in steps]
        remaining = tried if rung == rungs[-1] else _survivors(tried)
        dropped += [trial for trial in tried if trial not in remaining]
    compared = [_try(f"Trying {baseline.name}", baseline, X[rows], y[rows], seed, on_fit) for baseline in baselines]
    left = max(budget / 2, budget - (time.process_time() - start))
    remaining = [_left_out_if_slow(trial, len(y), left) for trial in remaining]
    quickest = min(remaining, key=lambda trial: trial.seconds)
    affordable = [trial for trial in remaining if not trial.left_out] or [quickest]
    best = max(affordable, key=lambda trial: trial.accuracy)  # of equal accuracies, the first
    assert best.candidate is not None
    on_fit("Fitting")
    fitted = fit_candidate(best.candidate, X, y, seed)
    trials = sorted([*remaining, *compared, *dropped], key=lambda trial: (-trial.rows, -trial.accuracy))
    measured_on = f"in {folds(y[rows], seed).n_splits}-fold cross-validation on {len(rows):,} training rows"
    return Choice(fitted, best, trials, measured_on)


def fit_candidate(candidate: Candidate, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
    """Fit a candidate's final estimator to the rows, or to a random `most_rows` of them if there are more."""
    rows = _draw_rows(y, candidate.most_rows or len(y), seed)
    return clone(candidate.final).fit(X[rows], y[rows])


def count_fits(candidates: Sequence[Candidate], baselines: Sequence[Baseline]) -> int:
    """Return the largest number of calls of `on_fit` that :func:`choose` can make."""
    return 1 + len(baselines) + len(RUNGS) * len(candidates)


def folds(y: NDArray[Any], seed: int) -> StratifiedKFold:
    """Return three stratified folds, or two if the rarest class has only two rows."""
    least = np.unique(y, return_counts=True)[1].min()
    return StratifiedKFold(int(np.clip(least, 2, FOLDS)), shuffle=True, random_state=seed)


def _try(step: str, model: Candidate | Baseline, X: NDArray[Any], y: NDArray[Any], seed: int, on_fit: OnFit) -> Trial:
    """Measure a model by cross-validation."""
    on_fit(step)
    start, correct = time.process_time(), 0
    with warnings.catch_warnings():
        # A fit that did not converge, or a class with fewer rows than folds: neither concerns the user, as a trial's
        # model is thrown away.
        warnings.simplefilter("ignore")
        for train, test in folds(y, seed).split(X, y):
            correct += int((clone(model.quick).fit(X[train], y[train]).predict(X[test]) == y[test]).sum())
    seconds = time.process_time() - start
    return Trial(model.name, model if isinstance(model, Candidate) else None, len(y), correct / len(y), seconds)


def _survivors(trials: list[Trial]) -> list[Trial]:
    """Return the best trial of each model, if it is no more than `BEHIND` below the best of all."""
    best = max(trial.accuracy for trial in trials)
    leaders: dict[str, Trial] = {}
    for trial in trials:
        assert trial.candidate is not None
        leader = leaders.setdefault(trial.candidate.model, trial)
        if trial.accuracy > leader.accuracy:
            leaders[trial.candidate.model] = trial
    return [trial for trial in leaders.values() if trial.accuracy >= best - BEHIND]


def _left_out_if_slow(trial: Trial, n: int, left: float) -> Trial:
    """Mark a trial as left out if fitting its candidate to all n rows would take more than `left` seconds.

    A forest stays: one is grown on all rows in any case, to judge the labels.
    """
    if trial.model == "forest":
        return trial
    most = None if trial.candidate is None else trial.candidate.most_rows
    # In `trial.seconds`, a trial of three folds fits two thirds of its rows three times: twice its rows together. The
    # time of a fit is taken to be proportional to its number of rows.
    seconds = trial.seconds * min(n, most or n) / (2 * trial.rows)
    if seconds <= left:
        return trial
    reason = f"fitting it to {n:,} rows would take about {seconds:.0f} s"
    return Trial(trial.name, trial.candidate, trial.rows, trial.accuracy, trial.seconds, reason)


def _draw_rows(y: NDArray[Any], most: int, seed: int) -> NDArray[np.int64]:
    """Draw at most `most` rows; return their indices, sorted."""
    rows = np.arange(len(y))
    if len(rows) <= most:
        return rows
    # Stratified, so that a rare class keeps its share of the rows, as nearly as whole rows allow.
    drawn, _ = train_test_split(rows, train_size=most, stratify=y, random_state=seed)
    return np.sort(drawn)
