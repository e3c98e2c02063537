"""Choose a model on the training rows of a table, fit it to all rows, and judge the labels of all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from mgce._arrays import FloatArray, IntArray
from mgce._threads import one_blas_thread, one_torch_thread
from mgce.desk.columns.kinds import NUMBER, TEXT
from mgce.desk.tables.choice import (
    CORRECTING,
    CORRECTION,
    HEAD,
    WIDE,
    Choice,
    Weight,
    candidates,
    choose,
    estimator,
    unlearnt,
)
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.model import TableModel, row_prints
from mgce.desk.tables.rows import Rows
from mgce.desk.tables.text_features import reads_meaning
from mgce.desk.tables.text_features import transformer as features_of
from mgce.estimators import LabelCorrectionClassifier, MGCEEmbeddingClassifier
from mgce.labels.doubtful import DoubtfulLabels, doubtful_labels
from mgce.labels.out_of_fold import completed


@dataclass(frozen=True)
class Counts:
    """Numbers of distinct rows with each given label, and how many of their labels are expected to be wrong."""

    rows: IntArray  # (k,)
    look_wrong: IntArray  # (k,), rows whose label is more probably wrong than right
    expected: FloatArray  # (2,), of wrong labels, among the rows that look wrong and among the others

    @classmethod
    def of(cls, judged: DoubtfulLabels) -> Counts:
        """Count the rows of a judgement."""
        rows, k = judged.is_distinct, len(judged.classes)
        each, looks = (np.bincount(judged.target[some], minlength=k) for some in (rows, rows & judged.is_issue))
        return cls(each, looks, np.array(judged.expected_wrong))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.rows + other.rows, self.look_wrong + other.look_wrong, self.expected + other.expected)


def judge_labels(
    judge: LabelCorrectionClassifier | MGCEEmbeddingClassifier,
    source: str,
    X: NDArray[Any],
    target: IntArray,
    distinct: IntArray,
    first: IntArray,
) -> DoubtfulLabels:
    """Estimate how probably the given label of every row is wrong: see :func:`mgce.labels.doubtful.doubtful_labels`.

    A row that a person has dropped was not learnt from. The probabilities of its given label are q T, where the judge
    predicts the probabilities q of right labels, and T is its noise matrix. Heads have no T, so that q counts alone.

    Args:
        judge: the model that judges labels, fitted to the distinct rows.
        source: the name of this model.
        X: features of all rows, shape (n, d): n rows, d features.
        target: given labels, shape (n,), as indices of the judge's classes.
        distinct: indices of the distinct rows that were learnt from.
        first: for each row, the index of the distinct row that represents all its copies, shape (n,).
    """
    matrix = judge.transition_ if source == CORRECTION else np.eye(len(judge.classes_))
    probs = completed(unlearnt(judge), distinct, len(X), lambda others: judge.predict_proba(X[others]) @ matrix)
    return doubtful_labels(probs[first], target, classes=judge.classes_, first=first, X=X, source=source)


CURVE_ROWS = 50_000  # training rows from which on the model is fitted to a quarter too: a minute beside several


@dataclass(frozen=True)
class Learnt:
    """The results of learning from the training rows."""

    model: TableModel  # what was chosen, fitted to the training rows
    choice: Choice
    warned: list[str]  # of fits that did not converge, each sentence once, and what more rows would give


class Judge(NamedTuple):
    """A fitted model that judges labels, with its name."""

    name: str
    fitted: Any


Judged = tuple[TableModel, DoubtfulLabels, Judge]  # the model to use, the judgement of all labels, and who judged


def models_of(rows: Rows, plan: FitPlan, jobs: int) -> list[tuple[str, Any]]:
    """Return the names and unfitted estimators to choose among.

    Args:
        rows: the rows of the table.
        plan: the settings.
        jobs: number of trees that a forest grows at once; -1 for one on each core.
    """
    kinds, read = [*rows.columns.kinds.values()], reads_meaning(rows.columns.kinds)
    encoded = rows.columns.width > 0 or (read and {*kinds} == {TEXT})
    wide = read or (len(kinds) >= WIDE and {*kinds} == {NUMBER})
    names = candidates(plan.model, encoded=encoded, wide=wide)
    return [(name, estimator(name, plan.seed, jobs)) for name in names]


def learn(rows: Rows, plan: FitPlan, models: list[tuple[str, Any]], on_fit: Callable[[str], None]) -> Learnt:
    """Fit the models to the training rows, and choose one.

    Args:
        rows: the rows, with the labels to learn from.
        plan: the settings.
        models: what :func:`models_of` returned.
        on_fit: called before each fit with its description.
    """
    transformer = features_of(rows.selected, rows.columns.kinds, plan.seed).fit(rows.selected.iloc[rows.train])
    X, y = transformer.transform(rows.selected.iloc[rows.train]), rows.classes[rows.target[rows.train]]
    weight = _weight(rows, rows.train, plan)
    # These are small fits, in which several threads would mostly wait for one another.
    with one_blas_thread(), one_torch_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        choice = choose(X, y, models, on_fit=on_fit, weight=weight, balanced=plan.metric == "balanced")
        more = _what_more_rows_give(X, y, choice, plan, weight) if len(X) >= CURVE_ROWS else []
    warned = list(dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, ConvergenceWarning)))
    return Learnt(_model(rows, transformer, choice, rows.train, plan), choice, [*warned, *more])


def _what_more_rows_give(X: NDArray[Any], y: NDArray[Any], choice: Choice, plan: FitPlan, weight: Weight) -> list[str]:
    """Say what share of unlearnt labels a model predicts if it learns all training rows, and if it learns a quarter."""
    if choice.name not in CORRECTING:
        return []
    some = np.random.default_rng(plan.seed).permutation(len(X))[: len(X) // 4]
    model, weight = (choice.name, estimator(choice.name, plan.seed)), None if weight is None else weight[some]
    balanced = plan.metric == "balanced"
    fewer = choose(X[some], y[some], [model], on_fit=lambda _: None, weight=weight, balanced=balanced)
    few, many = (f"{one.trials[0].accuracy:.1%}" for one in (fewer, choice))
    return [
        f"What more rows give: of labels that it had not learnt, the model predicts {few} if it learns {len(some):,} "
        f"rows, and {many} if it learns {len(X):,}."
    ]


def refit(learnt: Learnt, rows: Rows, plan: FitPlan, jobs: int) -> Judged:
    """Return the chosen model fitted to all distinct rows, the judgement of all labels, and the model that judged."""
    distinct, name = rows.distinct, learnt.choice.name
    selected = rows.selected.iloc[distinct]
    transformer = features_of(rows.selected, rows.columns.kinds, plan.seed).fit(selected)
    X = transformer.transform(rows.selected)
    made = partial(estimator, seed=plan.seed, jobs=jobs)
    fitted, judge = learn_all(name, X[distinct], rows, plan, made)
    model = _model(rows, transformer, replace(learnt.choice, fitted=fitted), distinct, plan)
    judged = judge_labels(judge.fitted, judge.name, X, rows.target, distinct, rows.first)
    return replace(model, n_measured=len(rows.train)), judged, judge


def as_learnt(learnt: Learnt, rows: Rows, plan: FitPlan, jobs: int) -> Judged:
    """Return what :func:`refit` returns, but keep the model of the training rows: it learns no further rows."""
    X, train = learnt.model.pipeline[:-1].transform(rows.selected), rows.train
    alone, made = replace(rows, held_out=train[:0]), partial(estimator, seed=plan.seed, jobs=jobs)
    judge = _judge(learnt.choice.name, learnt.choice.fitted, X[train], alone, plan, made)
    judged = judge_labels(judge.fitted, judge.name, X, rows.target, train, rows.first)
    return replace(learnt.model, n_measured=len(train)), judged, judge


def learn_all(name: str, X: NDArray[Any], rows: Rows, plan: FitPlan, made: Callable[[str], Any]) -> tuple[Any, Judge]:
    """Return a model that was fitted to all distinct rows, and the model that judges their labels.

    Args:
        name: name of the model.
        X: the features of the distinct rows.
        rows: the rows.
        plan: the settings.
        made: returns an unfitted model by its name.
    """
    labels, weight = rows.classes[rows.target[rows.distinct]], _weight(rows, rows.distinct, plan)
    fitted = made(name).fit(X, labels, **({} if weight is None else {"sample_weight": weight}))
    return fitted, _judge(name, fitted, X, rows, plan, made)


def _judge(name: str, fitted: Any, X: NDArray[Any], rows: Rows, plan: FitPlan, made: Callable[[str], Any]) -> Judge:
    """Return the model that judges the labels of the distinct rows, with features X: `fitted`, or another model."""
    # For the balanced metric, rows have weights by which rare labels seem right.
    if name in CORRECTING and plan.metric != "balanced":
        return Judge(name, fitted)
    source = HEAD if name == HEAD else CORRECTION
    return Judge(source, made(source).fit(X, rows.classes[rows.target[rows.distinct]], rows.weight(rows.distinct)))


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


def _model(rows: Rows, transformer: Any, choice: Choice, trained: IntArray, plan: FitPlan) -> TableModel:
    """Return the model of a transformer and a classifier that were fitted to the rows with indices `trained`."""
    hashes = np.sort(row_prints(rows.selected.iloc[trained], rows.labels.iloc[trained]))
    # With the weights of the balanced metric, probabilities do not reflect how frequent classes are.
    corrects = choice.name in CORRECTING and plan.metric == "accuracy"
    steps = [("columns", transformer), ("classifier", choice.fitted)]
    return TableModel(Pipeline(steps), rows.columns, hashes, corrects=corrects)
