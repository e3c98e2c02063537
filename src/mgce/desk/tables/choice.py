"""Choose a model by cross-validated accuracy: try all candidates on few rows, then only the best ones on more rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, train_test_split

from mgce.desk.tables.candidates import HEAD, Baseline, Candidate, head
from mgce.labels.choosing import most_predicted, shown_better
from mgce.labels.out_of_fold import out_of_fold

FOLDS = 3  # each candidate is fitted to two thirds of the rows and tested on the remaining third, three times
# Numbers of rows that candidates are tried on, one rung after the other (successive halving). An accuracy near 0.7,
# measured on 2,000 rows, has a standard error of sqrt(0.7 * 0.3 / 2,000), about 1 %: enough to drop candidates that
# are far behind. On 8,000 rows it is half of that.
RUNGS = (2_000, 8_000)
# A candidate moves on to the next rung if it is the best candidate of its model, and its accuracy is at most this far
# below the best candidate of all. The next rung has four times the rows, and models that need many rows, networks
# above all, can catch up by as much as five points of accuracy there.
BEHIND = 0.05
# Level of the test by which a baseline is chosen, one-sided. There are two baselines. At 0.05 one was chosen on 1,000
# rows of covertype by chance: it was a point less accurate than the average on new rows.
SIGNIFICANCE = 0.01
HEAD_FITS = 1  # calls of `on_fit` that the choice of a head makes
Score = Callable[[NDArray[Any], NDArray[Any]], float]  # of probabilities (n, k) and labels (n,)
OnFit = Callable[[str], None]
Weight = NDArray[np.float64] | None  # of the rows in a fit, (n,)
Part = tuple[NDArray[Any], NDArray[Any], Weight]  # features (n, d), labels (n,) and weights of rows


@dataclass(frozen=True)
class Trial:
    """The result of one model, a candidate or a baseline, on the largest set of rows that it was tried on."""

    name: str
    candidate: Candidate | None  # None for a baseline
    rows: int  # number of training rows in the cross-validation
    accuracy: float  # share of the test rows of all folds whose given label was predicted
    seconds: float  # of processor time, for all folds together
    left_out: str = ""  # the reason if the candidate was too slow to be chosen, else ""
    # Probabilities of the test rows of all folds, in the order of the rows: shape (rows, k), float32.
    probs: NDArray[np.float32] | None = field(default=None, repr=False, compare=False)

    @property
    def model(self) -> str:
        """The name of the candidate's model; "" for a baseline."""
        return "" if self.candidate is None else self.candidate.model


@dataclass(frozen=True)
class Margins:
    """Margins (logits) of the chosen model for rows that it was not fitted to, and the given labels of these rows."""

    margins: NDArray[np.float64]  # (n, k)
    target: NDArray[np.int64]  # (n,), positions in the classes


@dataclass(frozen=True)
class Choice:
    """The chosen model, fitted to all training rows, and the trials of all models."""

    fitted: Any  # the estimator
    trial: Trial  # of what was chosen
    trials: list[Trial]  # of all candidates and baselines: by most rows, then by highest accuracy
    measured_on: str  # how accuracies of the last rung were measured, as text that can follow the word "accuracy"
    untried: list[str]  # names of the candidates that there was no time to try, or to try on more rows
    out_of_fold: Margins | None = None  # of a head, for the rows that it was fitted to

    @property
    def candidate(self) -> Candidate:
        """The chosen candidate."""
        assert self.trial.candidate is not None
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
    weight: Weight = None,
    balanced: bool = False,
) -> Choice:
    """Try all candidates on few rows, the best one of each model on more rows, and fit the best to all rows.

    Args:
        X: features of the training rows, shape (n, d): n rows, d features.
        y: labels of the training rows, shape (n,).
        candidates: models to choose from, at least one.
        baselines: models to report beside the candidates, tried on the rows of the last rung. A baseline is chosen if
            it is right on more of these rows than the best candidate, and by more than chance: see `SIGNIFICANCE`.
        budget: seconds of processor time (not of the clock, so that other programs on the machine do not use it up)
            for trials and final fit. A candidate is not tried if its trial is expected to end after the budget; the
            first candidate is always tried. The time of each final fit is estimated from the time of the trial. A
            candidate whose final fit exceeds the rest of the budget is left out. The rest is taken as at least half of
            the budget. If every candidate is too slow, the quickest is chosen. With `inf` the choice depends only on
            the rows and the seed.
        seed: seed for drawing the rows of each rung (set of rows for trials) and the folds.
        on_fit: called before each fit with a description of it.
        weight: weight of each row in the fits, shape (n,); None for equal weights. In accuracies all rows count the
            same.
        balanced: whether accuracy is the balanced accuracy: the mean over labels of the accuracy on rows of one label.
            Then no baseline is chosen.

    Returns:
        The fitted estimator of the chosen candidate, and all trials.
    """
    start = time.process_time()
    score = _balanced if balanced else _accuracy
    remaining = [Trial(candidate.name, candidate, 0, np.nan, 0.0) for candidate in candidates]
    dropped: list[Trial] = []
    untried: list[str] = []
    rungs = sorted({min(rung, len(y)) for rung in RUNGS})
    rows = np.arange(len(y))
    for rung in rungs:
        rows = _draw_rows(y, rung, seed)
        part = X[rows], y[rows], None if weight is None else weight[rows]
        tried = _try_in_time(remaining, part, seed, on_fit, start + budget, score)
        late = [trial for trial in remaining if trial.name not in {each.name for each in tried}]
        untried += [trial.name for trial in late]
        remaining = tried if rung == rungs[-1] else _survivors(tried)
        dropped += [trial for trial in (*late, *tried) if trial.rows and trial not in remaining]
    compared = [
        try_candidate(f"Trying {baseline.name}", baseline, part, seed, on_fit, score)
        for baseline in baselines
        if time.process_time() < start + budget
    ]
    left = max(budget / 2, budget - (time.process_time() - start))
    remaining = [_left_out_if_slow(trial, len(y), left) for trial in remaining]
    quickest = min(remaining, key=lambda trial: trial.seconds)
    affordable = [trial for trial in remaining if not trial.left_out] or [quickest]
    best = most_predicted((trial.accuracy, trial) for trial in affordable)
    rivals = {baseline.name: baseline for baseline in baselines if baseline.final is not None and not balanced}
    for trial in _ahead([trial for trial in compared if trial.name in rivals], best, y[rows]):
        rival = replace(trial, candidate=rivals[trial.name].candidate)
        if _seconds_of_fit(rival, len(y)) <= left:
            compared = [rival if each is trial else each for each in compared]
            best = rival
            break
    assert best.candidate is not None
    on_fit("Fitting")
    fitted = fit_candidate(best.candidate, X, y, seed, weight)
    trials = sorted([*remaining, *compared, *dropped], key=lambda trial: (-trial.rows, -trial.accuracy))
    measured_on = f"in {folds(y[rows], seed).n_splits}-fold cross-validation on {len(rows):,} training rows"
    return Choice(fitted, best, trials, measured_on, untried)


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


def fit_candidate(candidate: Candidate, X: NDArray[Any], y: NDArray[Any], seed: int, weight: Weight = None) -> Any:
    """Fit a candidate's final estimator to all rows, or to `most_rows` random rows if there are more."""
    rows = _draw_rows(y, candidate.most_rows or len(y), seed)
    return _fitted(candidate.final, (X, y, weight), rows)


def _fitted(estimator: Any, rows: Part, some: NDArray[np.int64]) -> Any:
    """Return a clone of an estimator, fitted to the rows with indices `some`."""
    X, y, weight = rows
    options = {} if weight is None else {"sample_weight": weight[some]}
    return clone(estimator).fit(X[some], y[some], **options)


def count_fits(candidates: Sequence[Candidate], baselines: Sequence[Baseline]) -> int:
    """Return the largest number of calls of `on_fit` that :func:`choose` can make."""
    return 1 + len(baselines) + len(RUNGS) * len(candidates)


def folds(y: NDArray[Any], seed: int) -> StratifiedKFold:
    """Return a splitter into three stratified folds, or two if the rarest class has only two rows."""
    least = np.unique(y, return_counts=True)[1].min()
    return StratifiedKFold(int(np.clip(least, 2, FOLDS)), shuffle=True, random_state=seed)


def _try_in_time(
    trials: list[Trial], rows: Part, seed: int, on_fit: OnFit, deadline: float, score: Score
) -> list[Trial]:
    """Try the candidates of earlier trials on these rows; leave out those whose trial would end after the deadline."""
    tried: list[Trial] = []
    for trial in trials:
        assert isinstance(trial.candidate, Candidate)
        # It takes as long as another candidate of its model, or, in proportion to the rows, as it did on fewer rows.
        alike = [each.seconds for each in tried if each.model == trial.model]
        expected = max(alike, default=trial.seconds * len(rows[1]) / max(1, trial.rows))
        if not tried or time.process_time() + expected <= deadline:
            tried.append(try_candidate(f"Trying {trial.model}", trial.candidate, rows, seed, on_fit, score))
    return tried


def try_candidate(
    step: str, model: Candidate | Baseline, rows: Part, seed: int, on_fit: OnFit, score: Score | None = None
) -> Trial:
    """Measure the accuracy of a model by cross-validation on the given rows."""
    on_fit(step)
    start = time.process_time()
    X, y, _ = rows
    classes = np.unique(y)

    def predicted(train: NDArray[np.int64], test: NDArray[np.int64]) -> NDArray[Any]:
        fitted, found = _fitted(model.quick, rows, train), np.zeros((len(test), len(classes)))
        # A class that has too few rows for every fold is not among the columns.
        found[:, np.searchsorted(classes, fitted.classes_)] = fitted.predict_proba(X[test])
        return found

    with warnings.catch_warnings():
        # A fit that did not converge, or a class with fewer rows than folds: neither concerns the user, as a trial's
        # model is thrown away.
        warnings.simplefilter("ignore")
        probs = out_of_fold(predicted, folds(y, seed).split(X, y), (len(y), len(classes))).astype(np.float32)
    seconds = time.process_time() - start
    candidate = model if isinstance(model, Candidate) else None
    return Trial(model.name, candidate, len(y), (score or _accuracy)(probs, y), seconds, probs=probs)


def _accuracy(probs: NDArray[Any], y: NDArray[Any]) -> float:
    return float(_is_right(probs, y).mean())


def _balanced(probs: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the balanced accuracy: the mean over labels of the accuracy on rows of one label."""
    right = _is_right(probs, y)
    return float(np.mean([right[y == label].mean() for label in np.unique(y)]))


def _is_right(probs: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each of n rows whether the predicted class equals the label."""
    return np.asarray(np.unique(y)[probs.argmax(1)] == y)


def _ahead(compared: list[Trial], best: Trial, y: NDArray[Any]) -> list[Trial]:
    """Return the trials significantly more accurate than `best` on the same rows (McNemar's exact test); best first."""
    assert best.probs is not None
    right, ahead = _is_right(best.probs, y), []
    for trial in compared:
        assert trial.probs is not None
        if shown_better(_is_right(trial.probs, y), right, SIGNIFICANCE):
            ahead.append(trial)
    return sorted(ahead, key=lambda trial: -trial.accuracy)


def _survivors(trials: list[Trial]) -> list[Trial]:
    """Return the best trial of each model whose accuracy is at most `BEHIND` below the best of all."""
    best = max(trial.accuracy for trial in trials)
    models = dict.fromkeys(trial.model for trial in trials)
    leaders = [most_predicted((each.accuracy, each) for each in trials if each.model == model) for model in models]
    return [trial for trial in leaders if trial.accuracy >= best - BEHIND]


def _seconds_of_fit(trial: Trial, n: int) -> float:
    """Estimate the seconds that fitting a tried candidate to all n rows takes."""
    assert isinstance(trial.candidate, Candidate)
    # In `trial.seconds`, a trial of three folds fits two thirds of its rows three times: twice its rows together. The
    # time of a fit is taken to be proportional to its number of rows.
    return trial.seconds * min(n, trial.candidate.most_rows or n) / (2 * trial.rows)


def _left_out_if_slow(trial: Trial, n: int, left: float) -> Trial:
    """Mark a trial as left out if fitting its candidate to all n rows would take more than `left` seconds."""
    seconds = _seconds_of_fit(trial, n)
    if seconds <= left:
        return trial
    return replace(trial, left_out=f"fitting it to {n:,} rows would take about {seconds:.0f} s")


def _draw_rows(y: NDArray[Any], most: int, seed: int) -> NDArray[np.int64]:
    """Draw at most `most` of the rows at random; return their indices, sorted."""
    rows = np.arange(len(y))
    if len(rows) <= most:
        return rows
    # Stratified, so that a rare class keeps its share of the rows, as nearly as whole rows allow.
    drawn, _ = train_test_split(rows, train_size=most, stratify=y, random_state=seed)
    return np.sort(drawn)
