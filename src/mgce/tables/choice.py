"""Choose among candidates by their accuracy on training rows: on few rows first, the best of them on more."""

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

FOLDS = 3  # each candidate is fitted to two thirds of the rows and judged on the others
# The accuracy of 2,000 rows has a standard error of about 1 %, enough to leave out what is far behind; that of 8,000,
# about half a percent.
RUNGS = (2_000, 8_000)
# A candidate goes on if it is the best of its model, and behind the best of all by no more than this: with four times
# the rows, models that need many of them, networks above all, gain up to so much on the others.
BEHIND = 0.05
OnFit = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """What was found of a candidate or a baseline, on the most rows that it was tried on."""

    name: str
    candidate: Candidate | None  # None for a baseline
    rows: int
    accuracy: float  # against the labels as given, over all folds
    seconds: float  # of processor time, for all folds
    left_out: str = ""  # why it could not be chosen though it was ahead

    @property
    def model(self) -> str:
        """The kind of model, a name in `MODELS`; "" for a baseline."""
        return "" if self.candidate is None else self.candidate.model


@dataclass(frozen=True)
class Choice:
    """The candidate that was chosen, fitted to all training rows, and among what."""

    fitted: Any
    trial: Trial
    trials: list[Trial]  # with the baselines, the best first
    measured_on: str  # which rows those of the last rung were, as it goes on after "accuracy"

    @property
    def candidate(self) -> Candidate:
        """The one that was chosen."""
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
    """Try the candidates on few rows and the best of them on more, and fit the best of all to all rows.

    Args:
        X: training rows, shape (n, d).
        y: their labels, shape (n,).
        candidates: one or more.
        baselines: models to compare with, tried on the rows of the last rung.
        budget: seconds of processor time, which other programs on the machine do not use up. A candidate whose fit to
            all rows would take longer than what is left of them, judged by its trials, is chosen only if it is the
            quickest; half of the budget is always left. With `inf` the choice depends on the rows and the seed alone.
        seed: of the rows and the folds.
        on_fit: called before each fit with what is being done.
    """
    start = time.process_time()
    alive = [Trial(candidate.name, candidate, 0, np.nan, 0.0) for candidate in candidates]
    ended: list[Trial] = []
    rungs = sorted({min(rung, len(y)) for rung in RUNGS})
    rows = np.arange(len(y))
    for rung in rungs:
        rows = _some_rows(y, rung, seed)
        names = ((f"Trying {trial.candidate.model}", trial.candidate) for trial in alive if trial.candidate)
        tried = [_try(what, candidate, X[rows], y[rows], seed, on_fit) for what, candidate in names]
        alive = tried if rung == rungs[-1] else _survivors(tried)
        ended += [trial for trial in tried if trial not in alive]
    compared = [_try(f"Trying {baseline.name}", baseline, X[rows], y[rows], seed, on_fit) for baseline in baselines]
    left = max(budget / 2, budget - (time.process_time() - start))
    alive = [_judged(trial, len(y), left) for trial in alive]
    affordable = [trial for trial in alive if not trial.left_out] or [min(alive, key=lambda trial: trial.seconds)]
    best = max(affordable, key=lambda trial: trial.accuracy)  # the first of several
    assert best.candidate is not None
    on_fit("Fitting")
    fitted = fit_candidate(best.candidate, X, y, seed)
    trials = sorted([*alive, *compared, *ended], key=lambda trial: (-trial.rows, -trial.accuracy))
    measured_on = f"in {folds(y[rows], seed).n_splits}-fold cross-validation on {len(rows):,} training rows"
    return Choice(fitted, best, trials, measured_on)


def fit_candidate(candidate: Candidate, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
    """Fit a candidate to the rows, or to as many of them as it takes."""
    rows = _some_rows(y, candidate.most_rows or len(y), seed)
    return clone(candidate.final).fit(X[rows], y[rows])


def count_fits(candidates: Sequence[Candidate], baselines: Sequence[Baseline]) -> int:
    """Tell how often :func:`choose` will call `on_fit`, at most."""
    return 1 + len(baselines) + len(RUNGS) * len(candidates)


def folds(y: NDArray[Any], seed: int) -> StratifiedKFold:
    """Give three folds, or two if the rarest class has two rows."""
    least = np.unique(y, return_counts=True)[1].min()
    return StratifiedKFold(int(np.clip(least, 2, FOLDS)), shuffle=True, random_state=seed)


def _try(what: str, model: Candidate | Baseline, X: NDArray[Any], y: NDArray[Any], seed: int, on_fit: OnFit) -> Trial:
    on_fit(what)
    start, right = time.process_time(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a candidate that did not converge, a class too rare for the folds
        for train, test in folds(y, seed).split(X, y):
            right += int((clone(model.quick).fit(X[train], y[train]).predict(X[test]) == y[test]).sum())
    seconds = time.process_time() - start
    return Trial(model.name, model if isinstance(model, Candidate) else None, len(y), right / len(y), seconds)


def _survivors(trials: list[Trial]) -> list[Trial]:
    best = max(trial.accuracy for trial in trials)
    leaders: dict[str, Trial] = {}
    for trial in trials:
        assert trial.candidate is not None
        leader = leaders.setdefault(trial.candidate.model, trial)
        if trial.accuracy > leader.accuracy:
            leaders[trial.candidate.model] = trial
    return [trial for trial in leaders.values() if trial.accuracy >= best - BEHIND]


def _judged(trial: Trial, n: int, left: float) -> Trial:
    """Leave a candidate out if fitting it to all n rows would take longer than what is left of the budget."""
    most = None if trial.candidate is None else trial.candidate.most_rows
    # A trial fits two thirds of its rows, three times: twice its rows in all.
    seconds = trial.seconds * min(n, most or n) / (2 * trial.rows)
    if seconds <= left:
        return trial
    reason = f"fitting it to {n:,} rows would take about {seconds:.0f} s"
    return Trial(trial.name, trial.candidate, trial.rows, trial.accuracy, trial.seconds, reason)


def _some_rows(y: NDArray[Any], most: int, seed: int) -> NDArray[np.int64]:
    rows = np.arange(len(y))
    if len(rows) <= most:
        return rows
    # Class by class, so that a rare class is not lost; a class of one row goes to the larger part.
    some, _ = train_test_split(rows, train_size=most, stratify=y, random_state=seed)
    return np.sort(some)
