"""Fit a robust classifier to a table, certify it on rows held out, and judge the labels: plan and run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from mgce._threads import one_blas_thread, one_torch_thread
from mgce._validation import check_beta, check_choice, expected
from mgce.datasets.tables import preprocessor
from mgce.functional import minimax_probs
from mgce.metrics.evaluation import evaluate
from mgce.risk import RiskCertificate, certify
from mgce.risk.any_model import label_indices
from mgce.sets import calibrate
from mgce.tables.candidates import AUTO, MODELS, baselines, candidates
from mgce.tables.choice import Choice, choose, count_fits, fit_candidate
from mgce.tables.measures import Measures, measure
from mgce.tables.model import TableModel, row_prints
from mgce.tables.notes import notes_on
from mgce.tables.rows import Rows, Split, split_rows
from mgce.tables.suspects import Judgement, judge

if TYPE_CHECKING:
    import pandas as pd

IntArray = NDArray[np.int64]
OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class FitPlan(Split):
    """Everything that a fit depends on, beside the table and, unless `budget` is inf, the speed of the processor.

    A `beta` of None is to be chosen. With `refit` the model is fitted to all rows once its certificate is made.
    """

    model: str = AUTO
    beta: float | None = None
    noise_rate: float | str = 0.0  # or "auto"
    noise: str = "symmetric"
    coverage: float = 0.9  # of the prediction sets
    delta: float = 0.05
    budget: float = 60.0  # seconds of processor time, for the choice and the fit
    refit: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("model", self.model, (AUTO, *MODELS))
        if self.beta is not None:
            check_beta(self.beta)
        if not 0 < self.coverage < 1:
            raise ValueError(expected("coverage", "a float in (0, 1)", self.coverage))
        if not self.budget > 0:
            raise ValueError(expected("budget", "a positive number of seconds", self.budget))


@dataclass(frozen=True)
class TableFit:
    """A model of a table, and all that is said of it."""

    model: TableModel
    choice: Choice
    quality: dict[str, Any]  # on the rows held out: accuracy, calibration errors, `randomized_error`
    certificate: RiskCertificate
    measures: Measures  # on the rows held out
    judgement: Judgement  # of the label of every row
    row_names: pd.Series[Any]  # of every row: by the id column, or numbers
    n_train: int
    set_size: float  # classes in a prediction set, on average over the rows held out
    n_missing: dict[str, int]  # of each column that is learnt from
    left_out: list[str]  # columns without any value
    notes: list[str]  # what the user should know: fits that did not converge


def run(frame: pd.DataFrame, plan: FitPlan, on_step: OnStep | None = None, jobs: int = 1) -> TableFit:
    """Fit to a part of the rows, and certify, measure and judge labels by fits that have not seen the rows.

    Args:
        frame: the table, as :func:`mgce.datasets.table_files.read_frame` gives it.
        plan: the settings.
        on_step: called with what is done, the number of fits begun or done, and that of all.
        jobs: trees of a forest that are grown at once; -1 for as many as there are cores.

    Raises:
        ValueError: if the table is not fit for classification, or too small to be split.
    """
    rows = split_rows(frame, plan)
    options: dict[str, Any] = {"delta": plan.delta, "noise_rate": plan.noise_rate, "noise": plan.noise}
    certify([0], np.full((1, len(rows.classes)), 1 / len(rows.classes)), **options)  # checks them before the work
    among = candidates(plan.model, plan.beta, plan.seed, len(rows.train), jobs)
    compared = baselines(plan.seed)
    on_fit = _Counter(on_step, count_fits(among, compared) + 2 + plan.refit)
    transformer = preprocessor(rows.selected).fit(rows.selected.iloc[rows.train])
    X, y = transformer.transform(rows.selected), rows.classes[rows.target]
    # One thread: many small fits, in which more would wait for one another.
    with one_blas_thread(), one_torch_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        choice = choose(
            X[rows.train], y[rows.train], among, compared, budget=plan.budget, seed=plan.seed, on_fit=on_fit
        )
        on_fit("Judging the labels")
        judgement = judge(X, rows.target, rows.train, plan.seed, jobs, choice.fitted)
    held_out = rows.selected.iloc[rows.held_out]
    given = rows.labels.iloc[rows.held_out]
    if rows.groups is not None:
        options["groups"] = np.concatenate([rows.groups[rows.held_out], rows.unknown_groups])
    model = _model(rows, transformer, choice.fitted, rows.train)
    found = model.predict(held_out)
    target = label_indices(given.to_numpy(dtype=str), model.classes, len(given), plan.target)
    h, softmax = found.h, found.softmax
    if len(rows.unknown):
        strange = model.predict(rows.unknown)
        target = np.concatenate([target, np.full(len(rows.unknown), -1)])
        h, softmax = np.concatenate([h, strange.h]), np.concatenate([softmax, strange.softmax])
    certificate = certify(target, h, **options)
    with one_blas_thread(), one_torch_thread():
        on_fit("Shuffling columns")
        measures = measure(model.pipeline, found.label, rows, certificate, plan.noise, plan.seed)
    quality = _quality(found.margins, rows.target[rows.held_out], model.beta)
    if plan.groups is None and plan.time is None:  # prediction sets want rows that might stand in any order
        sets = calibrate(target, softmax, alpha=1 - plan.coverage, **_of_sets(plan))
        model = replace(model, sets=sets)
    set_size = 0.0 if model.sets is None else float(model.sets.predict(found.softmax).sum(1).mean())
    if plan.refit:  # without prediction sets: no rows are left to calibrate them on
        on_fit("Fitting to all rows")
        transformer = preprocessor(rows.selected).fit(rows.selected)
        again = fit_candidate(choice.candidate, transformer.transform(rows.selected), y, plan.seed)
        model = _model(rows, transformer, again, np.arange(len(y)))
    return TableFit(
        model=model,
        choice=choice,
        quality=quality,
        certificate=certificate,
        measures=measures,
        judgement=judgement,
        row_names=rows.names,
        n_train=len(rows.train),
        set_size=set_size,
        n_missing={name: int(rows.selected[name].isna().sum()) for name in rows.columns.kinds},
        left_out=[name for name in frame.columns if name not in (*rows.columns.kinds, plan.target, *plan.unlearnt)],
        notes=[
            *rows.notes,
            *notes_on(rows.frame, rows.selected, rows.labels, rows.columns),
            *dict.fromkeys(str(warning.message) for warning in caught),
            *_edges(choice),
        ],
    )


def _model(rows: Rows, transformer: Any, fitted: Any, trained: IntArray) -> TableModel:
    prints = np.sort(row_prints(rows.selected.iloc[trained], rows.labels.iloc[trained]))
    return TableModel(Pipeline([("columns", transformer), ("classifier", fitted)]), rows.columns, prints)


def _quality(f: NDArray[np.float64], target: IntArray, beta: float) -> dict[str, Any]:
    """Give accuracy, both errors of calibration, and the mean probability h of the other classes."""
    logits, own = torch.from_numpy(f), torch.from_numpy(target)
    right = minimax_probs(logits, beta=beta).gather(1, own[:, None])
    return evaluate(logits, own, beta) | {"randomized_error": float(1 - right.mean())}


def _of_sets(plan: FitPlan) -> dict[str, Any]:
    """Give what prediction sets may assume of wrong labels: a rate that is a lower bound says nothing of them."""
    if plan.noise == "any" and isinstance(plan.noise_rate, float) and plan.noise_rate < 1 - plan.coverage:
        return {"noise": plan.noise, "noise_rate": plan.noise_rate}
    return {}


class _Counter:
    """Counts fits, and says what is done."""

    def __init__(self, on_step: OnStep | None, total: int) -> None:
        self.on_step, self.total, self.done = on_step, total, 0

    def __call__(self, what: str) -> None:
        self.done += 1
        if self.on_step is not None:
            self.on_step(what, self.done, self.total)


def _edges(choice: Choice) -> list[str]:
    return [choice.candidate.edge] if choice.candidate.edge else []
