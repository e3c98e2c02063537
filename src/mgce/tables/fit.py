"""Fit a robust classifier to a table, bound its errors from held-out rows, and estimate which labels are wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from mgce._threads import one_blas_thread, one_torch_thread
from mgce._validation import check_beta, check_choice, expected, expected_share
from mgce.datasets.reading import Reading
from mgce.datasets.table_files import accounted
from mgce.encoders.card import Card
from mgce.estimators import MGCEVotingClassifier
from mgce.functional import minimax_probs
from mgce.metrics.evaluation import evaluate
from mgce.noise.right_labels import RightLabels, estimate_right_labels
from mgce.review.decision_file import Decision
from mgce.review.suspect_file import PICTURE
from mgce.risk import RiskCertificate, certify
from mgce.risk.any_model import label_indices
from mgce.sets import ConformalSets, calibrate
from mgce.tables.candidates import AUTO, BASELINES, FEW_BETAS, HEADS, MODELS, Baseline, Candidate, baselines, candidates
from mgce.tables.checked import Checked, Findings, findings
from mgce.tables.choice import Choice, choose, count_fits, fit_candidate
from mgce.tables.consensus import Consensus
from mgce.tables.dependence import Dependence, dependence
from mgce.tables.heads import HEAD_FITS, choose_head, judge_by_head
from mgce.tables.listing import Listing
from mgce.tables.measures import Measures, measure
from mgce.tables.model import Predictions, TableModel, row_prints
from mgce.tables.notes import notes_on
from mgce.tables.rows import Rows, Split, split_rows
from mgce.tables.suspects import Judgement, judge
from mgce.tables.text_features import transformer as features_of

IntArray = NDArray[np.int64]
OnStep = Callable[[str, int, int], None]
METRICS = ("accuracy", "balanced")
OTHER_STEPS = 3  # beside the fits of the choice: judging the labels, shuffling columns, the fit to all rows
RIGHT_ROWS = 10_000  # the most rows from which q is estimated: its few numbers are then known to a hundredth
OF_ALL_ROWS = "the model, which learnt from all rows, is as sure of its classes as that of the training rows"
DISTINCT = (
    "a row and its copies (equal in all features and the label, more often than by chance) count as one draw, and this "
    "holds for distinct rows"
)


@dataclass(frozen=True)
class FitPlan(Split):
    """The settings of :func:`run`, which fits a classifier to a table.

    The result depends only on these settings and the table, if `budget` is inf. Otherwise it also depends on the speed
    of the processor.

    Attributes:
        model: a key of :data:`~mgce.tables.candidates.MODELS`, or "auto" for all of them.
        beta: loss parameter in [1, inf]; None to choose it.
        noise_rate: the share of labels that are wrong, or "auto" to estimate it: see :func:`mgce.certify`.
        noise_type: what is assumed about wrong labels: see :func:`mgce.certify`.
        coverage: share of rows whose label prediction sets are to contain, in (0, 1).
        delta: probability with which the certificate may fail.
        budget: seconds of processor time for choice and fit of the model: see :func:`mgce.tables.choice.choose`.
        metric: the measure by which the model is chosen and fitted: "accuracy" or "balanced". Balanced accuracy is the
            mean over labels of the accuracy on rows of one label. For it rows are weighted, so that all labels have
            equal weight.
    """

    model: str = AUTO
    beta: float | None = None
    noise_rate: float | str = 0.0
    noise_type: str = "symmetric"
    coverage: float = 0.9
    delta: float = 0.05
    budget: float = 60.0
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("model", self.model, (AUTO, *MODELS))
        check_choice("metric", self.metric, METRICS)
        if not 0 <= self.seed < 2**32:  # what NumPy's generators take
            raise ValueError(expected("seed", "an integer in [0, 2^32)", self.seed))
        if self.beta is not None:
            check_beta(self.beta)
        if not 0 < self.coverage < 1:
            raise ValueError(expected_share("coverage", "a float in (0, 1)", self.coverage))
        if not self.budget > 0:
            raise ValueError(expected("budget", "a positive number of seconds", self.budget))


@dataclass(frozen=True)
class TableFit:
    """A model fitted to all rows, with certificate and measurements of the same model fitted to the training rows."""

    model: TableModel  # what was chosen, fitted to all rows: the one to use
    measured: TableModel  # the same, fitted to the training rows: the one that the certificate and all figures are of
    choice: Choice
    quality: dict[str, Any]  # on the rows held out: what `_quality` returns
    certificate: RiskCertificate
    measures: Measures  # on the rows held out
    judgement: Judgement  # of the given labels of all rows
    listing: Listing  # what is listed of each row beside the judgement
    row_names: pd.Series[Any]  # of all rows: values of the id column, or numbers of the rows
    n_train: int  # number of training rows, of which none is a copy
    n_copies: int  # number of rows that are copies of others
    # Mean of q of the predicted class on the rows held out: an estimate of the accuracy against right labels.
    sure: float
    set_size: float  # mean number of classes in a prediction set of the rows held out; 0 without prediction sets
    n_missing: dict[str, int]  # number of missing values of each feature
    dependence: list[Dependence]  # signs that rows depend on one another, which are among the notes too
    left_out: list[str]  # columns that are not features because no training row has a value
    notes: list[str]  # sentences for the user: likely mistakes in the table, and fits that did not converge
    reading: Reading | None = None  # the account of the table's file, if it was read from one
    checked: Checked | None = None  # decisions of a person on rows
    findings: Findings | None = None  # what they did and tell
    caution: str = ""  # what the headline has to add, of what is known of the table's file
    consensus: Consensus | None = None  # of several labels a row, if the target is one

    @property
    def given_label(self) -> str:
        """The label of held-out rows that accuracies, bounds and calibration errors compare with."""
        return "the given label" if self.findings is None else "the label given before the review"

    @property
    def judge(self) -> str:
        """What judges the labels: the head that was chosen for embeddings, or a forest."""
        return self.choice.trial.model if self.choice.trial.model in HEADS else "forest"


def run(
    frame: Any,
    plan: FitPlan,
    on_step: OnStep | None = None,
    jobs: int = 1,
    reading: Reading | None = None,
    decisions: Sequence[Decision] = (),
    encoder: Card | None = None,
) -> TableFit:
    """Choose and fit a model on the training rows, certify and measure it on held-out rows, and judge all labels.

    At the end, the chosen model is fitted once more to all rows.

    Args:
        frame: the table: a DataFrame of pandas or polars.
        plan: the settings.
        on_step: called at the beginning of each step with its description, its number from 1, and the largest possible
            number of steps.
        jobs: number of trees that a forest grows at once; -1 for one on each core.
        reading: the description of the table's file, if the table was read from a file.
        decisions: a person's decisions on labels: they correct the labels of training rows. Held-out rows are drawn and
            measured with the labels before the review, so that decisions cannot make the model look better.
        encoder: the card of the encoder that made the table's embeddings, for the model's file.

    Raises:
        TypeError: if `frame` is no table.
        ValueError: if the table is not fit for classification, or too small to be split, or not the one that decisions
            were made on.
    """
    if reading is None:
        frame, reading = accounted(frame)
    frame = frame.reset_index(drop=True)
    checked = Checked.of(decisions, frame, plan) if decisions else None
    rows = split_rows(frame if checked is None else checked.given, plan)
    checked = checked and checked.with_copies(rows)
    learnt_from = rows if checked is None else checked.mended(rows)
    # Certify one made-up row: an invalid option raises its error now, not after all fits.
    _certified(np.zeros(1, np.int64), np.full((1, len(rows.classes)), 1 / len(rows.classes)), plan)
    by_head = rows.columns.width > 0 and plan.model == AUTO
    among = [] if by_head else candidates(plan.model, plan.beta, plan.seed, len(rows.train), len(rows.classes), jobs)
    compared = [] if by_head else baselines(plan.seed, len(rows.classes))
    if plan.model != AUTO:  # then baselines are reported alone
        compared = [replace(baseline, final=None) for baseline in compared]
    on_fit = _Counter(on_step, (HEAD_FITS if by_head else count_fits(among, compared)) + OTHER_STEPS)
    learnt = _learn(learnt_from, plan, among, compared, on_fit, jobs)
    choice = learnt.choice
    measured = _model(learnt_from, learnt.transformer, choice.fitted, learnt_from.train)
    held_out = _predicted(measured, rows)
    certificate = _certified(held_out.target, held_out.h, plan, held_out.groups)
    if rows.n_copies:
        certificate = replace(certificate, assumptions=(*certificate.assumptions, DISTINCT))
    with one_blas_thread(), one_torch_thread():
        on_fit("Shuffling columns")
        measures = measure(measured.pipeline, held_out.known.label, rows, certificate, plan.noise_type, plan.seed)
    quality = _quality(held_out.known.margins, rows.target[rows.held_out], measured.beta)
    in_use = plan.groups is not None or plan.time is not None
    sets = None if in_use else _sets(held_out, rows, plan)  # conformal prediction needs exchangeable rows
    set_size = 0.0 if sets is None else float(sets.predict(held_out.known.softmax).sum(1).mean())
    with one_blas_thread(), one_torch_thread():
        on_fit("Fitting to all rows")
        model = _refitted(choice, learnt_from, plan, sets, _right_labels(held_out, choice, rows, plan, certificate))
    model = replace(model, encoder=encoder)
    decided = {} if checked is None else {row: one.decision for row, one in checked.by_row(rows).items()}
    listing = Listing.of(frame, rows, plan, reading, decided)
    found, judgement = None, learnt.judgement
    if checked is not None:
        label, judgement = held_out.known.label, checked.settled(judgement, rows)
        found = findings(checked, rows, listing.draws, label, plan.delta, independent=not in_use)
    dependent = dependence(rows.selected, rows.columns.kinds, rows.labels, rows.n_copies, in_use)
    return TableFit(
        model=model,
        measured=measured,
        choice=choice,
        quality=quality,
        certificate=certificate,
        measures=measures,
        judgement=judgement,
        listing=listing,
        row_names=rows.names,
        n_train=len(learnt_from.train),
        n_copies=rows.n_copies,
        sure=float(model.right_labels.probs(held_out.known.margins).max(1).mean()) if model.right_labels else np.nan,
        set_size=set_size,
        n_missing={name: int(rows.selected[name].isna().sum()) for name in rows.columns.kinds},
        dependence=dependent,
        left_out=[
            name
            for name in frame.columns
            if name not in (*rows.columns.kinds, plan.target, *plan.unlearnt) and not rows.columns.width
        ],
        reading=reading,
        checked=checked,
        findings=found,
        notes=[
            *(reading.notes if reading else ()),
            *rows.notes,
            *notes_on(rows.frame, rows.selected, rows.labels, rows.columns),
            *(each.note for each in dependent),
            *_beside_embeddings(frame, rows, plan),
            *learnt.warned,
            *_on_choice(choice),
            *([found.note] if found and found.note else []),
        ],
    )


@dataclass(frozen=True)
class _Learnt:
    """The results of learning from the training rows: the chosen model, and the judgement of all labels."""

    transformer: Any  # a fitted preprocessor
    choice: Choice
    judgement: Judgement  # of the labels of all rows
    warned: list[str]  # of fits that did not converge, each sentence once


def _learn(
    rows: Rows,
    plan: FitPlan,
    among: Sequence[Candidate],
    compared: Sequence[Baseline],
    on_fit: Callable[[str], None],
    jobs: int,
) -> _Learnt:
    """Choose a model by cross-validation on the training rows, and judge all labels."""
    transformer = features_of(rows.selected, rows.columns.kinds, plan.seed).fit(rows.selected.iloc[rows.train])
    X, y = transformer.transform(rows.selected), rows.classes[rows.target]
    # These are many small fits, in which several threads would mostly wait for one another.
    with one_blas_thread(), one_torch_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        settings: dict[str, Any] = {"beta": plan.beta or FEW_BETAS[0], "budget": plan.budget, "seed": plan.seed}
        copied, weight = rows.weight(rows.train), _weight(rows, rows.train, plan)
        settings |= {"weight": weight, "balanced": plan.metric == "balanced"}
        if not among:  # embeddings
            choice = choose_head(X[rows.train], y[rows.train], seed=plan.seed, on_fit=on_fit, weight=weight)
            on_fit("Judging the labels")
            judged = judge_by_head(choice, X, rows.target, rows.train, rows.first)
            return _Learnt(transformer, choice, judged, [])
        choice = choose(X[rows.train], y[rows.train], among, compared, **settings, on_fit=on_fit)
        on_fit("Judging the labels")
        others: dict[str, Any] = {"weight": copied, "first": rows.first}
        if plan.metric == "accuracy":  # else its forest has weights by which rare labels seem right
            others["fitted"] = _members(choice.fitted)
        judgement = judge(X, rows.target, rows.train, plan.seed, jobs, **others)
    return _Learnt(transformer, choice, judgement, list(dict.fromkeys(str(one.message) for one in caught)))


def _weight(rows: Rows, some: IntArray, plan: FitPlan) -> NDArray[np.float64] | None:
    """Return the weights of the rows `some` in fits; None if all weights are equal.

    For the balanced metric, all given labels have the same total weight. With two classes, the classifier of best
    balanced accuracy against given labels is also the best against right labels, whatever the shares of wrong labels.
    This is not so for weights by estimated shares of the right classes, which are not used.

    Reference: Menon, van Rooyen, Ong and Williamson, Learning from corrupted binary labels via class-probability
    estimation, ICML 2015.
    """
    copied = rows.weight(some)
    if plan.metric == "accuracy":
        return copied
    weight = np.ones(len(some)) if copied is None else copied
    totals = np.bincount(rows.target[some], weight)
    return np.asarray(weight * (weight.sum() / (np.count_nonzero(totals) * totals[rows.target[some]])))


def _certified(
    target: IntArray, h: NDArray[np.float64], plan: FitPlan, groups: NDArray[Any] | None = None
) -> RiskCertificate:
    """Bound how often predictions are wrong, under the plan's assumption on wrong labels."""
    return certify(target, h, delta=plan.delta, noise_rate=plan.noise_rate, noise_type=plan.noise_type, groups=groups)


@dataclass(frozen=True)
class _HeldOut:
    """Predictions of the held-out rows; rows whose label is a class come first."""

    known: Predictions  # of the rows whose label is a class
    target: IntArray  # of all rows held out: positions in the classes; -1, an error of any model, for other labels
    h: NDArray[np.float64]
    softmax: NDArray[np.float64]
    groups: NDArray[Any] | None  # that certificates have to keep together


def _predicted(model: TableModel, rows: Rows) -> _HeldOut:
    given = rows.labels.iloc[rows.held_out].to_numpy(dtype=str)
    known = model.predict(rows.selected.iloc[rows.held_out])
    target = label_indices(given, model.classes, len(given), rows.columns.target)
    groups = None
    if rows.groups is not None:
        groups = np.concatenate([rows.groups[rows.held_out], rows.unknown_groups])
    if not len(rows.unknown):
        return _HeldOut(known, target, known.h, known.softmax, groups)
    unknown = model.predict(rows.unknown)
    return _HeldOut(
        known,
        np.concatenate([target, np.full(len(rows.unknown), -1)]),
        np.concatenate([known.h, unknown.h]),
        np.concatenate([known.softmax, unknown.softmax]),
        groups,
    )


def _sets(held_out: _HeldOut, rows: Rows, plan: FitPlan) -> ConformalSets:
    """Return conformal prediction sets that are calibrated on the held-out rows."""
    sets = calibrate(held_out.target, held_out.softmax, alpha=1 - plan.coverage, **_noise_options_of_sets(plan))
    return replace(sets, assumptions=(*sets.assumptions, *([DISTINCT] if rows.n_copies else []), OF_ALL_ROWS))


def _right_labels(
    held_out: _HeldOut, choice: Choice, rows: Rows, plan: FitPlan, certificate: RiskCertificate
) -> RightLabels | None:
    """Return the map from margins (logits) to q, the probabilities of the right label; None if none can be fitted.

    The map is fitted to held-out rows; for an average, also to out-of-fold rows. A model fitted for the balanced metric
    has no q, since its margins do not reflect how frequent classes are.
    """
    if plan.metric == "balanced":
        return None
    margins, target = held_out.known.margins, rows.target[rows.held_out]
    others = choice.out_of_fold
    if others is not None and others.margins.shape[1] == margins.shape[1]:
        margins, target = np.concatenate([margins, others.margins]), np.concatenate([target, others.target])
    if not len(target):  # no label of the rows held out is a class
        return None
    drawn = np.sort(np.random.default_rng(plan.seed).permutation(len(target))[:RIGHT_ROWS])
    stated = isinstance(plan.noise_rate, float) and plan.noise_rate > 0 and plan.noise_type == "symmetric"
    rate = plan.noise_rate if stated and certificate.refuted is None else None
    return estimate_right_labels(margins[drawn], target[drawn], None if rate is None else float(rate))


def _refitted(
    choice: Choice, rows: Rows, plan: FitPlan, sets: ConformalSets | None, right_labels: RightLabels | None
) -> TableModel:
    """Return the chosen model fitted to all distinct rows, with the given prediction sets and the given map to q."""
    distinct = np.concatenate([rows.train, rows.held_out])
    selected, labels = rows.selected.iloc[distinct], rows.classes[rows.target[distinct]]
    transformer = features_of(rows.selected, rows.columns.kinds, plan.seed).fit(selected)
    weight = _weight(rows, distinct, plan)
    fitted = fit_candidate(choice.candidate, transformer.transform(selected), labels, plan.seed, weight)
    model = _model(rows, transformer, fitted, distinct)
    return replace(model, sets=sets, right_labels=right_labels, n_measured=len(rows.train))


def _members(fitted: Any) -> list[Any]:
    """Return the fitted models that a fitted average consists of, or the model itself."""
    return list(fitted.estimators_) if isinstance(fitted, MGCEVotingClassifier) else [fitted]


def _model(rows: Rows, transformer: Any, classifier: Any, trained: IntArray) -> TableModel:
    """Return the model of a fitted transformer and classifier, which were fitted to the rows with indices `trained`."""
    hashes = np.sort(row_prints(rows.selected.iloc[trained], rows.labels.iloc[trained]))
    return TableModel(Pipeline([("columns", transformer), ("classifier", classifier)]), rows.columns, hashes)


def _quality(f: NDArray[np.float64], target: IntArray, beta: float) -> dict[str, Any]:
    """Return accuracy and calibration errors of predictions on labelled rows.

    Args:
        f: margins (logits), shape (n, k): n rows, k classes.
        target: labels, shape (n,).
        beta: loss parameter by which the probabilities h and p follow from f.

    Returns:
        Accuracy, calibration errors ECE and SCE of the probabilities h and p, and `randomized_error`, the expected
        error of a class that is drawn from h.
    """
    logits, labels = torch.from_numpy(f), torch.from_numpy(target)
    h_of_label = minimax_probs(logits, beta=beta).gather(1, labels[:, None])
    return evaluate(logits, labels, beta) | {"randomized_error": float(1 - h_of_label.mean())}


def _noise_options_of_sets(plan: FitPlan) -> dict[str, Any]:
    """Return the options on wrong labels for the calibration of prediction sets.

    The plan's share of wrong labels is used only if it is an upper bound (noise "any") and smaller than the share of
    rows whose set may miss the label. Otherwise labels are taken as given.
    """
    if plan.noise_type == "any" and isinstance(plan.noise_rate, float) and plan.noise_rate < 1 - plan.coverage:
        return {"noise_type": plan.noise_type, "noise_rate": plan.noise_rate}
    return {}


def _beside_embeddings(frame: pd.DataFrame, rows: Rows, plan: FitPlan) -> list[str]:
    """Say which columns are not learnt from, because the table has a column of embeddings."""
    learnt = *rows.columns.kinds, plan.target, *plan.unlearnt, PICTURE
    others = [name for name in frame.columns if name not in learnt]
    if not rows.columns.width or not others:
        return []
    return [f"The embeddings alone are learnt from, not the columns beside them: {', '.join(others)}."]


def _on_choice(choice: Choice) -> list[str]:
    """Return notes on what the user can do for a better choice of model."""
    edges = [choice.candidate.edge] if choice.candidate.edge else []
    if choice.trial.model in BASELINES:
        edges = [f"{choice.trial.name} was clearly more accurate on the same rows than our models, so it was chosen."]
    if not choice.untried:
        return edges
    names = "; ".join(choice.untried)
    return [*edges, f"There was no time to try these candidates, or to try them on more rows: {names}. See --budget."]


class _Counter:
    """Count the steps of a fit, and report each step to `on_step`."""

    def __init__(self, on_step: OnStep | None, total: int) -> None:
        self.on_step, self.total, self.done = on_step, total, 0

    def __call__(self, step: str) -> None:
        self.done += 1
        if self.on_step is not None:
            self.on_step(step, self.done, self.total)
