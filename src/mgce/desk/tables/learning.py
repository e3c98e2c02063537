"""Choose a model on the training rows of a table, fit it to all rows, and judge the labels of all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from mgce._threads import one_blas_thread, one_torch_thread
from mgce.desk.columns.kinds import NUMBER
from mgce.desk.tables.candidates import AUTO, WIDE, Baseline, Candidate, baselines, candidates, correction
from mgce.desk.tables.choice import HEAD_FITS, Choice, choose, choose_head, count_fits, fit_candidate
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.judging import judge, judge_by_head
from mgce.desk.tables.model import TableModel, row_prints
from mgce.desk.tables.rows import Rows
from mgce.desk.tables.text_features import transformer as features_of
from mgce.estimators import LabelCorrectionClassifier, MGCEEmbeddingClassifier
from mgce.labels.doubtful import DoubtfulLabels

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Contest:
    """The models among which one is chosen; none for embeddings, whose heads are chosen in another way."""

    among: Sequence[Candidate]
    compared: Sequence[Baseline]

    @classmethod
    def of(cls, rows: Rows, plan: FitPlan, jobs: int) -> Contest:
        """Return the models to try on a table.

        Args:
            rows: the rows of the table.
            plan: the settings.
            jobs: number of trees that a forest grows at once; -1 for one on each core.
        """
        if rows.columns.width > 0 and plan.model == AUTO:
            return cls([], [])
        n_classes = len(rows.classes)
        compared = baselines(plan.seed, n_classes)
        if plan.model != AUTO:  # then baselines are reported alone
            compared = [replace(baseline, final=None) for baseline in compared]
        kinds = rows.columns.kinds.values()
        wide = len(kinds) >= WIDE and set(kinds) == {NUMBER}
        return cls(candidates(plan.model, plan.beta, plan.seed, len(rows.train), jobs, wide=wide), compared)

    @property
    def n_fits(self) -> int:
        """The largest number of fits."""
        return count_fits(self.among, self.compared) if self.among else HEAD_FITS


@dataclass(frozen=True)
class Learnt:
    """The results of learning from the training rows."""

    model: TableModel  # what was chosen, fitted to the training rows
    choice: Choice
    warned: list[str]  # of fits that did not converge, each sentence once


def learn(rows: Rows, plan: FitPlan, contest: Contest, on_fit: Callable[[str], None]) -> Learnt:
    """Choose a model by cross-validation on the training rows, and fit it to them.

    Args:
        rows: the rows, with the labels to learn from.
        plan: the settings.
        contest: the models to choose among.
        on_fit: called before each fit with its description.
    """
    transformer = features_of(rows.selected, rows.columns.kinds, plan.seed).fit(rows.selected.iloc[rows.train])
    X, y = transformer.transform(rows.selected.iloc[rows.train]), rows.classes[rows.target[rows.train]]
    weight = _weight(rows, rows.train, plan)
    # These are many small fits, in which several threads would mostly wait for one another.
    with one_blas_thread(), one_torch_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        if contest.among:
            options: dict[str, Any] = {"budget": plan.budget, "balanced": plan.metric == "balanced"}
            models = contest.among, contest.compared
            choice = choose(X, y, *models, seed=plan.seed, weight=weight, on_fit=on_fit, **options)
        else:  # embeddings
            choice = choose_head(X, y, seed=plan.seed, on_fit=on_fit, weight=weight)
    warned = list(dict.fromkeys(str(one.message) for one in caught)) if contest.among else []
    return Learnt(_model(rows, transformer, choice.fitted, rows.train, plan), choice, warned)


def refit(choice: Choice, rows: Rows, plan: FitPlan, jobs: int) -> tuple[TableModel, DoubtfulLabels]:
    """Return the chosen model fitted to all distinct rows, and the judgement of the labels of all rows."""
    distinct = np.concatenate([rows.train, rows.held_out])
    selected, labels = rows.selected.iloc[distinct], rows.classes[rows.target[distinct]]
    transformer = features_of(rows.selected, rows.columns.kinds, plan.seed).fit(selected)
    X, weight = transformer.transform(rows.selected), _weight(rows, distinct, plan)
    fitted = fit_candidate(choice.candidate, X[distinct], labels, plan.seed, weight)
    model = replace(_model(rows, transformer, fitted, distinct, plan), n_measured=len(rows.train))
    if choice.out_of_fold is not None:  # embeddings
        return model, judge_by_head(choice, X, rows.target, rows.train, rows.first)
    judging = fitted
    # For the balanced metric, rows have weights by which rare labels seem right.
    judges = isinstance(fitted, LabelCorrectionClassifier | MGCEEmbeddingClassifier)
    if not judges or plan.metric == "balanced":
        judging = correction(plan.seed, jobs).fit(X[distinct], labels, rows.weight(distinct))
    return model, judge(judging, X, rows.target, distinct, rows.first)


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


def _model(rows: Rows, transformer: Any, classifier: Any, trained: IntArray, plan: FitPlan) -> TableModel:
    """Return the model of a fitted transformer and classifier, which were fitted to the rows with indices `trained`."""
    hashes = np.sort(row_prints(rows.selected.iloc[trained], rows.labels.iloc[trained]))
    # With the weights of the balanced metric, probabilities do not reflect how frequent classes are.
    corrects = isinstance(classifier, LabelCorrectionClassifier) and plan.metric == "accuracy"
    steps = [("columns", transformer), ("classifier", classifier)]
    return TableModel(Pipeline(steps), rows.columns, hashes, corrects=corrects)
